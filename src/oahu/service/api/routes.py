"""The operations, under /v1."""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import Future
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
import orjson
from anyio import to_thread
from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute

from oahu.constraints import Pair, Triplet
from oahu.service.api import models as m
from oahu.service.api.access import Admin, Reader, Sayer, service_of
from oahu.service.api.problems import RESPONSES
from oahu.service.collection import Collection
from oahu.service.errors import InvalidError, NotThereError, OverloadedError
from oahu.service.images import kind_of
from oahu.service.records import Click, Config, Entry, Item, NewItem, Piece, Replaced, Undo, pack
from oahu.service.searching import Answer

__all__ = ["router"]

T = TypeVar("T")

_PAYLOAD = 64 * 2**10  # bytes
_THUMBNAIL = 256 * 2**10
_BEAT = 15.0  # seconds between signs of life in a stream of events


class _Request(Request):
    """A request whose JSON is read strictly: UTF-8, no NaN, not too deep."""

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            self._json = orjson.loads(await self.body())
        return self._json


class _Route(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            return await handle(_Request(request.scope, request.receive))

        return strictly


router = APIRouter(prefix="/v1", route_class=_Route, responses=RESPONSES)


def _done(future: Future[T]) -> asyncio.Future[T]:
    return asyncio.wrap_future(future)


async def _asked(request: Request, work: Callable[[], T]) -> T:
    """Do what takes a while in a thread, if not too much is going on."""
    state = request.app.state
    if state.asking >= service_of(request).settings.max_searches:
        raise OverloadedError("Too many searches at once.", retry_after=1)
    state.asking += 1
    try:
        return await to_thread.run_sync(work)
    finally:
        state.asking -= 1


def _check_batch(request: Request, count: int, what: str) -> None:
    most = service_of(request).settings.max_batch
    if count > most:
        raise InvalidError(f"A request may have {most} {what}. Got {count}.")


# -- collections ---------------------------------------------------------------------------------------------


@router.post("/collections", status_code=201, tags=["collections"])
async def create_collection(request: Request, access: Admin, new: m.CollectionIn) -> m.CollectionOut:
    """Create a collection."""
    config = Config(**new.model_dump())
    made = await to_thread.run_sync(service_of(request).create, config)
    return m.CollectionOut(**made.describe())


@router.get("/collections", tags=["collections"])
async def list_collections(request: Request, access: Reader) -> m.Collections:
    """All collections."""
    found = service_of(request).collections
    return m.Collections(collections=[m.CollectionOut(**collection.describe()) for collection in found])


@router.get("/collections/{name}", tags=["collections"])
async def describe_collection(name: m.Name, collection: Reader) -> m.CollectionOut:
    """A collection: what it was created with, what it has learned, how fresh its candidates are."""
    return m.CollectionOut(**collection.describe())


@router.delete("/collections/{name}", status_code=204, tags=["collections"])
async def delete_collection(request: Request, name: m.Name, collection: Admin) -> None:
    """Delete a collection and everything in it."""
    await to_thread.run_sync(service_of(request).delete, name)


# -- items ---------------------------------------------------------------------------------------------------


@router.put("/collections/{name}/items", tags=["items"])
async def put_items(request: Request, name: m.Name, collection: Admin, new: m.ItemsIn) -> m.Stored:
    """Add items, or replace those that are there: all of them, or none."""
    _check_batch(request, len(new.items), "items")
    items = await to_thread.run_sync(_checked, collection, new.items)
    await _done(collection.put_items(items))
    await to_thread.run_sync(collection.settle)
    return m.Stored(stored=len(items))


def _checked(collection: Collection, items: Sequence[m.ItemIn]) -> list[NewItem]:
    keys = [item.key for item in items]
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InvalidError(f"The key {twice!r} is there twice: every item once in a request.")
    made = []
    for at, item in enumerate(items):
        vector = collection.features(item.vector, f"items/{at}/vector")
        _check_payload(item.payload, at)
        made.append(NewItem(item.key, vector.tobytes(), item.label, item.payload, _image(item.thumbnail, at)))
    return made


def _check_payload(payload: dict[str, Any] | None, at: int) -> None:
    try:
        size = len(orjson.dumps(payload))
    except (TypeError, ValueError) as error:
        raise InvalidError(f"items/{at}/payload cannot be kept as JSON ({error}).") from error
    if size > _PAYLOAD:
        raise InvalidError(f"items/{at}/payload has {size} bytes as JSON; {_PAYLOAD} are allowed.")


def _image(text: str | None, at: int) -> bytes | None:
    if text is None:
        return None
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise InvalidError(f"items/{at}/thumbnail is not base64 ({error}).") from error
    if len(data) > _THUMBNAIL:
        raise InvalidError(f"items/{at}/thumbnail has {len(data)} bytes; {_THUMBNAIL} are allowed.")
    if kind_of(data) is None:
        raise InvalidError(f"items/{at}/thumbnail is no PNG, JPEG, WebP or GIF.")
    return data


@router.get("/collections/{name}/items", tags=["items"])
def list_items(
    name: m.Name,
    collection: Reader,
    after: Annotated[int, Query(ge=0, le=2**62)] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    label: Annotated[m.Label | None, Query()] = None,
) -> m.Items:
    """Items in pages, in the order in which they were added."""
    found = collection.page(after, limit, label)
    return m.Items(items=[_item(item) for item in found], next=found[-1].number if len(found) == limit else None)


def _item(item: Item) -> m.ItemOut:
    return m.ItemOut(key=item.key, label=item.label, payload=item.payload, has_thumbnail=item.has_thumbnail)


@router.post("/collections/{name}/items/delete", tags=["items"])
async def delete_items(request: Request, name: m.Name, collection: Admin, gone: m.Keys) -> m.Deleted:
    """Delete items: all of them, or none. What was learned from them stays learned."""
    _check_batch(request, len(gone.keys), "keys")
    if len(set(gone.keys)) < len(gone.keys):
        raise InvalidError("Every key once in a request.")
    await _done(collection.delete_items(gone.keys))
    await to_thread.run_sync(collection.settle)
    return m.Deleted(deleted=len(gone.keys))


@router.get("/collections/{name}/items/{key:path}", tags=["items"])
def fetch_item(name: m.Name, key: str, collection: Reader) -> m.ItemOut:
    """One item."""
    return _item(collection.item(key))


@router.get(
    "/collections/{name}/thumbnails/{key:path}",
    tags=["items"],
    response_class=Response,
    responses={200: {"content": {"image/*": {}}, "description": "The image."}},
)
def fetch_thumbnail(name: m.Name, key: str, collection: Reader) -> Response:
    """The thumbnail of an item."""
    data = collection.thumbnail(key)
    kind = kind_of(data) if data is not None else None
    if data is None or kind is None:
        raise NotThereError(f"There is no thumbnail of {key!r} in {name!r}.", key=key)
    return Response(data, media_type=kind, headers={"Cache-Control": "private, max-age=60"})


# -- feedback ------------------------------------------------------------------------------------------------


@router.post("/collections/{name}/feedback", tags=["feedback"])
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
    _check_batch(request, len(said.feedback), "pieces of feedback")
    receipt = await _done(collection.feedback([_piece(piece) for piece in said.feedback], idempotency_key))
    return m.Received(
        accepted=receipt.last_seq - receipt.first_seq + 1,
        first_seq=receipt.first_seq,
        last_seq=receipt.last_seq,
        replayed=receipt.replayed,
    )


def _piece(said: m.TripletIn | m.PairIn | m.ClickIn) -> Piece:
    if isinstance(said, m.TripletIn):
        return Triplet(said.anchor, said.positive, said.negative)
    if isinstance(said, m.PairIn):
        return Pair(said.first, said.second, said.same)
    return Click(said.query, tuple(said.positive), tuple(said.negative))


@router.get("/collections/{name}/feedback", tags=["feedback"])
def read_log(
    name: m.Name,
    collection: Reader,
    after: Annotated[int, Query(ge=0, le=2**62)] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> m.FeedbackLog:
    """The log in pages: everything that was said, in the order in which it is learned."""
    found = [_entry(entry, counts) for entry, counts in collection.log(after, limit)]
    return m.FeedbackLog(entries=found, next=found[-1].seq if len(found) == limit else None)


def _entry(entry: Entry, counts: bool) -> m.LogEntry:
    told = entry.change._asdict()
    always = isinstance(entry.change, Undo | Replaced)
    kind = pack(entry.change)[0]
    made: m.LogEntry = _ENTRIES[kind](seq=entry.seq, time=entry.time, kind=kind, counts=counts or always, **told)
    return made


_ENTRIES: dict[str, Any] = {
    "triplet": m.TripletEntry,
    "pair": m.PairEntry,
    "click": m.ClickEntry,
    "undo": m.UndoEntry,
    "model": m.ModelEntry,
}


@router.delete("/collections/{name}/feedback/{seq}", tags=["feedback"])
async def undo_feedback(name: m.Name, seq: int, collection: Sayer) -> m.Undone:
    """Undo a piece of feedback: the model becomes what it would be without it."""
    return m.Undone(seq=await _done(collection.undo(seq)))


# -- tasks ---------------------------------------------------------------------------------------------------


def _about(answer: Answer) -> dict[str, Any]:
    published, candidates = answer.published, answer.candidates
    return {
        "metric_version": published.version,
        "constraints": published.constraints,
        "candidates": m.Candidates(
            metric_version=candidates.version,
            constraints_behind=published.constraints - candidates.constraints,
            age_seconds=max(0.0, time.time() - candidates.time),
        ),
    }


def _query(collection: Collection, key: str | None, vector: Any, where: str = "vector") -> Any:
    return key if key is not None else collection.features(vector, where)


def _check_k(request: Request, k: int) -> None:
    most = service_of(request).settings.max_k
    if k > most:
        raise InvalidError(f"k may be up to {most}. Got {k}.", where="k")


@router.post("/collections/{name}/search", tags=["tasks"])
async def search(request: Request, name: m.Name, collection: Reader, asked: m.Search) -> m.SearchOut:
    """The items most like another, or like features, by the metric as it is now."""
    _check_k(request, asked.k)
    return await _asked(request, lambda: _search(collection, asked))


def _search(collection: Collection, asked: m.Search) -> m.SearchOut:
    query = _query(collection, getattr(asked, "key", None), getattr(asked, "vector", None))
    found, (alike, unlike) = collection.search(query, asked.k, asked.label, asked.trust)
    said: dict[int, Literal["alike", "unlike"]] = {
        **dict.fromkeys(alike, "alike"),
        **dict.fromkeys(unlike, "unlike"),
    }
    matches = [(collection.name(int(match.key)), match) for match in found.matches]
    items = collection.items([key for key, _ in matches])
    answered = [
        m.MatchOut(
            key=key,
            score=match.score,
            distance=match.distance,
            similarity=match.similarity,
            said=said.get(int(match.key)),
            label=items[key].label,
            payload=items[key].payload if asked.payload else None,
        )
        for key, match in matches
        if key in items
    ]
    return m.SearchOut(matches=answered, **_about(found))


@router.post("/collections/{name}/classify", tags=["tasks"])
async def classify(request: Request, name: m.Name, collection: Reader, asked: m.Classify) -> m.Classification:
    """The label that the nearest labelled items vote for."""
    _check_k(request, asked.k)

    def work() -> m.Classification:
        query = _query(collection, getattr(asked, "key", None), getattr(asked, "vector", None))
        found = collection.classify(query, asked.k)
        votes = [m.Vote(label=label, share=share) for label, share in found.labels]
        label = votes[0].label if votes else None
        return m.Classification(label=label, votes=votes, familiarity=found.familiarity, **_about(found))

    return await _asked(request, work)


@router.post("/collections/{name}/compare", tags=["tasks"])
async def compare(request: Request, name: m.Name, collection: Reader, asked: m.Compare) -> m.Comparison:
    """Whether two items are alike: yes, no or unknown."""

    def work() -> m.Comparison:
        first = _query(collection, asked.first.key, asked.first.vector, "first/vector")
        second = _query(collection, asked.second.key, asked.second.vector, "second/vector")
        found = collection.compare(first, second)
        return m.Comparison(
            answer=found.answer,  # type: ignore[arg-type]
            probability=found.probability,
            score=found.score,
            yes_below=_finite(found.yes_below),
            no_from=_finite(found.no_from),
            calibrated=found.calibrated,
            **_about(found),
        )

    return await _asked(request, work)


def _finite(number: float) -> float:
    """JSON has no infinity: a threshold beyond everything is the largest number there is."""
    return float(np.clip(number, -np.finfo(float).max, np.finfo(float).max))


@router.post("/collections/{name}/calibrate", tags=["tasks"])
async def calibrate(request: Request, name: m.Name, collection: Admin, asked: m.Calibrate) -> m.Calibrated:
    """Keep labelled pairs by which thresholds are chosen, for whatever the metric is when items are compared."""
    pairs = [(pair.first, pair.second, pair.same) for pair in asked.pairs]
    await _asked(request, lambda: collection.check_calibration(pairs, asked.targets))
    await _done(collection.calibrate(pairs, asked.targets))
    return m.Calibrated(pairs=len(pairs))


# -- the metric ----------------------------------------------------------------------------------------------


@router.get("/collections/{name}/history", tags=["metric"])
def history(name: m.Name, collection: Reader) -> m.History:
    """How the weights moved."""
    moments = [
        m.MomentOut(
            metric_version=one.version,
            constraints=one.constraints,
            weights=list(one.weights),
            loss=one.loss,
            time=one.time,
        )
        for one in collection.history()
    ]
    return m.History(parts=list(collection.published.weights), moments=moments)


@router.get(
    "/collections/{name}/model",
    tags=["metric"],
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}, "description": "A file for oahu.load."}},
)
def download_model(name: m.Name, collection: Reader) -> Response:
    """The learner as a file that oahu.load reads."""
    headers = {"Content-Disposition": f'attachment; filename="{name}.oahu"'}
    return Response(collection.model(), media_type="application/octet-stream", headers=headers)


@router.put(
    "/collections/{name}/model",
    tags=["metric"],
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def replace_model(request: Request, name: m.Name, collection: Admin) -> m.Undone:
    """Let a model from a file take over; learning goes on from there."""
    data = await request.body()
    future = await to_thread.run_sync(collection.replace_model, data)
    return m.Undone(seq=await _done(future))


@router.post("/collections/{name}/restore", tags=["metric"])
async def restore(name: m.Name, collection: Admin, to: m.Restore) -> m.Undone:
    """Go back to a version of the metric: nothing that was said after it counts any more."""
    return m.Undone(seq=await _done(collection.restore(to.metric_version)))


@router.get(
    "/collections/{name}/events",
    tags=["metric"],
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}, "description": "Server-sent events."}},
)
async def events(
    request: Request,
    name: m.Name,
    collection: Reader,
    limit: Annotated[int | None, Query(ge=1, description="End after so many events.")] = None,
) -> StreamingResponse:
    """Server-sent events: ``metric`` (weights, loss, version), ``feedback``, ``undo``, ``items``, ``refresh``."""
    state = request.app.state
    if state.streams >= service_of(request).settings.max_streams:
        raise OverloadedError("Too many streams of events are open.", retry_after=10)
    first = ("metric", collection.metric_state(collection.published))
    return StreamingResponse(_stream(state, collection, first, limit), media_type="text/event-stream")


async def _stream(
    state: Any, collection: Collection, first: tuple[str, dict[str, Any]], limit: int | None
) -> AsyncIterator[bytes]:
    state.streams += 1
    events = collection.events.listen()
    waiting: asyncio.Task[tuple[str, dict[str, Any]]] | None = None
    try:
        yield _event(*first)
        left = None if limit is None else limit - 1
        while left is None or left > 0:
            waiting = waiting or asyncio.ensure_future(anext(events))
            done, _ = await asyncio.wait({waiting}, timeout=_BEAT)
            if not done:
                yield b": still here\n\n"
                continue
            try:
                told = waiting.result()
            except StopAsyncIteration:
                return
            finally:
                waiting = None
            left = None if left is None else left - 1
            yield _event(*told)
    finally:
        state.streams -= 1
        if waiting is not None:
            waiting.cancel()


def _event(kind: str, what: dict[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), orjson.dumps(what))
