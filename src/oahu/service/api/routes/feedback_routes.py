"""Operations on feedback."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Header, Query, Request

from oahu.constraints import Pair, Triplet
from oahu.service.api.access import CollectionForFeedback, CollectionForReading
from oahu.service.api.routing import check_batch_size, new_router, wait_for
from oahu.service.api.schemas.common_schemas import CollectionName
from oahu.service.api.schemas.feedback_schemas import (
    ClickFeedback,
    ClickRecord,
    FeedbackAccepted,
    FeedbackBatch,
    FeedbackPage,
    LogPosition,
    ModelRecord,
    PairFeedback,
    PairRecord,
    StoredFeedback,
    TripletFeedback,
    TripletRecord,
    UndoRecord,
)
from oahu.service.records import Click, FeedbackRecord, LoggedChange, ModelReplacement, Undo, change_to_json

__all__ = ["router"]

router = new_router("feedback")

IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=128,
        pattern=r"^[\x21-\x7e]+$",
        description="A text that is unique to this request. A second request with the same text changes nothing.",
    ),
]


@router.post("/{name}/feedback")
async def add_feedback(
    request: Request,
    name: CollectionName,
    collection: CollectionForFeedback,
    body: FeedbackBatch,
    idempotency_key: IdempotencyKey = None,
) -> FeedbackAccepted:
    """Add feedback: clicks, triplets or pairs.

    The feedback is on disk when the response is sent. The next search takes the feedback into account.
    """
    check_batch_size(request, len(body.feedback), "feedback records")
    receipt = await wait_for(
        collection.add_feedback([_feedback_record(one) for one in body.feedback], idempotency_key)
    )
    return FeedbackAccepted(
        accepted=receipt.last_seq - receipt.first_seq + 1,
        first_seq=receipt.first_seq,
        last_seq=receipt.last_seq,
        replayed=receipt.replayed,
    )


def _feedback_record(feedback: TripletFeedback | PairFeedback | ClickFeedback) -> FeedbackRecord:
    if isinstance(feedback, TripletFeedback):
        return Triplet(feedback.anchor, feedback.positive, feedback.negative)
    if isinstance(feedback, PairFeedback):
        return Pair(feedback.first, feedback.second, feedback.same)
    return Click(feedback.query, tuple(feedback.positive), tuple(feedback.negative))


@router.get("/{name}/feedback")
def list_feedback(
    name: CollectionName,
    collection: CollectionForReading,
    after: Annotated[
        int, Query(ge=0, le=2**62, description="Return records with a sequence number above this value.")
    ] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000, description="Maximum number of records in the page.")] = 100,
) -> FeedbackPage:
    """Return one page of the feedback log, in the order in which the model learns the entries."""
    records = [_record(entry, active) for entry, active in collection.feedback_log.page(after, limit)]
    return FeedbackPage(records=records, next=records[-1].seq if len(records) == limit else None)


def _record(entry: LoggedChange, active: bool) -> StoredFeedback:
    kind = change_to_json(entry.change)[0]
    record: StoredFeedback = _RECORDS[kind](
        seq=entry.seq,
        time=entry.time,
        kind=kind,
        active=active or isinstance(entry.change, Undo | ModelReplacement),
        **entry.change._asdict(),
    )
    return record


_RECORDS: dict[str, Any] = {
    "triplet": TripletRecord,
    "pair": PairRecord,
    "click": ClickRecord,
    "undo": UndoRecord,
    "model": ModelRecord,
}


@router.delete("/{name}/feedback/{seq}")
async def undo_feedback(name: CollectionName, seq: int, collection: CollectionForFeedback) -> LogPosition:
    """Undo a feedback record. The model becomes identical to a model that was never trained on this record."""
    return LogPosition(seq=await wait_for(collection.undo(seq)))
