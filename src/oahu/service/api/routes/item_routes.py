"""Operations on items."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated

from anyio import to_thread
from fastapi import Query, Request, Response

from oahu.service.api.access import CollectionForAdmin, CollectionForReading, get_access
from oahu.service.api.encoding import encode_items
from oahu.service.api.routes.feedback_routes import IdempotencyKey
from oahu.service.api.routing import check_batch_size, new_router, run_search, wait_for
from oahu.service.api.schemas.common_schemas import CollectionName, Label
from oahu.service.api.schemas.item_schemas import (
    FindItems,
    ItemChange,
    ItemChanges,
    ItemKeys,
    ItemPage,
    ItemResponse,
    ItemsChanged,
    ItemsDeleted,
    ItemsStored,
    ItemUpload,
    ItemUploads,
)
from oahu.service.collection import Collection
from oahu.service.errors import InvalidRequestError, NotFoundError
from oahu.service.images import decode_image, image_type
from oahu.service.payloads import check_payload
from oahu.service.records import CatalogueItem, ItemPatch, NewItem

__all__ = ["router"]

_MAX_THUMBNAIL_BYTES = 256 * 2**10

router = new_router("items")


@router.put("/{name}/items")
async def put_items(
    request: Request, name: CollectionName, collection: CollectionForAdmin, body: ItemUploads
) -> ItemsStored:
    """Add items, or replace items with the same keys. Either all items are stored or none.

    The new item replaces the whole stored item: a label, payload or thumbnail that is not in the request is
    removed. To change single fields, use PATCH. The features of an item are given as a vector, or as a text or an
    image for the encoder.
    """
    check_batch_size(request, len(body.items), "items")
    _check_unique([item.key for item in body.items])
    items = await to_thread.run_sync(_validate, collection, await encode_items(collection, body.items))
    await wait_for(collection.put_items(items, get_access(request).max_items(request)))
    await to_thread.run_sync(collection.queries.apply_changes)
    return ItemsStored(stored=len(items))


@router.patch("/{name}/items")
async def patch_items(
    request: Request,
    name: CollectionName,
    collection: CollectionForAdmin,
    body: ItemChanges,
    idempotency_key: IdempotencyKey = None,
) -> ItemsChanged:
    """Change the features, label, payload or thumbnail of items. Fields that are not in the request stay the same.

    New features are given as a vector, or as a text or an image for the encoder.

    The payload in the request is a JSON merge patch (RFC 7396): its fields replace the fields with the same names,
    objects are merged, and null removes a field. A label, payload or thumbnail of null is removed. Either all items
    are changed or none.
    """
    check_batch_size(request, len(body.items), "items")
    _check_unique([item.key for item in body.items])
    digest = hashlib.sha256(f"patch {body.model_dump_json(exclude_unset=True)}".encode()).hexdigest()
    patches = await to_thread.run_sync(_validate_changes, collection, await encode_items(collection, body.items))
    replayed = await wait_for(collection.patch_items(patches, idempotency_key, digest))
    await to_thread.run_sync(collection.queries.apply_changes)
    return ItemsChanged(changed=len(patches), replayed=replayed)


def _validate_changes(collection: Collection, items: Sequence[ItemChange]) -> list[ItemPatch]:
    validated = []
    for row, item in enumerate(items):
        changed = tuple(sorted(item.model_fields_set - {"key", "text", "image"}))
        vector = None
        if "vector" in changed:
            vector = collection.catalogue.parse_features(item.vector, f"items/{row}/vector").tobytes()
        check_payload(item.payload, f"items/{row}/payload")
        thumbnail = _decode_thumbnail(item.thumbnail, f"items/{row}/thumbnail")
        validated.append(ItemPatch(item.key, changed, vector, item.label, item.payload, thumbnail, item.text))
    return validated


def _check_unique(keys: Sequence[str]) -> None:
    seen: set[str] = set()
    for row, key in enumerate(keys):
        if key in seen:
            raise InvalidRequestError(f"Keys must be unique. The key {key!r} occurs again at index {row}.", key=key)
        seen.add(key)


def _validate(collection: Collection, items: Sequence[ItemUpload]) -> list[NewItem]:
    validated = []
    for row, item in enumerate(items):
        vector = collection.catalogue.parse_features(item.vector or [], f"items/{row}/vector")
        check_payload(item.payload, f"items/{row}/payload")
        thumbnail = _decode_thumbnail(item.thumbnail, f"items/{row}/thumbnail")
        validated.append(NewItem(item.key, vector.tobytes(), item.label, item.payload, thumbnail, item.text))
    return validated


def _decode_thumbnail(text: str | None, where: str) -> bytes | None:
    if text is None:
        return None
    data = decode_image(text, where)
    if len(data) > _MAX_THUMBNAIL_BYTES:
        raise InvalidRequestError(
            f"{where} must have at most {_MAX_THUMBNAIL_BYTES} bytes. Got {len(data)} instead.", where=where
        )
    return data


@router.get("/{name}/items", response_model_exclude_unset=True)
def list_items(
    name: CollectionName,
    collection: CollectionForReading,
    after: Annotated[int, Query(ge=0, le=2**62, description="The ``next`` value of the previous page.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000, description="Maximum number of items in the page.")] = 100,
    label: Annotated[Label | None, Query(description="Only return items with this label.")] = None,
) -> ItemPage:
    """Return one page of the items, in the order in which they were added."""
    items = collection.catalogue.page(after, limit, label)
    next_ = items[-1].number if len(items) == limit else None
    return ItemPage(items=[_item_response(item) for item in items], next=next_)


def _item_response(item: CatalogueItem) -> ItemResponse:
    return ItemResponse(key=item.key, label=item.label, payload=item.payload, has_thumbnail=item.has_thumbnail)


@router.post("/{name}/items/find", response_model_exclude_unset=True)
async def find_items(
    request: Request, name: CollectionName, collection: CollectionForReading, body: FindItems
) -> ItemPage:
    """Return one page of the items with the given words, label and payload fields, in the order of addition."""
    filter_ = None if body.filter is None else body.filter.to_filter()
    items = await run_search(
        request, lambda: collection.find(body.text, body.label, filter_, body.after, body.limit)
    )
    next_ = items[-1].number if len(items) == body.limit else None
    return ItemPage(items=[_item_response(item) for item in items], next=next_)


@router.post("/{name}/items/delete")
async def delete_items(
    request: Request, name: CollectionName, collection: CollectionForAdmin, body: ItemKeys
) -> ItemsDeleted:
    """Delete items.

    Either all given items are deleted or none. Feedback about deleted items still affects the metric.
    """
    check_batch_size(request, len(body.keys), "keys")
    _check_unique(body.keys)
    await wait_for(collection.delete_items(body.keys))
    await to_thread.run_sync(collection.queries.apply_changes)
    return ItemsDeleted(deleted=len(body.keys))


@router.get("/{name}/items/{key:path}", response_model_exclude_unset=True)
def get_item(
    name: CollectionName,
    key: str,
    collection: CollectionForReading,
    vector: Annotated[bool, Query(description="Whether to return the features.")] = False,
) -> ItemResponse:
    """Return one item."""
    item = _item_response(collection.catalogue.item(key))
    return item.model_copy(update={"vector": collection.catalogue.vector(key).tolist()}) if vector else item


@router.get(
    "/{name}/thumbnails/{key:path}",
    response_class=Response,
    responses={200: {"content": {"image/*": {}}, "description": "The image."}},
)
def get_thumbnail(name: CollectionName, key: str, collection: CollectionForReading) -> Response:
    """Return the thumbnail of an item."""
    data = collection.catalogue.thumbnail(key)
    media_type = image_type(data) if data is not None else None
    if data is None or media_type is None:
        raise NotFoundError(f"The item {key!r} in {name!r} does not exist or has no thumbnail.", key=key)
    return Response(data, media_type=media_type, headers={"Cache-Control": "private, max-age=60"})
