"""The store: what was said and what there is, durably."""

from oahu.service.store.interface import Commit, Store, Transaction
from oahu.service.store.sqlite import SQLiteStore

__all__ = ["Commit", "SQLiteStore", "Store", "Transaction"]
