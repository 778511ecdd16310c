"""Encoding of the texts and images in a request. Afterwards, the request has vectors in their place."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TypeVar

from pydantic import BaseModel

from oahu.service.api.routing import wait_for
from oahu.service.collection import Collection
from oahu.service.encoder_process import EncoderInput, InputKind
from oahu.service.errors import InvalidRequestError
from oahu.service.images import decode_image

__all__ = ["encode_items", "encode_queries", "encode_query", "encode_texts_and_images"]

Item = TypeVar("Item", bound=BaseModel)

_KINDS: tuple[InputKind, ...] = ("text", "image")


async def encode_query(collection: Collection, query: Item, where: str = "") -> Item:
    """Return a query with a vector. A query without a text or an image is returned unchanged."""
    (encoded,) = await encode_queries(collection, [query], [where or "query"])
    return encoded


async def encode_queries(collection: Collection, queries: Sequence[Item], where: Sequence[str]) -> list[Item]:
    """Return queries with vectors. ``where`` contains the location of each query in error messages."""
    encoded = await encode_items(collection, queries, fit=False, where=where)
    for query, one, place in zip(queries, encoded, where, strict=True):
        if one is not query and not any(base64.b64decode(one.vector)):  # type: ignore[attr-defined]
            raise InvalidRequestError(
                f"The encoder {collection.encoder.name} knows none of the words in {place!r}. Use other words.",
                where=place,
            )
    return encoded


async def encode_items(
    collection: Collection, items: Sequence[Item], fit: bool = True, where: Sequence[str] = ()
) -> list[Item]:
    """Return items with vectors. Items without a text or an image are returned unchanged.

    With ``fit``, the built-in encoder is fitted on the texts if it is not fitted yet. ``where`` contains the
    location of each item in error messages.
    """
    result = list(items)
    for kind in _KINDS:
        rows = [row for row, item in enumerate(items) if getattr(item, kind, None) is not None]
        if rows:
            places = [where[row] if where else f"items/{row}" for row in rows]
            vectors = await encode_texts_and_images(
                collection, kind, [getattr(items[row], kind) for row in rows], places, fit
            )
            for row, vector in zip(rows, vectors, strict=True):
                result[row] = items[row].model_copy(update={"vector": vector})
    return result


async def encode_texts_and_images(
    collection: Collection, kind: InputKind, inputs: Sequence[str], where: Sequence[str], fit: bool
) -> list[str]:
    """Return the vectors of texts, or of images in base64, as float32 values in base64."""
    decoded: list[EncoderInput] = list(inputs)
    if kind == "image":
        decoded = [decode_image(image, f"{place}/image") for image, place in zip(inputs, where, strict=True)]
    vectors = await wait_for(collection.encoder.submit(kind, decoded, fit))
    collection.encoder.check(vectors)
    return [base64.b64encode(vector.astype("<f4").tobytes()).decode() for vector in vectors]
