"""Online learners, which all have the same interface.

The module of a learner is imported on first use, because most of these modules import numba.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from oahu.io.class_registry import LEARNER_MODULES

if TYPE_CHECKING:
    from oahu.learners.anchored import AnchoredOAHU
    from oahu.learners.base import Learner
    from oahu.learners.fixed_learners import Cosine, Euclidean
    from oahu.learners.kinds import PairLearner, ScoresOnlyMixin, TripletLearner
    from oahu.learners.lego import LEGO
    from oahu.learners.oahu import OAHU
    from oahu.learners.oasis import OASIS
    from oahu.learners.opml import OPML
    from oahu.learners.pola import POLA
    from oahu.learners.rdml import RDML
    from oahu.learners.soml import SOML
    from oahu.learners.sors import SORS, AdaSORS

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
    "AnchoredOAHU",
    "Cosine",
    "Euclidean",
    "Learner",
    "PairLearner",
    "ScoresOnlyMixin",
    "TripletLearner",
]

#: The names of the built-in learners.
LEARNERS: Final = tuple(LEARNER_MODULES)

_MODULES: Final = {
    **LEARNER_MODULES,
    "Learner": "oahu.learners.base",
    "PairLearner": "oahu.learners.kinds",
    "ScoresOnlyMixin": "oahu.learners.kinds",
    "TripletLearner": "oahu.learners.kinds",
}

if not TYPE_CHECKING:  # type checkers see the imports above, so that they report names that do not exist

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return getattr(import_module(_MODULES[name]), name)
        raise AttributeError(f"module 'oahu.learners' has no attribute {name!r}")
