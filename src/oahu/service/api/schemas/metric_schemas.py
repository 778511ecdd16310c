"""Schemas of the metric's history."""

from __future__ import annotations

from pydantic import BaseModel, Field

__all__ = ["HistoryResponse", "WeightsAtVersion"]


class WeightsAtVersion(BaseModel):
    """The state of the metric at one version."""

    metric_version: int = Field(description="Sequence number of the last log entry that was learned.")
    constraints: int = Field(description="Number of constraints that were learned.")
    weights: list[float] = Field(description="Weight of each space, in the order of ``spaces``.")
    error_rate: float | None = Field(
        description="Recent share of triplets that the metric ranked wrongly before training on them, or null."
    )
    time: float = Field(description="Time of this version, in seconds since 1970.")


class HistoryResponse(BaseModel):
    """The history of the weights of the metric."""

    spaces: list[str] = Field(description="Names of the metric's spaces.")
    points: list[WeightsAtVersion]
