"""Operations on feedback."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Annotated, Any

import numpy as np
from anyio import to_thread
from fastapi import Header, Query, Request
from pydantic import BaseModel

from oahu.constraints import Pair, Triplet
from oahu.service.api.access import CollectionForFeedback, CollectionForReading
from oahu.service.api.encoding import encode_queries
from oahu.service.api.routing import check_batch_size, new_router, wait_for
from oahu.service.api.schemas.common_schemas import CollectionName, ItemByImage, ItemByText, Source
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
    RefusedRecord,
    SettingsRecord,
    SourceList,
    SourceRecord,
    SourceState,
    SourceWeightRequest,
    StoredFeedback,
    StoredVector,
    TripletFeedback,
    TripletRecord,
    UndoRecord,
)
from oahu.service.collection import Collection
from oahu.service.records import (
    FEEDBACK,
    Click,
    Feedback,
    FeedbackRecord,
    LoggedChange,
    QueryVector,
    Receipt,
    change_to_json,
    map_items,
)

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
    given = await _encoded(collection, body.feedback)
    digest = None
    if given is not body.feedback:  # the digest of a retry must not depend on the encoder
        digest = hashlib.sha256(body.model_dump_json(exclude_unset=True).encode()).hexdigest()

    def submit() -> Future[Receipt]:
        feedback = [_feedback(collection, one, f"feedback/{at}") for at, one in enumerate(given)]
        return collection.add_feedback(feedback, idempotency_key, all_or_nothing=body.all_or_nothing, digest=digest)

    # Vectors are parsed and impressions are looked up in a worker thread. Other feedback needs no thread.
    needs_thread = any(_has_vector_or_impression(one) for one in given)
    receipt = await wait_for(await to_thread.run_sync(submit) if needs_thread else submit())
    return FeedbackAccepted(
        accepted=receipt.last_seq - receipt.first_seq + 1,
        first_seq=receipt.first_seq,
        last_seq=receipt.last_seq,
        replayed=receipt.replayed,
        refused=[RefusedRecord(**one) for one in receipt.refused],
        unknown_impressions=list(receipt.unknown_impressions),
    )


AnyFeedback = TripletFeedback | PairFeedback | ClickFeedback


async def _encoded(collection: Collection, given: Sequence[AnyFeedback]) -> Sequence[AnyFeedback]:
    """Return feedback with vectors in place of texts and images. Feedback without them is returned unchanged."""
    places = [
        (at, field)
        for at, one in enumerate(given)
        for field, value in one
        if isinstance(value, ItemByText | ItemByImage)
    ]
    if not places:
        return given
    queries = [getattr(given[at], field) for at, field in places]
    encoded = await encode_queries(collection, queries, [f"feedback/{at}/{field}" for at, field in places])
    result = list(given)
    for (at, field), query in zip(places, encoded, strict=True):
        result[at] = result[at].model_copy(update={field: query})
    return result


def _has_vector_or_impression(given: AnyFeedback) -> bool:
    if isinstance(given, ClickFeedback):
        return not isinstance(given.query, str) or given.impression is not None
    return any(isinstance(value, BaseModel) for _, value in given)


def _feedback(collection: Collection, given: AnyFeedback, where: str) -> Feedback:
    """Return the feedback in a request. ``where`` is its location in error messages."""

    def item(field: str) -> str | QueryVector:
        value: Any = getattr(given, field)
        if isinstance(value, str):
            return value
        features = collection.catalogue.parse_features(value.vector, f"{where}/{field}/vector")
        return QueryVector(features.tobytes(), getattr(value, "text", None))

    record: FeedbackRecord
    if isinstance(given, TripletFeedback):
        record = Triplet(item("anchor"), item("positive"), item("negative"))
    elif isinstance(given, PairFeedback):
        record = Pair(item("first"), item("second"), given.same)
    else:
        record = Click(item("query"), tuple(given.positive), tuple(given.negative), tuple(given.shown))
    return Feedback(record, given.weight, given.source, getattr(given, "impression", None))


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
    records = [_record(collection, *entry) for entry in collection.feedback_log.page(after, limit)]
    return FeedbackPage(records=records, next=records[-1].seq if len(records) == limit else None)


def _record(collection: Collection, entry: LoggedChange, active: bool) -> StoredFeedback:
    def item(given: str | QueryVector) -> str | StoredVector:
        if isinstance(given, str):
            return given
        return StoredVector(vector=np.frombuffer(given.data, collection.catalogue.features.dtype).tolist())

    change, kind = entry.change, change_to_json(entry.change)[0]
    fields: dict[str, Any] = {"seq": entry.seq, "time": entry.time, "kind": kind, "active": True}
    if isinstance(change, FEEDBACK):
        fields |= {"active": active, "weight": entry.weight, "source": entry.source}
        change = map_items(change, item)
    record: StoredFeedback = _RECORDS[kind](**fields, **change._asdict())
    return record


_RECORDS: dict[str, Any] = {
    "triplet": TripletRecord,
    "pair": PairRecord,
    "click": ClickRecord,
    "undo": UndoRecord,
    "model": ModelRecord,
    "source": SourceRecord,
    "settings": SettingsRecord,
}


@router.delete("/{name}/feedback/{seq}")
async def undo_feedback(name: CollectionName, seq: int, collection: CollectionForFeedback) -> LogPosition:
    """Undo a feedback record. The model becomes identical to a model that was never trained on this record."""
    return LogPosition(seq=await wait_for(collection.undo(seq)))


@router.get("/{name}/sources")
def list_sources(
    name: CollectionName,
    collection: CollectionForReading,
    after: Annotated[str, Query(max_length=128, description="The ``next`` value of the previous page.")] = "",
    limit: Annotated[int, Query(ge=1, le=1_000, description="Maximum number of sources in the page.")] = 100,
) -> SourceList:
    """Return the sources of feedback, with the share of their feedback that contradicts other sources."""
    sources = [
        SourceState(**one._asdict(), share_contradicted=one.share_contradicted)
        for one in collection.sources(after, limit)
    ]
    return SourceList(sources=sources, next=sources[-1].source if len(sources) == limit else None)


@router.put("/{name}/sources/{source:path}")
async def weigh_source(
    name: CollectionName, source: Source, collection: CollectionForFeedback, body: SourceWeightRequest
) -> LogPosition:
    """Set the weight of all feedback that a source has given so far.

    The model becomes identical to a model that learned this feedback with the new weight from the beginning. Later
    feedback of the source has its own weight.
    """
    return LogPosition(seq=await wait_for(collection.weigh_source(source, body.weight)))


@router.delete("/{name}/sources/{source:path}")
async def undo_source(name: CollectionName, source: Source, collection: CollectionForFeedback) -> LogPosition:
    """Undo all feedback that a source has given so far, like setting its weight to 0."""
    return LogPosition(seq=await wait_for(collection.weigh_source(source, 0.0)))
