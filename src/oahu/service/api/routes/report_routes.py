"""The report: whether learning improves search."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Query

from oahu.service.api.access import CollectionForReading
from oahu.service.api.routing import new_router
from oahu.service.api.schemas.common_schemas import CollectionName
from oahu.service.api.schemas.report_schemas import GuardReport, ReportResponse, SectionReport
from oahu.service.guard import THRESHOLD
from oahu.service.report import MIN_QUERIES, Section

__all__ = ["router"]

router = new_router("metric")

_METHOD: Final = (
    "95 % confidence intervals over queries: Student's t for means, Wilson for shares. The clicks on a "
    f"repeated query are averaged. Estimates need {MIN_QUERIES} different queries. The guard is a "
    "sequential test by betting."
)


@router.get("/{name}/report")
def get_report(
    name: CollectionName,
    collection: CollectionForReading,
    last: Annotated[
        int | None, Query(ge=1, le=1_000_000, description="Also report on this number of last searches and clicks.")
    ] = None,
) -> ReportResponse:
    """Return whether learning improves search: the precision before and now, and wins of both rankings.

    The comparison needs interleaved searches: set ``interleave`` of the collection, or of single searches.
    """
    report = collection.report(last)
    guard = report.guard
    return ReportResponse(
        unlearned_metric=f"{collection.config.learner} without feedback",
        all=_section(report.everything),
        last=last,
        recent=None if report.recent is None else _section(report.recent),
        held_out=_section(report.held_out),
        guard=GuardReport(
            factor=guard.factor,
            evidence=guard.evidence,
            threshold=THRESHOLD,
            switches=[one._asdict() for one in guard.switches],  # type: ignore[misc]
        ),
        method=_METHOD,
    )


def _section(section: Section) -> SectionReport:
    state = "measured" if section.comparison is not None else "not enough feedback"
    return SectionReport.model_validate({"state": state, **section._asdict()})
