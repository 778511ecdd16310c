"""Durable storage: the store interface and its SQLite implementation."""

from oahu.service.store.interface import Commit, Store, StoreReader, Transaction
from oahu.service.store.sqlite import SQLiteStore

__all__ = ["Commit", "SQLiteStore", "Store", "StoreReader", "Transaction"]
