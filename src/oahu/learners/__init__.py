"""What changes: online learners under one contract, and loading what was saved of them."""

from oahu.learners.oahu import OAHU
from oahu.metrics.files import load

__all__ = ["OAHU", "load"]
