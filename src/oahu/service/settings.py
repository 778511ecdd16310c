"""Settings of the service, from the command line or from environment variables (``OAHU_...``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

__all__ = ["Settings"]


class Settings(BaseSettings):
    """Settings of a running service. Each has an environment variable, such as ``OAHU_PORT=9000``."""

    model_config = SettingsConfigDict(env_prefix="OAHU_", extra="ignore", frozen=True)

    data: Path = Field(Path("oahu-data"), description="The data folder.")
    host: str = Field("127.0.0.1", description="The address to listen on.")
    port: int = Field(8000, ge=0, le=65_535, description="The port to listen on; 0 selects a free one.")
    page: bool = Field(True, description="Whether to serve the page beside the HTTP API.")
    trusted_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Further host names of the service, separated by commas."
    )
    https: bool = Field(False, description="Whether a proxy provides HTTPS; cookies are then sent over HTTPS only.")

    # limits of a request
    max_body: int = Field(32 * 2**20, gt=0, description="Largest request body in bytes.")
    max_batch: int = Field(10_000, gt=0, description="Most items or feedback records in a request.")
    max_k: int = Field(1_000, gt=0, description="Most results of a search.")
    max_items: int = Field(5_000_000, gt=0, description="Most items of a collection.")
    max_dimension: int = Field(16_384, gt=0, description="Most features of an item.")
    max_collections: int = Field(100, gt=0, description="Most collections of a service.")
    max_model: int = Field(
        512 * 2**20, gt=0, description="Largest model in bytes, as estimated when a collection is created."
    )

    # limits of concurrent work
    rate: float = Field(0.0, ge=0, description="Average requests per second and client; 0 means no limit.")
    burst: int = Field(100, gt=0, description="Requests that a client may send at once within the rate.")
    max_write_queue: int = Field(
        20_000, gt=0, description="Limit of the write queue: items and feedback records that wait to be stored."
    )
    max_learning_lag: int = Field(100_000, gt=0, description="Most feedback records that wait to be learned.")
    max_searches: int = Field(64, gt=0, description="Most concurrent searches, classifications and comparisons.")
    max_buffered: int = Field(512 * 2**20, gt=0, description="Most bytes of request bodies in memory.")
    max_streams: int = Field(100, gt=0, description="Most open event streams.")

    # learning and searching
    fresh_wait: float = Field(
        0.1, ge=0, description="Seconds that a query waits for earlier feedback to be learned."
    )
    candidates: int = Field(
        50, gt=0, description="Least number of candidates from each space; at least 2 k are used."
    )
    refresh_every: float = Field(
        0.5, gt=0, description="Least number of seconds between two refreshes of an index."
    )
    refresh_share: float = Field(
        0.25, gt=0, le=1, description="Share of the time that a refresh works; it pauses in between."
    )
    snapshot_every: int = Field(5_000, gt=0, description="Constraints between two snapshots of a learner.")
    keep_snapshots: int = Field(
        12, ge=2, description="Number of snapshots to keep; the newer, the closer together."
    )

    @field_validator("trusted_hosts", mode="before")
    @classmethod
    def _split_names(cls, given: Any) -> Any:
        if isinstance(given, str) and given.startswith("["):
            return json.loads(given)
        return [name.strip() for name in given.split(",") if name.strip()] if isinstance(given, str) else given
