"""Schemas of the encoder operations."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field, model_validator

from oahu.service.api.schemas.common_schemas import STOP_AT_FIRST_ERROR, BodyText, Image, RequestModel

__all__ = ["EncodeRequest", "EncodeResponse", "RefitResponse"]


class EncodeRequest(RequestModel):
    """Texts or images to encode."""

    texts: Annotated[list[BodyText], STOP_AT_FIRST_ERROR] | None = Field(
        None, min_length=1, examples=[["green tea"]]
    )
    images: Annotated[list[Image], STOP_AT_FIRST_ERROR] | None = Field(None, min_length=1)

    @model_validator(mode="after")
    def _check_one_kind(self) -> EncodeRequest:
        if (self.texts is None) == (self.images is None):
            raise ValueError("exactly one of 'texts' and 'images' is required")
        return self


class EncodeResponse(BaseModel):
    """The vectors of texts or images."""

    vectors: list[str] = Field(description="Little-endian float32 values in base64, one text for each vector.")


class RefitResponse(BaseModel):
    """The number of texts that were encoded again."""

    texts: int
