"""Data types that the components of the service share.

Clients identify an item by its key. The service identifies an item internally by its item number. An item gets a
new item number when its features change, and item numbers are never reused. A replay of the log therefore gives the
same model, even if items were replaced or deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from oahu.constraints import Pair, Triplet
from oahu.metrics import Metric
from oahu.tasks.indexed_items import VoteMode

__all__ = [
    "AddedItem",
    "Calibration",
    "CatalogueChange",
    "CatalogueItem",
    "Change",
    "Click",
    "CollectionConfig",
    "ExampleKind",
    "FeedbackRecord",
    "HistoryPoint",
    "LoggedChange",
    "ModelReplacement",
    "NewItem",
    "PublishedMetric",
    "Receipt",
    "TrainingEntry",
    "Undo",
    "UndoEntry",
    "active_undo_ranges",
    "change_from_json",
    "change_to_json",
    "constraints_of",
    "first_changed_seq",
    "is_undone",
    "undone_between",
]


# -- feedback ------------------------------------------------------------------------------------------------


class Click(NamedTuple):
    """Feedback about the results of a search: some results are similar to the query, some are dissimilar."""

    query: Any
    positive: tuple[Any, ...]
    negative: tuple[Any, ...]


#: One feedback record. Items are given by their keys in requests and by their numbers in the log.
FeedbackRecord = Triplet | Pair | Click

#: What a learner is trained on.
ExampleKind = Literal["pairs", "triplets", "clicks"]


class Undo(NamedTuple):
    """An undo of the log entries from ``first`` to ``last``: feedback, model replacements and undos."""

    first: int
    last: int


class ModelReplacement(NamedTuple):
    """A replacement of the learner by the learner in a model file.

    The store contains the model file under the sequence number of this log entry.
    """

    sha256: str


#: The content of a log entry.
Change = FeedbackRecord | Undo | ModelReplacement


class LoggedChange(NamedTuple):
    """One entry of the feedback log."""

    seq: int
    time: float
    change: Change


class UndoEntry(NamedTuple):
    """An undo and its sequence number."""

    seq: int
    first: int
    last: int


class TrainingEntry(NamedTuple):
    """The part of a log entry that the learner needs.

    Attributes
    ----------
    examples : bytes or None
        The encoded training examples of a feedback record (see `oahu.service.training_examples`). None for an undo
        and for a model replacement.
    replaces_model : bool
        Whether the entry is a model replacement.
    """

    seq: int
    examples: bytes | None
    replaces_model: bool


def constraints_of(record: FeedbackRecord) -> list[Pair | Triplet]:
    """Return the constraints of a feedback record.

    A click is converted to the smallest set of triplets in which every positive and every negative item occurs.
    These triplets imply all other combinations of a positive and a negative item. A click without positive items or
    without negative items is converted to pairs.

    >>> constraints_of(Click("a", ("b", "c"), ("d",)))
    [Triplet(anchor='a', positive='b', negative='d'), Triplet(anchor='a', positive='c', negative='d')]
    >>> constraints_of(Click("a", (), ("d",)))
    [Pair(first='a', second='d', same=False)]
    """
    if not isinstance(record, Click):
        return [record]
    query, positive, negative = record
    if positive and negative:
        n = max(len(positive), len(negative))
        return [Triplet(query, positive[i % len(positive)], negative[i % len(negative)]) for i in range(n)]
    return [Pair(query, other, bool(positive)) for other in positive or negative]


def active_undo_ranges(undos: Iterable[UndoEntry]) -> list[tuple[int, int]]:
    """Return the ranges (first, last) of all undos that were not undone.

    >>> active_undo_ranges([UndoEntry(3, 1, 1), UndoEntry(5, 2, 2), UndoEntry(6, 4, 5)])
    [(1, 1), (4, 5)]
    """
    ranges: list[tuple[int, int]] = []
    for seq, first, last in sorted(undos, reverse=True):
        if not is_undone(seq, ranges):
            ranges.append((first, last))
    return ranges[::-1]


def is_undone(seq: int, ranges: Iterable[tuple[int, int]]) -> bool:
    """Return whether the sequence number of a log entry is in one of the undone ranges."""
    return any(first <= seq <= last for first, last in ranges)


def undone_between(ranges: Iterable[tuple[int, int]], begin: int, end: int) -> set[int]:
    """Return the undone sequence numbers from ``begin`` to ``end``.

    >>> sorted(undone_between([(1, 3), (7, 10**12)], 2, 8))
    [2, 3, 7, 8]
    """
    return {seq for first, last in ranges for seq in range(max(first, begin), min(last, end) + 1)}


def first_changed_seq(undos: Iterable[UndoEntry], undo: Undo | UndoEntry) -> int:
    """Return the sequence number of the first log entry that an additional undo activates or deactivates.

    If ``undo`` undoes an older undo, this log entry can precede ``undo.first``.

    >>> first_changed_seq([UndoEntry(3, 1, 1)], Undo(2, 3))
    1
    """
    changed = undo.first
    for seq, first, _ in sorted(undos, reverse=True):
        changed = min(changed, first) if seq >= changed else changed
    return changed


def change_to_json(change: Change) -> list[Any]:
    """Return a log change as JSON data. The store saves changes in this form."""
    return [_KIND_NAMES[type(change)], *change]


def change_from_json(packed: list[Any]) -> Change:
    """Return the change that `change_to_json` encoded."""
    kind, *values = packed
    if kind == "click":
        query, positive, negative = values
        return Click(query, tuple(positive), tuple(negative))
    change: Change = _KINDS[kind](*values)
    return change


_KIND_NAMES = {Triplet: "triplet", Pair: "pair", Click: "click", Undo: "undo", ModelReplacement: "model"}
_KINDS: dict[str, Any] = {name: kind for kind, name in _KIND_NAMES.items()}


class Receipt(NamedTuple):
    """The sequence numbers of accepted feedback. ``replayed`` is True for a repeated request."""

    first_seq: int
    last_seq: int
    replayed: bool = False


# -- items ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NewItem:
    """A new item for the catalogue. ``vector`` contains the features as bytes."""

    key: str
    vector: bytes
    label: str | None = None
    payload: dict[str, Any] | None = None
    thumbnail: bytes | None = None
    text: str | None = None  # the text that was encoded


@dataclass(frozen=True)
class CatalogueItem:
    """A stored item, without its features."""

    key: str
    number: int
    label: str | None
    payload: dict[str, Any] | None
    has_thumbnail: bool


class AddedItem(NamedTuple):
    """An item that received a new item number."""

    number: int
    key: str
    label: str | None
    vector: bytes


@dataclass(frozen=True)
class CatalogueChange:
    """A change of the catalogue.

    Attributes
    ----------
    added : list of AddedItem
    relabelled : list of (number, label)
    removed : list of int
        The item numbers of removed items, and the old item numbers of replaced items.
    purged : list of int
        The removed item numbers for which the features were deleted, because neither the log nor the calibration
        refers to them.
    """

    added: list[AddedItem] = field(default_factory=list)
    relabelled: list[tuple[int, str | None]] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)
    purged: list[int] = field(default_factory=list)


# -- collections ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CollectionConfig:
    """The settings of a collection."""

    name: str
    dimension: int
    learner: str = "AnchoredOAHU"
    parameters: dict[str, Any] = field(default_factory=dict)
    closure: int = 0
    contradictions: Literal["reject", "newest"] = "reject"
    vote: VoteMode = "experts"
    encoder: Literal["lsa"] | None = None  # None: the encoder of the service, if it has one


@dataclass(frozen=True)
class Calibration:
    """Labelled pairs of item numbers, and a target.

    For every new metric, the thresholds are chosen from these pairs.
    """

    pairs: tuple[tuple[int, int, bool], ...]
    target: dict[str, Any]
    seq: int  # last sequence number of the log at the time of the calibration

    @property
    def numbers(self) -> set[int]:
        """The item numbers in the pairs."""
        return {number for pair in self.pairs for number in pair[:2]}


@dataclass(frozen=True)
class HistoryPoint:
    """The weights of the metric at one version."""

    version: int
    constraints: int
    weights: tuple[float, ...]
    error_rate: float | None
    time: float


@dataclass(frozen=True, eq=False)
class PublishedMetric:
    """A metric for queries, and the part of the log that it has learned.

    Attributes
    ----------
    version : int
        The sequence number of the last learned log entry.
    constraints : int
        The number of learned constraints.
    error_rate : float or None
        The recent share of triplets that the metric ranked wrongly before it was trained on them. None if there was
        no triplet yet.
    """

    metric: Metric
    version: int
    constraints: int
    error_rate: float | None
    time: float

    @property
    def weights(self) -> dict[str, float]:
        """The weight of every space of the metric. For OAHU, a space is an expert."""
        spaces = getattr(self.metric, "weighted_spaces", self.metric.spaces)
        return {space.name: space.weight for space in spaces}

    @property
    def history_point(self) -> HistoryPoint:
        """The version, the weights and the error rate, as an entry of the history."""
        return HistoryPoint(
            self.version, self.constraints, tuple(self.weights.values()), self.error_rate, self.time
        )

    def describe(self, last_seq: int) -> dict[str, Any]:
        """Return the state of the metric as JSON data. ``last_seq`` is the last sequence number of the log."""
        return {
            "metric_version": self.version,
            "constraints": self.constraints,
            "weights": self.weights,
            "error_rate": self.error_rate,
            "pending_feedback": max(0, last_seq - self.version),
        }
