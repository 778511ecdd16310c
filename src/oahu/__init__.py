"""oahu: similarity metrics that change with every piece of feedback that arrives."""

from oahu.constraints import TupleTransformer, sample_triplets
from oahu.exceptions import (
    InvalidInputError,
    InvalidTypeError,
    ModelFileError,
    NotFittedError,
    OAHUError,
    OverflowedItemError,
    RefusedConstraintError,
)
from oahu.learners import OAHU
from oahu.metrics import EnsembleMetric, load
from oahu.version import __version__

__all__ = [
    "OAHU",
    "EnsembleMetric",
    "InvalidInputError",
    "InvalidTypeError",
    "ModelFileError",
    "NotFittedError",
    "OAHUError",
    "OverflowedItemError",
    "RefusedConstraintError",
    "TupleTransformer",
    "__version__",
    "load",
    "sample_triplets",
]
