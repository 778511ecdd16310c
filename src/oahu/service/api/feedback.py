"""Operations on feedback."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Header, Query, Request

from oahu.constraints import Pair, Triplet
from oahu.service.api import models as m
from oahu.service.api.access import Reader, Sayer
from oahu.service.api.routing import check_batch, done, new_router
from oahu.service.records import Click, FeedbackRecord, LoggedChange, ModelReplacement, Undo, change_to_json

__all__ = ["router"]

router = new_router("feedback")


@router.post("/{name}/feedback")
async def give_feedback(
    request: Request,
    name: m.Name,
    collection: Sayer,
    said: m.Feedback,
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=128, pattern=r"^[\x21-\x7e]+$")] = None,
) -> m.Received:
    """Say what is alike and what is not. It is on disk when this is answered, and counts in the next answer.

    With an Idempotency-Key, the same request again is answered again and changes nothing.
    """
    check_batch(request, len(said.feedback), "pieces of feedback")
    receipt = await done(collection.feedback([_piece(piece) for piece in said.feedback], idempotency_key))
    return m.Received(
        accepted=receipt.last_seq - receipt.first_seq + 1,
        first_seq=receipt.first_seq,
        last_seq=receipt.last_seq,
        replayed=receipt.replayed,
    )


def _piece(said: m.TripletIn | m.PairIn | m.ClickIn) -> FeedbackRecord:
    if isinstance(said, m.TripletIn):
        return Triplet(said.anchor, said.positive, said.negative)
    if isinstance(said, m.PairIn):
        return Pair(said.first, said.second, said.same)
    return Click(said.query, tuple(said.positive), tuple(said.negative))


@router.get("/{name}/feedback")
def read_log(
    name: m.Name,
    collection: Reader,
    after: Annotated[int, Query(ge=0, le=2**62)] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> m.FeedbackLog:
    """The log in pages: everything that was said, in the order in which it is learned."""
    found = [_entry(entry, counts) for entry, counts in collection.log(after, limit)]
    return m.FeedbackLog(entries=found, next=found[-1].seq if len(found) == limit else None)


def _entry(entry: LoggedChange, counts: bool) -> m.LogEntry:
    told = entry.change._asdict()
    always = isinstance(entry.change, Undo | ModelReplacement)
    kind = change_to_json(entry.change)[0]
    made: m.LogEntry = _ENTRIES[kind](seq=entry.seq, time=entry.time, kind=kind, counts=counts or always, **told)
    return made


_ENTRIES: dict[str, Any] = {
    "triplet": m.TripletEntry,
    "pair": m.PairEntry,
    "click": m.ClickEntry,
    "undo": m.UndoEntry,
    "model": m.ModelEntry,
}


@router.delete("/{name}/feedback/{seq}")
async def undo_feedback(name: m.Name, seq: int, collection: Sayer) -> m.Undone:
    """Undo a piece of feedback: the model becomes what it would be without it."""
    return m.Undone(seq=await done(collection.undo(seq)))
