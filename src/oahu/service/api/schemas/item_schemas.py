"""Schemas of items."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field, JsonValue, model_validator

from oahu.service.api.schemas.common_schemas import (
    STOP_AT_FIRST_ERROR,
    Base64,
    BodyText,
    Image,
    ItemKey,
    Label,
    RequestModel,
    Vector,
)

__all__ = ["ItemKeys", "ItemPage", "ItemResponse", "ItemUpload", "ItemUploads", "ItemsDeleted", "ItemsStored"]


class ItemUpload(RequestModel):
    """An item to add or replace. Its features are given as a vector, a text or an image."""

    key: ItemKey = Field(examples=["sencha"])
    vector: Vector | None = None
    text: BodyText | None = None
    image: Image | None = None
    label: Label | None = None
    payload: dict[str, JsonValue] | None = Field(None, description="A JSON object of up to 64 KiB.")
    thumbnail: Base64 | None = Field(
        None, description="A PNG, JPEG, WebP or GIF image of up to 256 KiB, in base64."
    )

    @model_validator(mode="after")
    def _check_one_source(self) -> ItemUpload:
        if sum(given is not None for given in (self.vector, self.text, self.image)) != 1:
            raise ValueError("an item needs exactly one of 'vector', 'text' and 'image'")
        return self


class ItemUploads(RequestModel):
    """Items to add or replace. Either all items are stored or none."""

    items: Annotated[list[ItemUpload], STOP_AT_FIRST_ERROR] = Field(min_length=1)


class ItemKeys(RequestModel):
    """Keys of items."""

    keys: Annotated[list[ItemKey], STOP_AT_FIRST_ERROR] = Field(min_length=1)


class ItemsStored(BaseModel):
    """The number of stored items."""

    stored: int


class ItemsDeleted(BaseModel):
    """The number of deleted items."""

    deleted: int


class ItemResponse(BaseModel):
    """An item, with its features if the request has ``vector=true``."""

    key: str
    label: str | None
    payload: dict[str, JsonValue] | None
    has_thumbnail: bool
    vector: list[float] | None = None


class ItemPage(BaseModel):
    """One page of items, in the order in which they were added."""

    items: list[ItemResponse]
    next: int | None = Field(description="The value of ``after`` for the next page. Null on the last page.")
