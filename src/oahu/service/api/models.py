"""What is sent and answered, as JSON."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    FailFast,
    Field,
    FiniteFloat,
    JsonValue,
    StringConstraints,
    Tag,
    model_validator,
)

__all__ = [
    "AnItem",
    "Answer",
    "Calibrate",
    "Calibrated",
    "Candidates",
    "Classification",
    "Classify",
    "ClassifyByKey",
    "ClassifyByVector",
    "ClickEntry",
    "ClickIn",
    "CollectionIn",
    "CollectionOut",
    "Collections",
    "Compare",
    "Comparison",
    "Deleted",
    "Feedback",
    "FeedbackLog",
    "History",
    "ItemByKey",
    "ItemByVector",
    "ItemIn",
    "ItemOut",
    "Items",
    "ItemsIn",
    "Keys",
    "LogEntry",
    "MatchOut",
    "ModelEntry",
    "MomentOut",
    "Name",
    "PairEntry",
    "PairIn",
    "PieceIn",
    "Received",
    "Restore",
    "Search",
    "SearchByKey",
    "SearchByVector",
    "SearchOut",
    "Stored",
    "TripletEntry",
    "TripletIn",
    "UndoEntry",
    "Undone",
    "Vote",
]

_NO_CONTROL = r"^[^\x00-\x1f\x7f]+$"
_DOTS = re.compile(r"(^|[/\\])\.{1,2}($|[/\\])")


class _FailFast(FailFast):
    """Stop at the first error of a list: a million wrong numbers are not to be a million errors."""

    __hash__ = object.__hash__  # unions want that of their parts


_FIRST = _FailFast()


def _addressable(key: str) -> str:
    if _DOTS.search(key):
        raise ValueError("'.' and '..' cannot be parts of a key: an address with them means another one")
    return key


Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Key = Annotated[
    str, StringConstraints(min_length=1, max_length=512, pattern=_NO_CONTROL), AfterValidator(_addressable)
]
Label = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=_NO_CONTROL)]
Base64 = Annotated[str, StringConstraints(min_length=4, pattern=r"^[A-Za-z0-9+/]+={0,2}$")]
Vector = Annotated[
    Annotated[list[FiniteFloat], _FIRST, Tag("<numbers>")] | Annotated[Base64, Tag("<base64>")],
    Discriminator(lambda given: "<base64>" if isinstance(given, str) else "<numbers>"),
    Field(description="Features: numbers, or the base64 of their little-endian float32."),
]
K = Annotated[int, Field(ge=1, le=1_000_000, description="How many.")]


class _In(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _no_more(cls, given: Any) -> Any:
        """Refuse too many fields at the first that is unknown, for the same reason."""
        if isinstance(given, dict) and len(given) > len(cls.model_fields):
            unknown = next(name for name in given if name not in cls.model_fields)
            raise ValueError(f"there is no field {unknown[:100]!r}: there are {', '.join(cls.model_fields)}")
        return given


def _by(**fields: str) -> Discriminator:
    """Tell forms of a request apart by a field that only one of them has. Their tags are no places in a request."""

    def form(given: Any) -> str | None:
        names = given if isinstance(given, dict) else vars(given) if isinstance(given, BaseModel) else ()
        return next((f"<{form}>" for form, field in fields.items() if field in names), None)

    wanted = " or ".join(map(repr, fields.values()))
    return Discriminator(
        form, custom_error_type="form", custom_error_message=f"there must be an object with a field {wanted}"
    )


# -- collections ---------------------------------------------------------------------------------------------


class CollectionIn(_In):
    """A new collection."""

    name: Name
    dimension: int = Field(ge=1, le=1_000_000, description="The number of features of an item.")
    learner: Annotated[str, StringConstraints(max_length=64)] = Field(
        "AnchoredOAHU", description="As in oahu.LEARNERS."
    )
    parameters: dict[str, JsonValue] = Field({}, description="Of the learner, as its documentation has them.")
    closure: int = Field(
        1, ge=0, le=100, description="How many more constraints are learned that follow from each that is given."
    )
    contradictions: Literal["refuse", "newest"] = Field(
        "refuse", description="Refuse feedback that contradicts what was said before, or believe the newest."
    )
    vote: Literal["experts", "joint"] = Field("experts", description="Ask every space, or their joint vectors.")


class Candidates(BaseModel):
    """How old the embedding is that candidates come from."""

    metric_version: int
    constraints_behind: int = Field(description="Constraints that were learned since.")
    age_seconds: float


class CollectionOut(BaseModel):
    """A collection."""

    name: str
    dimension: int
    learner: str
    parameters: dict[str, JsonValue]
    closure: int
    contradictions: str
    vote: str
    created: float = Field(description="Seconds since 1970.")
    items: int
    feedback: int = Field(description="The last sequence number of the log.")
    metric_version: int = Field(description="The sequence number up to which everything is learned.")
    constraints: int = Field(description="How many constraints the metric has learned.")
    weights: dict[str, float] = Field(description="How much every part of the metric counts.")
    loss: float | None = Field(description="The share of triplets that came as a surprise, lately.")
    behind: int = Field(description="Entries of the log that are not learned yet.")
    candidates: Candidates
    calibrated: bool
    ready: bool
    learner_error: str | None


class Collections(BaseModel):
    """All collections."""

    collections: list[CollectionOut]


# -- items ---------------------------------------------------------------------------------------------------


class ItemIn(_In):
    """An item to add or to replace."""

    key: Key
    vector: Vector
    label: Label | None = None
    payload: dict[str, JsonValue] | None = Field(None, description="Whatever belongs to it, up to 64 KiB of JSON.")
    thumbnail: Base64 | None = Field(None, description="A PNG, JPEG, WebP or GIF in base64, up to 256 KiB.")


class ItemsIn(_In):
    """Items to add or to replace: all of them, or none."""

    items: Annotated[list[ItemIn], _FIRST] = Field(min_length=1)


class Keys(_In):
    """Items by key."""

    keys: Annotated[list[Key], _FIRST] = Field(min_length=1)


class Stored(BaseModel):
    """What became of the items."""

    stored: int


class Deleted(BaseModel):
    """What was deleted."""

    deleted: int


class ItemOut(BaseModel):
    """An item, without its features unless they were asked for."""

    key: str
    label: str | None
    payload: dict[str, JsonValue] | None
    has_thumbnail: bool
    vector: list[float] | None = None


class Items(BaseModel):
    """Some of the items, in the order in which they were added."""

    items: list[ItemOut]
    next: int | None = Field(description="Pass it as ``after`` for the next page; null at the end.")


# -- feedback ------------------------------------------------------------------------------------------------


class TripletIn(_In):
    """The anchor is like the positive, and unlike the negative."""

    anchor: Key
    positive: Key
    negative: Key

    @model_validator(mode="after")
    def _distinct(self) -> TripletIn:
        if len({self.anchor, self.positive, self.negative}) < 3:
            raise ValueError("anchor, positive and negative must be three items")
        return self


class PairIn(_In):
    """Two items are alike, or they are not."""

    first: Key
    second: Key
    same: bool

    @model_validator(mode="after")
    def _distinct(self) -> PairIn:
        if self.first == self.second:
            raise ValueError("first and second must be two items")
        return self


class ClickIn(_In):
    """Of what a search found, some are alike and some are not."""

    query: Key
    positive: Annotated[list[Key], _FIRST] = Field([], max_length=100)
    negative: Annotated[list[Key], _FIRST] = Field([], max_length=100)

    @model_validator(mode="after")
    def _distinct(self) -> ClickIn:
        said = [self.query, *self.positive, *self.negative]
        if len(said) < 2:
            raise ValueError("there must be a positive or a negative")
        if len(set(said)) < len(said):
            raise ValueError("query, positive and negative must all be different items")
        return self


PieceIn = Annotated[
    Annotated[TripletIn, Tag("<triplet>")] | Annotated[PairIn, Tag("<pair>")] | Annotated[ClickIn, Tag("<click>")],
    _by(triplet="anchor", pair="first", click="query"),
]


class Feedback(_In):
    """Pieces of feedback, in order: all of them are accepted, or none."""

    feedback: Annotated[list[PieceIn], _FIRST] = Field(min_length=1)


class Received(BaseModel):
    """Feedback is on disk, and will be learned in this order."""

    accepted: int
    first_seq: int
    last_seq: int
    replayed: bool = Field(description="Whether the same request was answered before; then nothing was added.")


class _Entry(BaseModel):
    seq: int
    time: float
    counts: bool = Field(description="False if it was undone.")


class TripletEntry(_Entry):
    """Someone said that the anchor is like the positive, and unlike the negative."""

    kind: Literal["triplet"]
    anchor: str
    positive: str
    negative: str


class PairEntry(_Entry):
    """Someone said that two items are alike, or not."""

    kind: Literal["pair"]
    first: str
    second: str
    same: bool


class ClickEntry(_Entry):
    """Someone said of what a search found what is alike and what is not."""

    kind: Literal["click"]
    query: str
    positive: list[str]
    negative: list[str]


class UndoEntry(_Entry):
    """Someone said that the entries from ``first`` to ``last`` do not count."""

    kind: Literal["undo"]
    first: int
    last: int


class ModelEntry(_Entry):
    """A model from a file took over."""

    kind: Literal["model"]
    sha256: str


LogEntry = TripletEntry | PairEntry | ClickEntry | UndoEntry | ModelEntry


class FeedbackLog(BaseModel):
    """Some of the log, in order."""

    entries: list[LogEntry]
    next: int | None = Field(description="Pass it as ``after`` for the next page; null at the end.")


class Undone(BaseModel):
    """The log says now that something does not count, or that another model took over, as entry ``seq``."""

    seq: int


class Restore(_In):
    """A version of the metric to go back to: nothing that was said after it counts any more."""

    metric_version: int = Field(ge=0)


# -- tasks ---------------------------------------------------------------------------------------------------


class Answer(BaseModel):
    """What every answer tells of the metric that gave it."""

    metric_version: int
    constraints: int
    candidates: Candidates


class _Search(_In):
    k: K = 10
    label: Label | None = Field(None, description="Find only items with this label.")
    payload: bool = Field(False, description="Answer payloads too.")
    trust: bool = Field(
        True, description="Put items known to be like the query first, and those known to be unlike it last."
    )


class SearchByKey(_Search):
    """What is most like an item, without itself?"""

    key: Key


class SearchByVector(_Search):
    """What is most like these features?"""

    vector: Vector


Search = Annotated[
    Annotated[SearchByKey, Tag("<key>")] | Annotated[SearchByVector, Tag("<vector>")],
    _by(key="key", vector="vector"),
]


class MatchOut(BaseModel):
    """An item that was found."""

    key: str
    distance: float | None = Field(description="The metric's own distance; null for a metric that has none.")
    similarity: float
    said: Literal["alike", "unlike"] | None = Field(
        description="What follows from feedback about it and the query."
    )
    label: str | None
    payload: dict[str, JsonValue] | None = None


class SearchOut(Answer):
    """What was found, best first."""

    matches: list[MatchOut]


class ItemByKey(_In):
    """An item that is there."""

    key: Key


class ItemByVector(_In):
    """An item by its features."""

    vector: Vector


AnItem = Annotated[
    Annotated[ItemByKey, Tag("<key>")] | Annotated[ItemByVector, Tag("<vector>")], _by(key="key", vector="vector")
]


class Compare(_In):
    """Are two items alike?"""

    first: AnItem
    second: AnItem


class Comparison(Answer):
    """Whether two items are alike: yes, no or unknown."""

    answer: Literal["yes", "no", "unknown"]
    probability: float | None = Field(
        description="The calibrated probability that they are similar; null before the first calibration."
    )
    vote_share: float = Field(description="The weight of the spaces in which they are nearer than the threshold.")
    score: float
    yes_below: float = Field(description="The distance below which the answer is yes.")
    no_from: float = Field(description="The distance from which on it is no; unknown is between.")
    calibrated: bool


class Calibrate(_In):
    """Labelled pairs to choose thresholds by, for every metric from now on."""

    pairs: Annotated[list[PairIn], _FIRST] = Field(min_length=2, max_length=2_000)
    target: Literal["accuracy", "f1", "eer"] | None = None
    target_far: float | None = Field(None, ge=0, le=1)
    target_frr: float | None = Field(None, ge=0, le=1)

    @model_validator(mode="after")
    def _one(self) -> Calibrate:
        if (self.target is None) == (self.target_far is None):
            raise ValueError("give target, or target_far with or without target_frr")
        if self.target_frr is not None and self.target_far is None:
            raise ValueError("target_frr goes with target_far")
        return self

    @property
    def targets(self) -> dict[str, Any]:
        told = {"target": self.target, "target_far": self.target_far, "target_frr": self.target_frr}
        return {name: value for name, value in told.items() if value is not None}


class Calibrated(BaseModel):
    """By how many pairs thresholds are chosen from now on, and the metric that they were tried with."""

    pairs: int
    metric_version: int
    constraints: int


class _Classify(_In):
    k: K = 5


class ClassifyByKey(_Classify):
    """What would an item's label be, by the others?"""

    key: Key


class ClassifyByVector(_Classify):
    """What would be the label of these features?"""

    vector: Vector


Classify = Annotated[
    Annotated[ClassifyByKey, Tag("<key>")] | Annotated[ClassifyByVector, Tag("<vector>")],
    _by(key="key", vector="vector"),
]


class Vote(BaseModel):
    """A label, and its share of the votes."""

    label: str
    share: float


class Classification(Answer):
    """The labels of the nearest labelled items; none if there are none."""

    label: str | None
    votes: list[Vote]
    familiarity: float


# -- history -------------------------------------------------------------------------------------------------


class MomentOut(BaseModel):
    """How the metric was at a version."""

    metric_version: int
    constraints: int
    weights: list[float]
    loss: float | None
    time: float


class History(BaseModel):
    """How the weights moved."""

    parts: list[str] = Field(description="What the weights are of.")
    moments: list[MomentOut]
