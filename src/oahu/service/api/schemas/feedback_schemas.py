"""Schemas of feedback."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Discriminator, Field, Tag, model_validator

from oahu.service.api.schemas.common_schemas import (
    STOP_AT_FIRST_ERROR,
    ItemByImage,
    ItemByText,
    ItemByVector,
    ItemKey,
    RequestModel,
    Source,
    selected_by_field,
)

__all__ = [
    "ClickFeedback",
    "ClickRecord",
    "FeedbackAccepted",
    "FeedbackBatch",
    "FeedbackItem",
    "FeedbackPage",
    "ItemOrQuery",
    "LabelledPair",
    "LogPosition",
    "ModelRecord",
    "PairFeedback",
    "PairRecord",
    "RefusedRecord",
    "RestoreRequest",
    "SettingsRecord",
    "SourceList",
    "SourceRecord",
    "SourceState",
    "SourceWeightRequest",
    "StoredFeedback",
    "StoredVector",
    "TripletFeedback",
    "TripletRecord",
    "UndoRecord",
]


def _form(given: Any) -> str:
    """Return the tag of the schema of an item in feedback."""
    if not isinstance(given, dict | BaseModel):
        return "<key>"
    fields = given if isinstance(given, dict) else vars(given)
    return next((f"<{form}>" for form in ("text", "image") if form in fields), "<vector>")


ItemOrQuery = Annotated[
    Annotated[ItemKey, Tag("<key>")]
    | Annotated[ItemByVector, Tag("<vector>")]
    | Annotated[ItemByText, Tag("<text>")]
    | Annotated[ItemByImage, Tag("<image>")],
    Discriminator(_form),
]


def _check_keys_differ(items: list[Any], message: str) -> None:
    keys = [item for item in items if isinstance(item, str)]
    if len(set(keys)) < len(keys):
        raise ValueError(message)


class LabelledPair(RequestModel):
    """Two items of the collection that are similar or dissimilar."""

    first: ItemKey
    second: ItemKey
    same: bool = Field(description="Whether the two items are similar.")

    @model_validator(mode="after")
    def _check_items_differ(self) -> LabelledPair:
        _check_keys_differ([self.first, self.second], "'first' and 'second' must be two different items")
        return self


class _Feedback(RequestModel):
    weight: float = Field(
        1.0, gt=0, le=1, description="Importance of the feedback. Only AnchoredOAHU learns weights other than 1."
    )
    source: Source | None = Field(None, description="The user or session that gave the feedback.")


class TripletFeedback(_Feedback):
    """A triplet: the anchor is similar to the positive item and dissimilar to the negative item.

    An item is given by its key, and a query that is no item as in a click: ``{"vector": [...]}``, for example.
    """

    anchor: ItemOrQuery = Field(examples=["sencha"])
    positive: ItemOrQuery = Field(examples=["gyokuro"])
    negative: ItemOrQuery = Field(examples=["assam"])

    @model_validator(mode="after")
    def _check_items_differ(self) -> TripletFeedback:
        _check_keys_differ(
            [self.anchor, self.positive, self.negative],
            "'anchor', 'positive' and 'negative' must be three different items",
        )
        return self


class PairFeedback(_Feedback):
    """A pair: two items are similar or dissimilar.

    An item is given by its key, and a query that is no item as in a click: ``{"vector": [...]}``, for example.
    """

    first: ItemOrQuery
    second: ItemOrQuery
    same: bool = Field(description="Whether the two items are similar.")

    @model_validator(mode="after")
    def _check_items_differ(self) -> PairFeedback:
        _check_keys_differ([self.first, self.second], "'first' and 'second' must be two different items")
        return self


class ClickFeedback(_Feedback):
    """A click: some results of a search are similar to the query, and some are dissimilar.

    The query is the key of an item, or a query that is no item: ``{"vector": [...]}``, or with an encoder
    ``{"text": "..."}`` or ``{"image": "..."}``.
    """

    query: ItemOrQuery
    positive: Annotated[list[ItemKey], STOP_AT_FIRST_ERROR] = Field([], max_length=100)
    negative: Annotated[list[ItemKey], STOP_AT_FIRST_ERROR] = Field([], max_length=100)
    shown: Annotated[list[ItemKey], STOP_AT_FIRST_ERROR] = Field(
        [], max_length=100, description="Results that the user saw and did not mark. They are weak evidence."
    )
    impression: Annotated[str, Field(min_length=1, max_length=64)] | None = Field(
        None,
        description=(
            "The ``impression`` of a search response, instead of ``shown``: its results without a mark count as "
            "shown. If it is unknown or expired, the click is learned without shown results."
        ),
    )

    @model_validator(mode="after")
    def _check_items_differ(self) -> ClickFeedback:
        if not self.positive and not self.negative:
            raise ValueError("a click needs at least one positive or negative item")
        _check_keys_differ(
            [self.query, *self.positive, *self.negative, *self.shown],
            "'query', 'positive', 'negative' and 'shown' must be different items",
        )
        if self.shown and self.impression is not None:
            raise ValueError("a click has either 'shown' or 'impression', not both")
        return self


FeedbackItem = Annotated[
    Annotated[TripletFeedback, Tag("<triplet>")]
    | Annotated[PairFeedback, Tag("<pair>")]
    | Annotated[ClickFeedback, Tag("<click>")],
    selected_by_field(triplet="anchor", pair="first", click="query"),
]


class FeedbackBatch(RequestModel):
    """Feedback records, in the order in which the model learns them.

    An invalid record rejects the whole request. What happens to a record that contradicts earlier feedback depends
    on the setting ``contradictions`` of the collection.
    """

    feedback: Annotated[list[FeedbackItem], STOP_AT_FIRST_ERROR] = Field(min_length=1)
    all_or_nothing: bool = Field(
        False,
        description="Whether one record that is refused because of a contradiction rejects the whole request.",
    )


class RefusedRecord(BaseModel):
    """A feedback record that was refused because it contradicts earlier feedback."""

    record: int = Field(description="Index of the record in the request.")
    reason: str = Field(description="What contradicts what.")
    pair: dict[str, Any] = Field(description="The pair of the record that causes the contradiction.")
    proof: list[dict[str, Any]] = Field(
        description=(
            "The chain of pairs that implies the opposite. ``seq`` is the sequence number of earlier feedback, and "
            "``record`` is the index of a record of the request."
        )
    )


class FeedbackAccepted(BaseModel):
    """The sequence numbers of the stored feedback records, and the refused records."""

    accepted: int = Field(description="Number of accepted feedback records.")
    first_seq: int = Field(description="Sequence number of the first accepted record.")
    last_seq: int = Field(description="Sequence number of the last accepted record.")
    replayed: bool = Field(
        description="Whether an earlier request with the same Idempotency-Key already stored this feedback."
    )
    refused: list[RefusedRecord] = Field(
        description="Records that contradict earlier feedback. Only the setting ``refuse`` refuses records."
    )
    unknown_impressions: list[int] = Field(
        description="Indexes of clicks with an unknown or expired impression, stored without shown results."
    )


class StoredVector(BaseModel):
    """The features of a query that is no item of the collection."""

    vector: list[float]


class _Record(BaseModel):
    seq: int = Field(description="Sequence number of the log entry.")
    time: float = Field(description="Time of the log entry, in seconds since 1970.")
    active: bool = Field(
        description=(
            "False if the record has no effect: it was undone, or it contradicts earlier feedback and the setting "
            "``contradictions`` is ``ignore``."
        )
    )


class _FeedbackRecord(_Record):
    weight: float = Field(description="Importance of the feedback, without the weight of its source.")
    source: str | None = Field(description="The user or session that gave the feedback.")


class TripletRecord(_FeedbackRecord):
    """A stored triplet."""

    kind: Literal["triplet"]
    anchor: str | StoredVector
    positive: str | StoredVector
    negative: str | StoredVector


class PairRecord(_FeedbackRecord):
    """A stored pair."""

    kind: Literal["pair"]
    first: str | StoredVector
    second: str | StoredVector
    same: bool


class ClickRecord(_FeedbackRecord):
    """A stored click."""

    kind: Literal["click"]
    query: str | StoredVector
    positive: list[str]
    negative: list[str]
    shown: list[str]


class UndoRecord(_Record):
    """An undo of the log entries from ``first`` to ``last``."""

    kind: Literal["undo"]
    first: int
    last: int


class ModelRecord(_Record):
    """A replacement of the model by an uploaded file."""

    kind: Literal["model"]
    sha256: str = Field(description="SHA-256 checksum of the file.")


class SourceRecord(_Record):
    """A weight for all earlier feedback of a source. The weight 0 undoes this feedback."""

    kind: Literal["source"]
    source: str
    weight: float


class SettingsRecord(_Record):
    """A change of settings, after which the whole log was learned again."""

    kind: Literal["settings"]
    settings: dict[str, Any]


StoredFeedback = TripletRecord | PairRecord | ClickRecord | UndoRecord | ModelRecord | SourceRecord | SettingsRecord


class FeedbackPage(BaseModel):
    """One page of the feedback log, in the order of the sequence numbers."""

    records: list[StoredFeedback]
    next: int | None = Field(description="The value of ``after`` for the next page. Null on the last page.")


class LogPosition(BaseModel):
    """The new log entry of an undo, a restore or a model upload."""

    seq: int = Field(description="Sequence number of the log entry.")


class RestoreRequest(RequestModel):
    """The metric version to restore. All later log entries are undone."""

    metric_version: int = Field(ge=0, description="Sequence number of the last log entry to keep.")


# -- sources -------------------------------------------------------------------------------------------------


class SourceState(BaseModel):
    """The feedback of one source."""

    source: str
    stored: int = Field(description="Number of its records in the log, including undone records.")
    refused: int = Field(description="Number of its records that were refused because of a contradiction.")
    contradicted: float = Field(
        description=(
            "Number of its records, without undone records, that contradict records of another source. A "
            "contradiction with a chain of n earlier records counts as 1 / n for each of the records."
        )
    )
    share_contradicted: float = Field(
        description="Share of contradicted and refused records in all records that the source sent."
    )
    weight: float = Field(description="Factor for the weights of its earlier records. 0: they are undone.")


class SourceList(BaseModel):
    """One page of the sources of feedback, in alphabetical order."""

    sources: list[SourceState]
    next: str | None = Field(description="The value of ``after`` for the next page. Null on the last page.")


class SourceWeightRequest(RequestModel):
    """A factor for the weights of all feedback that a source has given so far."""

    weight: float = Field(
        ge=0, le=1, description="0 undoes the feedback, 1 restores it. Other values need AnchoredOAHU."
    )
