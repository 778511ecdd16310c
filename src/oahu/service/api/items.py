"""Operations on items."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Annotated, Any

import orjson
from anyio import to_thread
from fastapi import Query, Request, Response

from oahu.service.api import models as m
from oahu.service.api.access import Admin, Reader
from oahu.service.api.routing import check_batch, done, new_router
from oahu.service.collection import Collection
from oahu.service.errors import InvalidRequestError, NotFoundError
from oahu.service.images import image_type
from oahu.service.records import CatalogueItem, NewItem

__all__ = ["router"]

_PAYLOAD = 64 * 2**10  # bytes
_DEPTH = 64  # of lists and objects in each other
_THUMBNAIL = 256 * 2**10

router = new_router("items")


@router.put("/{name}/items")
async def put_items(request: Request, name: m.Name, collection: Admin, new: m.ItemsIn) -> m.Stored:
    """Add items, or replace those that are there: all of them, or none."""
    check_batch(request, len(new.items), "items")
    _check_once([item.key for item in new.items])
    items = await to_thread.run_sync(_checked, collection, new.items)
    await done(collection.put_items(items))
    await to_thread.run_sync(collection.settle)
    return m.Stored(stored=len(items))


def _check_once(keys: Sequence[str]) -> None:
    seen: set[str] = set()
    for at, key in enumerate(keys):
        if key in seen:
            raise InvalidRequestError(
                f"The key {key!r} is there twice (at {at}): every item once in a request.", key=key
            )
        seen.add(key)


def _checked(collection: Collection, items: Sequence[m.ItemIn]) -> list[NewItem]:
    made = []
    for at, item in enumerate(items):
        vector = collection.features(item.vector, f"items/{at}/vector")
        _check_payload(item.payload, at)
        made.append(NewItem(item.key, vector.tobytes(), item.label, item.payload, _image(item.thumbnail, at)))
    return made


def _check_payload(payload: dict[str, Any] | None, at: int) -> None:
    where = f"items/{at}/payload"
    if _is_deeper(payload, _DEPTH):
        raise InvalidRequestError(
            f"{where} has lists or objects more than {_DEPTH} deep in each other.", where=where
        )
    size = len(orjson.dumps(payload))
    if size > _PAYLOAD:
        raise InvalidRequestError(f"{where} has {size} bytes as JSON; {_PAYLOAD} are allowed.", where=where)


def _is_deeper(value: Any, depth: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    return depth == 0 or any(
        _is_deeper(one, depth - 1) for one in (value.values() if isinstance(value, dict) else value)
    )


def _image(text: str | None, at: int) -> bytes | None:
    where = f"items/{at}/thumbnail"
    if text is None:
        return None
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise InvalidRequestError(f"{where} is not base64 ({error}).", where=where) from error
    if len(data) > _THUMBNAIL:
        raise InvalidRequestError(f"{where} has {len(data)} bytes; {_THUMBNAIL} are allowed.", where=where)
    if image_type(data) is None:
        raise InvalidRequestError(f"{where} is no PNG, JPEG, WebP or GIF.", where=where)
    return data


@router.get("/{name}/items", response_model_exclude_unset=True)
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


def _item(item: CatalogueItem) -> m.ItemOut:
    return m.ItemOut(key=item.key, label=item.label, payload=item.payload, has_thumbnail=item.has_thumbnail)


@router.post("/{name}/items/delete")
async def delete_items(request: Request, name: m.Name, collection: Admin, gone: m.Keys) -> m.Deleted:
    """Delete items: all of them, or none. What was learned from them stays learned."""
    check_batch(request, len(gone.keys), "keys")
    _check_once(gone.keys)
    await done(collection.delete_items(gone.keys))
    await to_thread.run_sync(collection.settle)
    return m.Deleted(deleted=len(gone.keys))


@router.get("/{name}/items/{key:path}", response_model_exclude_unset=True)
def fetch_item(
    name: m.Name,
    key: str,
    collection: Reader,
    vector: Annotated[bool, Query(description="Answer its features too.")] = False,
) -> m.ItemOut:
    """One item."""
    found = _item(collection.item(key))
    return found.model_copy(update={"vector": collection.vector(key).tolist()}) if vector else found


@router.get(
    "/{name}/thumbnails/{key:path}",
    response_class=Response,
    responses={200: {"content": {"image/*": {}}, "description": "The image."}},
)
def fetch_thumbnail(name: m.Name, key: str, collection: Reader) -> Response:
    """The thumbnail of an item."""
    data = collection.thumbnail(key)
    kind = image_type(data) if data is not None else None
    if data is None or kind is None:
        raise NotFoundError(f"There is no thumbnail of {key!r} in {name!r}.", key=key)
    return Response(data, media_type=kind, headers={"Cache-Control": "private, max-age=60"})
