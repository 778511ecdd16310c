"""Schemas of the report: whether learning improves search."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "ComparisonReport",
    "EstimateReport",
    "GuardReport",
    "GuardSwitch",
    "OrderingReport",
    "ReportResponse",
    "SectionReport",
    "WinsReport",
]


class _FromTuple(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class EstimateReport(_FromTuple):
    """An estimate with its 95 % confidence interval."""

    value: float
    low: float
    high: float


class WinsReport(_FromTuple):
    """Queries for which users marked more of the results that one ranking contributed."""

    learned: int = Field(description="Number of queries that the learned ranking won.")
    unlearned: int = Field(description="Number of queries that the unlearned ranking won.")
    ties: int
    share: EstimateReport | None = Field(
        description="Share of wins of the learned ranking, without ties. Null if there are only ties."
    )


class ComparisonReport(_FromTuple):
    """The comparison of both rankings in interleaved searches. It is not biased for either ranking."""

    depth: float = Field(
        description="Mean number of best results of each ranking that the precisions cover: half of the shown."
    )
    precision_before: EstimateReport = Field(description="Share of alike results of the unlearned ranking.")
    precision_now: EstimateReport = Field(description="Share of alike results of the learned ranking.")
    improvement: EstimateReport = Field(description="precision_now minus precision_before, paired by query.")
    better: EstimateReport = Field(description="Share of queries that learning has made better.")
    worse: EstimateReport = Field(description="Share of queries that learning has made worse.")
    wins: WinsReport


class OrderingReport(_FromTuple):
    """Share of the pairs of an alike and another marked or shown item that a metric orders correctly.

    Each click is evaluated before it is learned. The comparison is biased against the metric that chose the shown
    items, usually the learned metric.
    """

    before: EstimateReport = Field(description="With the unlearned metric.")
    now: EstimateReport = Field(description="With the learned metric before it learned the click.")
    improvement: EstimateReport


class SectionReport(_FromTuple):
    """The estimates of one set of clicks."""

    state: Literal["measured", "not enough feedback"] = Field(description="Whether there is a comparison.")
    missing: int = Field(
        description="Number of different queries with interleaved searches that the comparison still needs."
    )
    searches: int = Field(description="Number of searches with clicks.")
    interleaved: int = Field(description="Number of interleaved searches with clicks.")
    clicks: int = Field(description="Number of clicks that were evaluated before they were learned.")
    shown_precision: EstimateReport | None = Field(
        description="Share of alike results in shown lists that are not interleaved. Null if too few."
    )
    comparison: ComparisonReport | None
    ordering: OrderingReport | None


class GuardSwitch(_FromTuple):
    """A change of the metric that searches use."""

    seq: int = Field(description="Sequence number of the first click on the search that decided the change.")
    factor: float


class GuardReport(_FromTuple):
    """Whether searches use the learned metric."""

    factor: float = Field(
        description="Factor of the learned part: 1 for the learned metric, 0 for the unlearned metric."
    )
    evidence: float = Field(description="Evidence that the other metric is better. It starts at 1.")
    threshold: float = Field(description="The evidence from which searches use the other metric.")
    switches: list[GuardSwitch] = Field(description="The last ten changes.")


class ReportResponse(BaseModel):
    """Whether learning improves search, according to the clicks of the users."""

    unlearned_metric: str = Field(description="The metric of the unlearned ranking.")
    all: SectionReport = Field(description="Estimates from all clicks.")
    last: int | None = Field(description="The number of clicks of ``recent``.")
    recent: SectionReport | None = Field(description="Estimates from the last searches and the last clicks.")
    held_out: SectionReport = Field(description="Estimates from clicks on queries that are never learned.")
    guard: GuardReport
    method: str = Field(description="The statistical method.")
