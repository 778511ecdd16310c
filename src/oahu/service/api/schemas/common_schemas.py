"""The field types and the base class for the request and response schemas."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    FailFast,
    Field,
    FiniteFloat,
    StringConstraints,
    Tag,
    model_validator,
)

__all__ = [
    "STOP_AT_FIRST_ERROR",
    "Base64",
    "BodyText",
    "CandidateAge",
    "CollectionName",
    "Image",
    "ItemByImage",
    "ItemByText",
    "ItemByVector",
    "ItemKey",
    "Label",
    "RequestModel",
    "Source",
    "Vector",
    "selected_by_field",
]

_NO_CONTROL_CHARACTERS = r"^[^\x00-\x1f\x7f]+$"
_DOT_SEGMENT = re.compile(r"(^|[/\\])\.{1,2}($|[/\\])")


class _HashableFailFast(FailFast):
    """A validator option: stop at the first error in a list, instead of collecting an error for each element."""

    __hash__ = object.__hash__  # pydantic requires hashable metadata in unions


STOP_AT_FIRST_ERROR = _HashableFailFast()


def _without_dot_segments(key: str) -> str:
    if _DOT_SEGMENT.search(key):
        raise ValueError(
            "a key must not contain '.' or '..' as a path segment, because HTTP clients remove such segments from "
            "URLs"
        )
    return key


CollectionName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
ItemKey = Annotated[
    str,
    StringConstraints(min_length=1, max_length=512, pattern=_NO_CONTROL_CHARACTERS),
    AfterValidator(_without_dot_segments),
]
Source = Annotated[
    str,
    StringConstraints(min_length=1, max_length=128, pattern=_NO_CONTROL_CHARACTERS),
    AfterValidator(_without_dot_segments),
]
Label = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=_NO_CONTROL_CHARACTERS)]
Base64 = Annotated[str, StringConstraints(min_length=4, pattern=r"^[A-Za-z0-9+/]+={0,2}$")]
Vector = Annotated[
    Annotated[list[FiniteFloat], STOP_AT_FIRST_ERROR, Tag("<numbers>")] | Annotated[Base64, Tag("<base64>")],
    Discriminator(lambda given: "<base64>" if isinstance(given, str) else "<numbers>"),
    Field(description="Features of an item: numbers, or little-endian float32 values in base64."),
]
BodyText = Annotated[
    str,
    StringConstraints(min_length=1, max_length=100_000),
    Field(description="A text that the encoder converts to a vector."),
]
Image = Annotated[Base64, Field(description="An image file (PNG, JPEG, WebP or GIF) in base64, for the encoder.")]


class RequestModel(BaseModel):
    """The base class of request bodies, with strict types and without unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _reject_surplus_fields(cls, given: Any) -> Any:
        """Raise one error if there are too many fields, instead of one error for each unknown field."""
        if isinstance(given, dict) and len(given) > len(cls.model_fields):
            unknown = next(name for name in given if name not in cls.model_fields)
            raise ValueError(f"unknown field {unknown[:100]!r}; the fields are {', '.join(cls.model_fields)}")
        return given


class CandidateAge(BaseModel):
    """The age of the index from which the search candidates were taken."""

    metric_version: int = Field(description="Version of the metric that encoded the index.")
    constraints_behind: int = Field(description="Number of constraints learned since the index was encoded.")
    age_seconds: float = Field(description="Seconds since the index was encoded.")


class ItemByVector(RequestModel):
    """An item given by its features. The item need not be in the collection."""

    vector: Vector


class ItemByText(RequestModel):
    """An item given by a text, which the encoder converts to a vector."""

    text: BodyText


class ItemByImage(RequestModel):
    """An item given by an image, which the encoder converts to a vector."""

    image: Image


def selected_by_field(**fields: str) -> Discriminator:
    """Return a discriminator that selects one of several schemas by a field that only this schema has.

    The keyword arguments map the name of each schema to its field. The tag of a schema is its name in angle
    brackets. Error messages omit the tags from the location of an error.
    """

    def select(given: Any) -> str | None:
        names = given if isinstance(given, dict) else vars(given) if isinstance(given, BaseModel) else ()
        return next((f"<{form}>" for form, field in fields.items() if field in names), None)

    expected = " or ".join(map(repr, fields.values()))
    return Discriminator(
        select, custom_error_type="form", custom_error_message=f"expected an object with the field {expected}"
    )
