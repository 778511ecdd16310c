"""What passes between the parts of the service: plain values.

Items have keys outside and numbers inside: a number stands for a key with certain features, and is never given to
another. So the log can be learned again after items were replaced or deleted, and gives the same model.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from oahu.constraints import Pair, Triplet
from oahu.metrics import Metric
from oahu.tasks.indexed_items import VoteMode

__all__ = [
    "Calibration",
    "CatalogueChange",
    "CatalogueItem",
    "Change",
    "Click",
    "CollectionConfig",
    "FeedbackRecord",
    "HistoryPoint",
    "LoggedChange",
    "ModelReplacement",
    "NewItem",
    "PublishedMetric",
    "Receipt",
    "Undo",
    "active_undo_ranges",
    "change_from_json",
    "change_to_json",
    "constraints_of",
    "is_undone",
]


# -- what is said --------------------------------------------------------------------------------------------


class Click(NamedTuple):
    """Of what a search for ``query`` found, some are alike and some are not."""

    query: Any
    positive: tuple[Any, ...]
    negative: tuple[Any, ...]


#: A piece of feedback; its items are keys outside, and numbers inside.
FeedbackRecord = Triplet | Pair | Click


class Undo(NamedTuple):
    """Entries of the log from ``first`` to ``last`` do not count any more: feedback, models, and undoings too."""

    first: int
    last: int


class ModelReplacement(NamedTuple):
    """The model was replaced by a file, which the store keeps under the same sequence number."""

    sha256: str


Change = FeedbackRecord | Undo | ModelReplacement


class LoggedChange(NamedTuple):
    """One line of the log."""

    seq: int
    time: float
    change: Change


def constraints_of(piece: FeedbackRecord) -> list[Pair | Triplet]:
    """What a piece of feedback says, as constraints.

    A click makes as many triplets as it needs to name every positive and every negative once; the others follow.

    >>> constraints_of(Click("a", ("b", "c"), ("d",)))
    [Triplet(anchor='a', positive='b', negative='d'), Triplet(anchor='a', positive='c', negative='d')]
    >>> constraints_of(Click("a", (), ("d",)))
    [Pair(first='a', second='d', same=False)]
    """
    if not isinstance(piece, Click):
        return [piece]
    query, likes, unlikes = piece
    if likes and unlikes:
        n = max(len(likes), len(unlikes))
        return [Triplet(query, likes[i % len(likes)], unlikes[i % len(unlikes)]) for i in range(n)]
    return [Pair(query, other, bool(likes)) for other in likes or unlikes]


def active_undo_ranges(undos: Iterable[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """From where to where the log is undone, by undoings (number, first, last) that were not undone themselves.

    >>> active_undo_ranges([(3, 1, 1), (5, 2, 2), (6, 4, 5)])
    [(1, 1), (4, 5)]
    """
    found: list[tuple[int, int]] = []
    for seq, first, last in sorted(undos, reverse=True):
        if not is_undone(seq, found):
            found.append((first, last))
    return found[::-1]


def is_undone(seq: int, undone: Iterable[tuple[int, int]]) -> bool:
    """Whether an entry of the log does not count any more."""
    return any(first <= seq <= last for first, last in undone)


def change_to_json(change: Change) -> list[Any]:
    """A change as plain JSON, for the log."""
    return [_LETTERS[type(change)], *change]


def change_from_json(packed: list[Any]) -> Change:
    """What `change_to_json` packed."""
    letter, *values = packed
    if letter == "click":
        query, likes, unlikes = values
        return Click(query, tuple(likes), tuple(unlikes))
    change: Change = _KINDS[letter](*values)
    return change


_LETTERS = {Triplet: "triplet", Pair: "pair", Click: "click", Undo: "undo", ModelReplacement: "model"}
_KINDS: dict[str, Any] = {letter: kind for kind, letter in _LETTERS.items()}


class Receipt(NamedTuple):
    """What was accepted: the sequence numbers, and whether that was said in answer to the same request before."""

    first_seq: int
    last_seq: int
    replayed: bool = False


# -- items ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NewItem:
    """An item as it arrives; its features are the bytes of a row."""

    key: str
    vector: bytes
    label: str | None = None
    payload: dict[str, Any] | None = None
    thumbnail: bytes | None = None


@dataclass(frozen=True)
class CatalogueItem:
    """An item as it is kept."""

    key: str
    number: int
    label: str | None
    payload: dict[str, Any] | None
    has_thumbnail: bool


@dataclass(frozen=True)
class CatalogueChange:
    """What became of the items: (number, key, label, features) that are new, and numbers that are gone.

    Of those that are gone, nothing refers to the ``forgotten`` ones any more.
    """

    added: list[tuple[int, str, str | None, bytes]] = field(default_factory=list)
    labelled: list[tuple[int, str | None]] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)
    forgotten: list[int] = field(default_factory=list)


# -- collections ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CollectionConfig:
    """What a collection was created with."""

    name: str
    dimension: int
    learner: str = "AnchoredOAHU"
    parameters: dict[str, Any] = field(default_factory=dict)
    closure: int = 1
    contradictions: Literal["refuse", "newest"] = "refuse"
    vote: VoteMode = "experts"


@dataclass(frozen=True)
class Calibration:
    """What a collection's thresholds are chosen by: labelled pairs of numbers, and a target."""

    pairs: tuple[tuple[int, int, bool], ...]
    target: dict[str, Any]
    seq: int  # how long the log was: tells calibrations apart


@dataclass(frozen=True)
class HistoryPoint:
    """How the metric was weighted at a version."""

    version: int
    constraints: int
    weights: tuple[float, ...]
    loss: float | None
    time: float


@dataclass(frozen=True, eq=False)
class PublishedMetric:
    """A metric that searches use, and what of the log it has learned.

    Attributes
    ----------
    version : int
        The sequence number of the log up to which everything is in it.
    constraints : int
        How many constraints the learner has learned.
    loss : float or None
        The share of triplets that the metric had ordered wrong before it learned them, lately.
    """

    metric: Metric
    version: int
    constraints: int
    loss: float | None
    time: float

    @property
    def weights(self) -> dict[str, float]:
        """How much every part of the metric counts, such as every depth of OAHU."""
        return {part.name: part.weight for part in getattr(self.metric, "parts", self.metric.spaces)}

    @property
    def moment(self) -> HistoryPoint:
        return HistoryPoint(self.version, self.constraints, tuple(self.weights.values()), self.loss, self.time)
