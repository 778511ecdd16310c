"""Settings of the service, from the command line or from environment variables (``OAHU_...``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

__all__ = ["Settings"]


class Settings(BaseSettings):
    """Settings of a service. Each setting has an environment variable, for example ``OAHU_PORT=9000``."""

    model_config = SettingsConfigDict(env_prefix="OAHU_", extra="ignore", frozen=True)

    data: Path = Field(Path("oahu-data"), description="The data folder.")
    host: str = Field("127.0.0.1", description="The address to listen on.")
    port: int = Field(8000, ge=0, le=65_535, description="The port to listen on. 0 selects a free port.")
    page: bool = Field(True, description="Whether to serve the web page.")
    trusted_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Additional host names of the service, separated by commas."
    )
    https: bool = Field(False, description="Whether a proxy provides HTTPS. Cookies are then sent only over HTTPS.")

    encoder: str | None = Field(
        None, description="The function that encodes texts and images as vectors: package.module:function."
    )
    encoder_timeout: float = Field(
        30.0, gt=0, description="Maximum time in seconds of one call of the encoder, for one batch."
    )
    encoder_batch: int = Field(
        64, gt=0, description="Maximum number of texts or images in one call of the encoder."
    )
    max_encoder_queue: int = Field(
        20_000, gt=0, description="Maximum number of texts and images that wait for the encoder."
    )

    # limits of a request
    max_body: int = Field(32 * 2**20, gt=0, description="Maximum size of a request body in bytes.")
    max_batch: int = Field(10_000, gt=0, description="Maximum number of items or feedback records in a request.")
    max_k: int = Field(1_000, gt=0, description="Maximum number of results of a search.")
    max_queries: int = Field(1_000, gt=0, description="Maximum number of searches in a batch.")
    max_results: int = Field(100_000, gt=0, description="Maximum total number of results of a batch of searches.")
    max_items: int = Field(5_000_000, gt=0, description="Maximum number of items in a collection.")
    max_dimension: int = Field(16_384, gt=0, description="Maximum number of features of an item.")
    max_collections: int = Field(100, gt=0, description="Maximum number of collections.")
    max_model: int = Field(512 * 2**20, gt=0, description="Maximum estimated size of a model in bytes.")

    # limits of concurrent work
    rate: float = Field(0.0, ge=0, description="Maximum average requests per second of a client. 0 means no limit.")
    burst: int = Field(100, gt=0, description="Maximum number of requests that a client can send at once.")
    max_write_queue: int = Field(
        20_000, gt=0, description="Maximum number of items and feedback records in the write queue."
    )
    max_learning_lag: int = Field(
        100_000, gt=0, description="Maximum number of feedback records that are not learned yet."
    )
    max_searches: int = Field(
        64, gt=0, description="Maximum number of concurrent searches, classifications and comparisons."
    )
    max_buffered: int = Field(
        512 * 2**20, gt=0, description="Maximum total size of request bodies in memory, in bytes."
    )
    max_impressions: int = Field(
        10_000, gt=0, description="Maximum number of recent searches per collection to which a click can refer."
    )
    impression_seconds: float = Field(
        3_600.0, gt=0, description="Time in seconds after which a click can no longer refer to a search."
    )
    max_streams: int = Field(100, gt=0, description="Maximum number of open event streams.")

    # learning and searching
    fresh_wait: float = Field(
        0.1, ge=0, description="Maximum time in seconds that a query waits until earlier feedback is learned."
    )
    candidates: int = Field(
        50,
        gt=0,
        description="Minimum number of candidates from each space. A search for k items uses at least 2 k of them.",
    )
    refresh_every: float = Field(
        0.5, gt=0, description="Minimum time in seconds between two refreshes of an index."
    )
    refresh_share: float = Field(
        0.25,
        gt=0,
        le=1,
        description="Share of the time in which a refresh computes. The refresh pauses for the rest of the time.",
    )
    snapshot_every: int = Field(
        5_000, gt=0, description="Number of constraints between two snapshots of a learner."
    )
    keep_snapshots: int = Field(
        12, ge=2, description="Number of snapshots to keep. Newer snapshots are closer together."
    )

    @field_validator("trusted_hosts", mode="before")
    @classmethod
    def _split_names(cls, value: Any) -> Any:
        if isinstance(value, str) and value.startswith("["):
            return json.loads(value)
        return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value
