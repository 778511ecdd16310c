"""Schemas of feedback."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field, Tag, model_validator

from oahu.service.api.schemas.common_schemas import STOP_AT_FIRST_ERROR, ItemKey, RequestModel, selected_by_field

__all__ = [
    "ClickFeedback",
    "ClickRecord",
    "FeedbackAccepted",
    "FeedbackBatch",
    "FeedbackItem",
    "FeedbackPage",
    "LogPosition",
    "ModelRecord",
    "PairFeedback",
    "PairRecord",
    "RestoreRequest",
    "StoredFeedback",
    "TripletFeedback",
    "TripletRecord",
    "UndoRecord",
]


class TripletFeedback(RequestModel):
    """A triplet: the anchor is similar to the positive item and dissimilar to the negative item."""

    anchor: ItemKey
    positive: ItemKey
    negative: ItemKey

    @model_validator(mode="after")
    def _check_items_differ(self) -> TripletFeedback:
        if len({self.anchor, self.positive, self.negative}) < 3:
            raise ValueError("'anchor', 'positive' and 'negative' must be three different items")
        return self


class PairFeedback(RequestModel):
    """A pair: two items are similar or dissimilar."""

    first: ItemKey
    second: ItemKey
    same: bool = Field(description="Whether the two items are similar.")

    @model_validator(mode="after")
    def _check_items_differ(self) -> PairFeedback:
        if self.first == self.second:
            raise ValueError("'first' and 'second' must be two different items")
        return self


class ClickFeedback(RequestModel):
    """A click: some results of a search are similar to the query, and some are dissimilar."""

    query: ItemKey
    positive: Annotated[list[ItemKey], STOP_AT_FIRST_ERROR] = Field([], max_length=100)
    negative: Annotated[list[ItemKey], STOP_AT_FIRST_ERROR] = Field([], max_length=100)

    @model_validator(mode="after")
    def _check_items_differ(self) -> ClickFeedback:
        keys = [self.query, *self.positive, *self.negative]
        if len(keys) < 2:
            raise ValueError("a click needs at least one positive or negative item")
        if len(set(keys)) < len(keys):
            raise ValueError("'query', 'positive' and 'negative' must be different items")
        return self


FeedbackItem = Annotated[
    Annotated[TripletFeedback, Tag("<triplet>")]
    | Annotated[PairFeedback, Tag("<pair>")]
    | Annotated[ClickFeedback, Tag("<click>")],
    selected_by_field(triplet="anchor", pair="first", click="query"),
]


class FeedbackBatch(RequestModel):
    """Feedback records, in the order in which the model learns them. Either all records are accepted or none."""

    feedback: Annotated[list[FeedbackItem], STOP_AT_FIRST_ERROR] = Field(min_length=1)


class FeedbackAccepted(BaseModel):
    """The sequence numbers of the stored feedback records."""

    accepted: int = Field(description="Number of accepted feedback records.")
    first_seq: int = Field(description="Sequence number of the first record.")
    last_seq: int = Field(description="Sequence number of the last record.")
    replayed: bool = Field(
        description="Whether an earlier request with the same Idempotency-Key already stored this feedback."
    )


class _Record(BaseModel):
    seq: int = Field(description="Sequence number of the log entry.")
    time: float = Field(description="Time of the log entry, in seconds since 1970.")
    active: bool = Field(description="False if the record was undone.")


class TripletRecord(_Record):
    """A stored triplet."""

    kind: Literal["triplet"]
    anchor: str
    positive: str
    negative: str


class PairRecord(_Record):
    """A stored pair."""

    kind: Literal["pair"]
    first: str
    second: str
    same: bool


class ClickRecord(_Record):
    """A stored click."""

    kind: Literal["click"]
    query: str
    positive: list[str]
    negative: list[str]


class UndoRecord(_Record):
    """An undo of the log entries from ``first`` to ``last``."""

    kind: Literal["undo"]
    first: int
    last: int


class ModelRecord(_Record):
    """A replacement of the model by an uploaded file."""

    kind: Literal["model"]
    sha256: str = Field(description="SHA-256 checksum of the file.")


StoredFeedback = TripletRecord | PairRecord | ClickRecord | UndoRecord | ModelRecord


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
