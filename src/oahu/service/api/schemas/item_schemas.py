"""Schemas of items."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field, JsonValue, StringConstraints, model_validator

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
from oahu.service.api.schemas.filter_schemas import PayloadFilter

__all__ = [
    "FindItems",
    "ItemChange",
    "ItemChanges",
    "ItemKeys",
    "ItemPage",
    "ItemResponse",
    "ItemUpload",
    "ItemUploads",
    "ItemsChanged",
    "ItemsDeleted",
    "ItemsStored",
]


class ItemUpload(RequestModel):
    """An item to add or replace. Its features are given as a vector, a text or an image."""

    key: ItemKey = Field(examples=["sencha"])
    vector: Vector | None = Field(None, examples=[[1, 0.1, 0]])
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


def _not_given() -> Any:
    """Return the default of a field that must not be null."""
    return None


class ItemChange(RequestModel):
    """Changes of an item. Fields that are not given stay as they are."""

    key: ItemKey = Field(examples=["sencha"])
    vector: Vector = Field(default_factory=_not_given)
    text: BodyText = Field(default_factory=_not_given)
    image: Image = Field(default_factory=_not_given)
    label: Label | None = Field(None, description="The new label. Null removes the label.")
    payload: dict[str, JsonValue] | None = Field(
        None,
        description=(
            "A JSON merge patch (RFC 7396) of the payload: fields replace the fields with the same names, objects "
            "are merged, and null removes a field. Null in place of an object removes the payload."
        ),
        examples=[{"price": 12.5}],
    )
    thumbnail: Base64 | None = Field(
        None, description="The new thumbnail, as when an item is added. Null removes the thumbnail."
    )

    @model_validator(mode="after")
    def _check_changes(self) -> ItemChange:
        if not self.model_fields_set - {"key"}:
            raise ValueError(
                "expected at least one of 'vector', 'text', 'image', 'label', 'payload' and 'thumbnail'"
            )
        if len(self.model_fields_set & {"vector", "text", "image"}) > 1:
            raise ValueError("an item needs at most one of 'vector', 'text' and 'image'")
        return self


class ItemChanges(RequestModel):
    """Changes of items. Either all items are changed or none."""

    items: Annotated[list[ItemChange], STOP_AT_FIRST_ERROR] = Field(min_length=1)


class ItemsChanged(BaseModel):
    """The number of changed items."""

    changed: int
    replayed: bool = Field(
        description="Whether an earlier request with the same Idempotency-Key already made these changes."
    )


class ItemKeys(RequestModel):
    """Keys of items."""

    keys: Annotated[list[ItemKey], STOP_AT_FIRST_ERROR] = Field(min_length=1, examples=[["sencha", "assam"]])


class FindItems(RequestModel):
    """Conditions on items. Items must meet all given conditions."""

    text: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = Field(
        None,
        description=(
            "Beginnings of words. Each must be the beginning of a word in the key, the label or a text of the "
            "payload. Upper and lower case are the same."
        ),
        examples=["gyo sup"],
    )
    label: Label | None = Field(None, description="Only return items with this label.")
    filter: PayloadFilter | None = None
    after: int = Field(0, ge=0, le=2**62, description="The ``next`` value of the previous page.")
    limit: int = Field(20, ge=1, le=1_000, description="Maximum number of items in the page.")


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
