"""oahu: online adaptive metric learning.

Public names are imported on first use, because importing scikit-learn alone takes a second.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from oahu.version import __version__

if TYPE_CHECKING:
    from oahu.client import Client
    from oahu.constraints import (
        Click,
        Clicks,
        ConstraintGraph,
        Pair,
        Pairs,
        Triplet,
        Triplets,
        TupleTransformer,
        closure,
        sample_pairs,
        sample_triplets,
    )
    from oahu.exceptions import (
        ContradictionError,
        DatasetError,
        InvalidInputError,
        InvalidTypeError,
        ModelFileError,
        NoDistanceError,
        NotFittedError,
        OAHUError,
        OverflowedItemError,
        RejectedConstraintError,
        ServiceRequestError,
        ServiceTimeoutError,
        StreamError,
    )
    from oahu.io.features import read_features, read_labels
    from oahu.io.streams import read_stream, write_stream
    from oahu.learners import (
        LEARNERS,
        LEGO,
        OAHU,
        OASIS,
        OPML,
        POLA,
        RDML,
        SOML,
        SORS,
        AdaSORS,
        AnchoredOAHU,
        Cosine,
        Euclidean,
        Learner,
        PairLearner,
        TripletLearner,
    )
    from oahu.loading import load
    from oahu.metrics import (
        AnchoredMetric,
        BilinearMetric,
        CosineMetric,
        EnsembleMetric,
        EuclideanMetric,
        MahalanobisMetric,
    )
    from oahu.tasks import (
        Classifier,
        Comparator,
        Match,
        PairComparison,
        RetrievalResult,
        RetrievalResults,
        Retriever,
        Roc,
        SpaceVote,
    )

__all__ = [
    "LEARNERS",
    "LEGO",
    "OAHU",
    "OASIS",
    "OPML",
    "POLA",
    "RDML",
    "SOML",
    "SORS",
    "AdaSORS",
    "AnchoredMetric",
    "AnchoredOAHU",
    "BilinearMetric",
    "Classifier",
    "Click",
    "Clicks",
    "Client",
    "Comparator",
    "ConstraintGraph",
    "ContradictionError",
    "Cosine",
    "CosineMetric",
    "DatasetError",
    "EnsembleMetric",
    "Euclidean",
    "EuclideanMetric",
    "InvalidInputError",
    "InvalidTypeError",
    "Learner",
    "MahalanobisMetric",
    "Match",
    "ModelFileError",
    "NoDistanceError",
    "NotFittedError",
    "OAHUError",
    "OverflowedItemError",
    "Pair",
    "PairComparison",
    "PairLearner",
    "Pairs",
    "RejectedConstraintError",
    "RetrievalResult",
    "RetrievalResults",
    "Retriever",
    "Roc",
    "ServiceRequestError",
    "ServiceTimeoutError",
    "SpaceVote",
    "StreamError",
    "Triplet",
    "TripletLearner",
    "Triplets",
    "TupleTransformer",
    "__version__",
    "closure",
    "load",
    "read_features",
    "read_labels",
    "read_stream",
    "sample_pairs",
    "sample_triplets",
    "write_stream",
]

_PACKAGES = (
    "oahu.exceptions",
    "oahu.constraints",
    "oahu.io.features",
    "oahu.io.streams",
    "oahu.metrics",
    "oahu.learners",
    "oahu.tasks",
    "oahu.loading",
)


if not TYPE_CHECKING:  # type checkers see the imports above, so that they report names that do not exist

    def __getattr__(name: str) -> Any:
        if name == "Client":  # needs the extra "client"
            value = globals()[name] = import_module("oahu.client").Client
            return value
        if name in __all__:
            for package in map(import_module, _PACKAGES):
                if name in package.__all__:
                    value = globals()[name] = getattr(package, name)
                    return value
        raise AttributeError(f"module 'oahu' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
