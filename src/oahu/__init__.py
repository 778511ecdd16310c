"""oahu: similarity metrics that change with every piece of feedback that arrives.

The public names are loaded when they are first used: scikit-learn alone takes a second to import.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from oahu.version import __version__

if TYPE_CHECKING:
    from oahu.constraints import Pair, Pairs, Triplet, Triplets, TupleTransformer, sample_pairs, sample_triplets
    from oahu.exceptions import (
        InvalidInputError,
        InvalidTypeError,
        ModelFileError,
        NoDistanceError,
        NotFittedError,
        OAHUError,
        OverflowedItemError,
        RefusedConstraintError,
    )
    from oahu.learners import (
        LEGO,
        OAHU,
        OASIS,
        OPML,
        POLA,
        RDML,
        SOML,
        SORS,
        AdaSORS,
        Cosine,
        Euclidean,
        load,
    )
    from oahu.metrics import BilinearMetric, CosineMetric, EnsembleMetric, EuclideanMetric, MahalanobisMetric

__all__ = [
    "LEGO",
    "OAHU",
    "OASIS",
    "OPML",
    "POLA",
    "RDML",
    "SOML",
    "SORS",
    "AdaSORS",
    "BilinearMetric",
    "Cosine",
    "CosineMetric",
    "EnsembleMetric",
    "Euclidean",
    "EuclideanMetric",
    "InvalidInputError",
    "InvalidTypeError",
    "MahalanobisMetric",
    "ModelFileError",
    "NoDistanceError",
    "NotFittedError",
    "OAHUError",
    "OverflowedItemError",
    "Pair",
    "Pairs",
    "RefusedConstraintError",
    "Triplet",
    "Triplets",
    "TupleTransformer",
    "__version__",
    "load",
    "sample_pairs",
    "sample_triplets",
]

_ROOMS = ("oahu.exceptions", "oahu.constraints", "oahu.metrics", "oahu.learners")


def __getattr__(name: str) -> Any:
    if name in __all__:
        for room in map(import_module, _ROOMS):
            if name in room.__all__:
                value = globals()[name] = getattr(room, name)
                return value
    raise AttributeError(f"module 'oahu' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
