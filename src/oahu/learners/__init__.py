"""What changes: online learners under one contract, and loading what was saved of them.

A learner's module is imported when it is first used: most of them bring numba along.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from oahu.io import model_files
from oahu.io.model_files import load

if TYPE_CHECKING:
    from oahu.learners.anchored import AnchoredOAHU
    from oahu.learners.fixed import Cosine, Euclidean
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
    "load",
]

_HOMES = {
    "OAHU": "oahu.learners.oahu",
    "AnchoredOAHU": "oahu.learners.anchored",
    "LEGO": "oahu.learners.lego",
    "RDML": "oahu.learners.rdml",
    "OASIS": "oahu.learners.oasis",
    "OPML": "oahu.learners.opml",
    "POLA": "oahu.learners.pola",
    "SOML": "oahu.learners.soml",
    "SORS": "oahu.learners.sors",
    "AdaSORS": "oahu.learners.sors",
    "Euclidean": "oahu.learners.fixed",
    "Cosine": "oahu.learners.fixed",
}

#: The names of all learners.
LEARNERS = tuple(_HOMES)

model_files.homes.update(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'oahu.learners' has no attribute {name!r}")
