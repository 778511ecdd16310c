"""What can be set, on the command line or in the environment (``OAHU_...``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

__all__ = ["Settings"]


class Settings(BaseSettings):
    """Of a running service. Every field can be given in the environment: ``OAHU_PORT=9000``."""

    model_config = SettingsConfigDict(env_prefix="OAHU_", extra="ignore", frozen=True)

    data: Path = Field(Path("oahu-data"), description="The folder that everything is kept in.")
    host: str = Field("127.0.0.1", description="The address to listen at.")
    port: int = Field(8000, ge=0, le=65_535, description="The port to listen at; 0 takes a free one.")
    page: bool = Field(True, description="Whether there is a page, beside the HTTP interface.")
    trusted_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Other names under which the service is reached, with commas between them."
    )
    https: bool = Field(
        False, description="Whether a proxy before it speaks HTTPS: cookies are then for HTTPS only."
    )

    # what a request may ask for
    max_body: int = Field(32 * 2**20, gt=0, description="Bytes of a request.")
    max_batch: int = Field(10_000, gt=0, description="Items, or pieces of feedback, in a request.")
    max_k: int = Field(1_000, gt=0, description="Results of a search.")
    max_items: int = Field(5_000_000, gt=0, description="Items of a collection.")
    max_dimension: int = Field(16_384, gt=0, description="Features of an item.")
    max_collections: int = Field(100, gt=0, description="Collections of a service.")
    max_model: int = Field(
        512 * 2**20, gt=0, description="Bytes of a model, estimated when a collection is created."
    )

    # how much may be going on
    rate: float = Field(0.0, ge=0, description="Requests per second and caller, on average; 0 is without limit.")
    burst: int = Field(100, gt=0, description="Requests that a caller may make at once, within the rate.")
    max_waiting: int = Field(20_000, gt=0, description="Items and pieces of feedback that wait to be stored.")
    max_behind: int = Field(100_000, gt=0, description="Pieces of feedback that wait to be learned.")
    max_searches: int = Field(64, gt=0, description="Searches and the like that run or wait at a time.")
    max_buffered: int = Field(512 * 2**20, gt=0, description="Bytes of requests that are being received.")
    max_streams: int = Field(100, gt=0, description="Streams of events that are open at a time.")

    # how it learns and searches
    fresh_wait: float = Field(0.1, ge=0, description="Seconds that an answer waits for feedback to be learned.")
    candidates: int = Field(50, gt=0, description="Candidates from each space, at least; 2 k if that is more.")
    refresh_every: float = Field(0.5, gt=0, description="Seconds between embeddings of the catalogue, at least.")
    refresh_share: float = Field(
        0.25, gt=0, le=1, description="The share of the time that they work; they rest between."
    )
    snapshot_every: int = Field(5_000, gt=0, description="Constraints after which the model is kept again.")
    keep_snapshots: int = Field(
        12, ge=2, description="Snapshots that are kept, closer together the newer they are."
    )

    @field_validator("trusted_hosts", mode="before")
    @classmethod
    def _names(cls, given: Any) -> Any:
        if isinstance(given, str) and given.startswith("["):
            return json.loads(given)
        return [name.strip() for name in given.split(",") if name.strip()] if isinstance(given, str) else given
