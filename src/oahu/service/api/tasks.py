"""What the metric is for: searching, comparing, classifying."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from fastapi import Request

from oahu.service.api import models as m
from oahu.service.api.access import Admin, Reader, service_of
from oahu.service.api.routing import asked, done, new_router
from oahu.service.collection import Collection
from oahu.service.errors import InvalidRequestError
from oahu.service.query_engine import QueryResult

__all__ = ["router"]

router = new_router("tasks")


@router.post("/{name}/search")
async def search(request: Request, name: m.Name, collection: Reader, wanted: m.Search) -> m.SearchOut:
    """The items most like another, or like features, by the metric as it is now."""
    _check_k(request, wanted.k)
    return await asked(request, lambda: _search(collection, wanted))


def _search(collection: Collection, wanted: m.SearchByKey | m.SearchByVector) -> m.SearchOut:
    found = collection.search(_query(collection, wanted), wanted.k, wanted.label, wanted.trust)
    items = collection.items([key for key, _, _ in found.matches])
    answered = [
        m.MatchOut(
            key=key,
            distance=match.distance,
            similarity=match.similarity,
            said=said,
            label=items[key].label,
            payload=items[key].payload if wanted.payload else None,
        )
        for key, match, said in found.matches
        if key in items
    ]
    return m.SearchOut(matches=answered, **_about(found))


@router.post("/{name}/classify")
async def classify(request: Request, name: m.Name, collection: Reader, wanted: m.Classify) -> m.Classification:
    """The label that the nearest labelled items vote for."""
    _check_k(request, wanted.k)

    def work() -> m.Classification:
        found = collection.classify(_query(collection, wanted), wanted.k)
        votes = [m.Vote(label=label, share=share) for label, share in found.labels]
        label = votes[0].label if votes else None
        return m.Classification(label=label, votes=votes, familiarity=found.familiarity, **_about(found))

    return await asked(request, work)


@router.post("/{name}/compare")
async def compare(request: Request, name: m.Name, collection: Reader, wanted: m.Compare) -> m.Comparison:
    """Whether two items are alike: yes, no or unknown."""

    def work() -> m.Comparison:
        first, second = (_query(collection, one, f"{at}/") for at, one in wanted)
        found = collection.compare(first, second)
        return m.Comparison(
            answer=found.answer,  # type: ignore[arg-type]
            probability=found.probability,
            vote_share=found.vote_share,
            score=found.score,
            yes_below=_finite(found.yes_below),
            no_from=_finite(found.no_from),
            calibrated=found.calibrated,
            **_about(found),
        )

    return await asked(request, work)


@router.post("/{name}/calibrate")
async def calibrate(request: Request, name: m.Name, collection: Admin, wanted: m.Calibrate) -> m.Calibrated:
    """Keep labelled pairs by which thresholds are chosen, for whatever the metric is when items are compared."""
    pairs = [(pair.first, pair.second, pair.same) for pair in wanted.pairs]
    await asked(request, lambda: collection.check_calibration(pairs, wanted.targets))
    await done(collection.calibrate(pairs, wanted.targets))
    published = collection.published
    return m.Calibrated(pairs=len(pairs), metric_version=published.version, constraints=published.constraints)


# -- what they share -----------------------------------------------------------------------------------------


def _about(answer: QueryResult) -> dict[str, Any]:
    published, candidates = answer.published, answer.candidates
    return {
        "metric_version": published.version,
        "constraints": published.constraints,
        "candidates": m.Candidates(
            metric_version=candidates.version,
            constraints_behind=published.constraints - candidates.constraints,
            age_seconds=max(0.0, time.time() - candidates.time),
        ),
    }


def _query(collection: Collection, asked_for: Any, where: str = "") -> Any:
    """The key or the features that a request gives."""
    key = getattr(asked_for, "key", None)
    return key if key is not None else collection.features(asked_for.vector, f"{where}vector")


def _check_k(request: Request, k: int) -> None:
    most = service_of(request).settings.max_k
    if k > most:
        raise InvalidRequestError(f"k may be up to {most}. Got {k}.", where="k")


def _finite(number: float) -> float:
    """JSON has no infinity: a threshold beyond everything is the largest number there is."""
    return float(np.clip(number, -np.finfo(float).max, np.finfo(float).max))
