"""Operations that use the metric: search, classify, compare and calibrate."""

from __future__ import annotations

import time
from typing import Annotated, Any

import numpy as np
from fastapi import Body, Request

from oahu.service.api.access import CollectionForAdmin, CollectionForReading, get_service
from oahu.service.api.routing import new_router, run_search, wait_for
from oahu.service.api.schemas.common_schemas import CandidateAge, CollectionName
from oahu.service.api.schemas.search_schemas import (
    CalibrateRequest,
    CalibrateResponse,
    ClassifyRequest,
    ClassifyResponse,
    CompareRequest,
    CompareResponse,
    LabelVote,
    SearchByKey,
    SearchByVector,
    SearchMatch,
    SearchRequest,
    SearchResponse,
)
from oahu.service.collection import Collection
from oahu.service.errors import InvalidRequestError
from oahu.service.query_engine import QueryResult

__all__ = ["router"]

router = new_router("search")


@router.post("/{name}/search")
async def search(
    request: Request,
    name: CollectionName,
    collection: CollectionForReading,
    body: Annotated[SearchRequest, Body()],  # FastAPI 0.118 takes a union for a query parameter
) -> SearchResponse:
    """Return the items that are most similar to the query, according to the current metric.

    The query is the key of an item of the collection, or the features of any item. In an interleaved search, the
    distance and the similarity of a result are those of the ranking that contributed it.
    """
    _check_k(request, body.k)
    return await run_search(request, lambda: _search(collection, body))


def _search(collection: Collection, body: SearchByKey | SearchByVector) -> SearchResponse:
    query = _query(collection, body)
    shown = collection.compare_search(
        lambda engine: engine.search(query, body.k, body.label, body.use_feedback), body.k, body.interleave
    )
    found = shown.result
    items = collection.catalogue.items([key for key, _, _ in found.matches])
    matches = [
        SearchMatch(
            key=key,
            distance=match.distance,
            similarity=match.similarity,
            feedback=relation,
            label=items[key].label,
            payload=items[key].payload if body.payload else None,
        )
        for key, match, relation in found.matches
        if key in items
    ]
    sides = shown.sides if len(matches) == len(found.matches) else None  # otherwise an item was deleted just now
    impression = collection.impressions.add([match.key for match in matches], sides, shown.is_learned)
    return SearchResponse(matches=matches, impression=impression, **_metric_fields(found))


@router.post("/{name}/classify")
async def classify(
    request: Request,
    name: CollectionName,
    collection: CollectionForReading,
    body: Annotated[ClassifyRequest, Body()],
) -> ClassifyResponse:
    """Predict a label by a vote of the nearest labelled items."""
    _check_k(request, body.k)

    def work() -> ClassifyResponse:
        found = collection.classify(_query(collection, body), body.k)
        votes = [LabelVote(label=label, share=share) for label, share in found.labels]
        label = votes[0].label if votes else None
        return ClassifyResponse(label=label, votes=votes, familiarity=found.familiarity, **_metric_fields(found))

    return await run_search(request, work)


@router.post("/{name}/compare")
async def compare(
    request: Request, name: CollectionName, collection: CollectionForReading, body: CompareRequest
) -> CompareResponse:
    """Return whether two items are similar: yes, no or unknown."""

    def work() -> CompareResponse:
        first, second = (_query(collection, item, f"{field}/") for field, item in body)
        found = collection.compare(first, second)
        return CompareResponse(
            answer=found.answer,  # type: ignore[arg-type]
            probability=found.probability,
            vote_share=found.vote_share,
            score=found.score,
            yes_below=_finite(found.yes_below),
            no_from=_finite(found.no_from),
            calibrated=found.calibrated,
            warnings=list(found.warnings),
            **_metric_fields(found),
        )

    return await run_search(request, work)


@router.post("/{name}/calibrate")
async def calibrate(
    request: Request, name: CollectionName, collection: CollectionForAdmin, body: CalibrateRequest
) -> CalibrateResponse:
    """Store labelled pairs, and choose the thresholds of the compare operation from these pairs.

    The thresholds are chosen again whenever the metric changes.
    """
    pairs = [(pair.first, pair.second, pair.same) for pair in body.pairs]
    warnings = await run_search(request, lambda: collection.queries.check_calibration(pairs, body.targets))
    await wait_for(collection.calibrate(pairs, body.targets))
    published = collection.published
    return CalibrateResponse(
        pairs=len(pairs),
        metric_version=published.version,
        constraints=published.constraints,
        warnings=warnings,
    )


def _metric_fields(result: QueryResult) -> dict[str, Any]:
    """Return the fields of `MetricResponse`."""
    published, candidates = result.published, result.candidates
    return {
        "metric_version": published.version,
        "constraints": published.constraints,
        "candidates": CandidateAge(
            metric_version=candidates.version,
            constraints_behind=published.constraints - candidates.constraints,
            age_seconds=max(0.0, time.time() - candidates.time),
        ),
    }


def _query(collection: Collection, item: Any, where: str = "") -> Any:
    """Return the key or the validated features of an item in a request."""
    key = getattr(item, "key", None)
    return key if key is not None else collection.catalogue.parse_features(item.vector, f"{where}vector")


def _check_k(request: Request, k: int) -> None:
    limit = get_service(request).settings.max_k
    if k > limit:
        raise InvalidRequestError(f"k must be at most {limit} (OAHU_MAX_K). Got {k} instead.", where="k")


def _finite(threshold: float) -> float:
    """Return a threshold that JSON can represent. Infinity becomes the largest float."""
    return float(np.clip(threshold, -np.finfo(float).max, np.finfo(float).max))
