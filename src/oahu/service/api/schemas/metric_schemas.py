"""Schemas of the metric's history."""

from __future__ import annotations

from pydantic import BaseModel, Field

__all__ = ["HistoryResponse", "WeightsAtVersion"]


class WeightsAtVersion(BaseModel):
    """The state of the metric at one version."""

    metric_version: int
    constraints: int = Field(description="Number of constraints that the metric had learned.")
    weights: list[float] = Field(description="Weight of each space, in the order of ``spaces``.")
    error_rate: float | None = Field(
        description="Recent share of triplets that were ranked wrongly before training on them; null without any."
    )
    time: float = Field(description="Seconds since 1970.")


class HistoryResponse(BaseModel):
    """How the weights of the metric changed."""

    spaces: list[str] = Field(description="Names of the metric's spaces.")
    points: list[WeightsAtVersion]
