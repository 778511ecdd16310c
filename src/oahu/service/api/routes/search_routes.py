"""Operations that use the metric: search, classify, compare and calibrate."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from fastapi import Body, Request

from oahu.service.api.access import CollectionForAdmin, CollectionForReading, get_service
from oahu.service.api.encoding import encode_queries, encode_query
from oahu.service.api.request_info import count_requests
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
    SearchBatch,
    SearchBatchResponse,
    SearchByImage,
    SearchByKey,
    SearchByText,
    SearchByVector,
    SearchMatch,
    SearchRequest,
    SearchResponse,
)
from oahu.service.collection import Collection
from oahu.service.errors import InvalidRequestError
from oahu.service.query_engine import QueryResult, SearchQuery, SearchResult

__all__ = ["router"]

router = new_router("search")

AnySearch = SearchByKey | SearchByVector | SearchByText | SearchByImage


@router.post("/{name}/search")
async def search(
    request: Request,
    name: CollectionName,
    collection: CollectionForReading,
    body: Annotated[SearchRequest, Body()],  # FastAPI 0.118 takes a union for a query parameter
) -> SearchResponse:
    """Return the items that are most similar to the query, according to the current metric.

    The query is the key of an item of the collection, the features of any item, or a text or an image for the
    encoder. With a filter, the results are the most similar items among those that match.
    """
    _check_k(request, body.k)
    encoded = await encode_query(collection, body)
    return await run_search(request, lambda: _search(collection, encoded))


def _search(collection: Collection, body: AnySearch) -> SearchResponse:
    return _search_response(collection, body, collection.search(*_search_query(collection, body)))


@router.post("/{name}/search/batch")
async def search_batch(
    request: Request, name: CollectionName, collection: CollectionForReading, body: SearchBatch
) -> SearchBatchResponse:
    """Run several searches. Each search gets the same results as in a request of its own.

    All searches use the same metric. If one search is invalid, the whole request is rejected. A batch of n searches
    counts as n requests for the limit of an API key.
    """
    _check_searches(request, body.searches)
    count_requests(request.scope, len(body.searches) - 1)
    places = [f"searches/{at}" for at in range(len(body.searches))]
    encoded = await encode_queries(collection, body.searches, places)

    def work() -> SearchBatchResponse:
        searches = [
            _search_query(collection, search, f"{place}/") for search, place in zip(encoded, places, strict=True)
        ]
        found = collection.search_many(searches)
        return SearchBatchResponse(
            results=[
                _search_response(collection, search, result)
                for search, result in zip(body.searches, found, strict=True)
            ]
        )

    return await run_search(request, work)


def _check_searches(request: Request, searches: Sequence[AnySearch]) -> None:
    settings = get_service(request).settings
    if len(searches) > settings.max_queries:
        raise InvalidRequestError(
            f"A request may contain up to {settings.max_queries} searches (OAHU_MAX_QUERIES). Got {len(searches)} "
            "instead. Send several requests.",
            where="searches",
        )
    for at, search in enumerate(searches):
        _check_k(request, search.k, f"searches/{at}/k")
    if (total := sum(search.k for search in searches)) > settings.max_results:
        raise InvalidRequestError(
            f"The searches of a request may have up to {settings.max_results} results in total "
            f"(OAHU_MAX_RESULTS). The sum of their k is {total}. Send several requests.",
            where="searches",
        )


def _search_query(collection: Collection, body: AnySearch, where: str = "") -> SearchQuery:
    filter_ = None if body.filter is None else body.filter.to_filter()
    return SearchQuery(_query(collection, body, where), body.k, body.label, body.use_feedback, filter_)


def _search_response(collection: Collection, body: AnySearch, found: SearchResult) -> SearchResponse:
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
    impression = collection.impressions.add([match.key for match in matches])
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
    encoded = await encode_query(collection, body)

    def work() -> ClassifyResponse:
        found = collection.classify(_query(collection, encoded), body.k)
        votes = [LabelVote(label=label, share=share) for label, share in found.labels]
        label = votes[0].label if votes else None
        return ClassifyResponse(label=label, votes=votes, familiarity=found.familiarity, **_metric_fields(found))

    return await run_search(request, work)


@router.post("/{name}/compare")
async def compare(
    request: Request, name: CollectionName, collection: CollectionForReading, body: CompareRequest
) -> CompareResponse:
    """Return whether two items are similar: yes, no or unknown."""
    encoded = [(field, await encode_query(collection, item, field)) for field, item in body]

    def work() -> CompareResponse:
        first, second = (_query(collection, item, f"{field}/") for field, item in encoded)
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


def _check_k(request: Request, k: int, where: str = "k") -> None:
    limit = get_service(request).settings.max_k
    if k > limit:
        raise InvalidRequestError(f"{where} must be at most {limit} (OAHU_MAX_K). Got {k} instead.", where=where)


def _finite(threshold: float) -> float:
    """Return a threshold that JSON can represent. Infinity becomes the largest float."""
    return float(np.clip(threshold, -np.finfo(float).max, np.finfo(float).max))
