"""What changes: online learners under one contract."""

from oahu.learners.oahu import OAHU

__all__ = ["OAHU"]
