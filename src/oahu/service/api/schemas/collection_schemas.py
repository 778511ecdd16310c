"""Schemas of collections."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field, JsonValue, StringConstraints

from oahu.service.api.schemas.common_schemas import CandidateAge, CollectionName, RequestModel

__all__ = ["CollectionList", "CollectionState", "CreateCollection", "UpdateCollection"]

Closure = Annotated[
    int,
    Field(
        ge=0,
        le=100,
        description=(
            "Maximum number of implied constraints to learn with each given constraint. Wrong feedback has more "
            "influence if this number is larger."
        ),
    ),
]
Contradictions = Annotated[
    Literal["newest", "refuse", "ignore"],
    Field(
        description=(
            "Rule for feedback that contradicts earlier feedback. newest: it replaces the earlier feedback. "
            "refuse: it is not stored, and the response lists it. ignore: it is stored, but has no effect as long "
            "as the earlier feedback is not undone."
        )
    ),
]
Vote = Annotated[
    Literal["experts", "joint"],
    Field(
        description="Ranking rule: by the votes of the metric's spaces (experts), or by the joint vectors (joint)."
    ),
]
Interleave = Annotated[
    float,
    Field(
        ge=0,
        le=1,
        description=(
            "Share of searches that interleave the learned and the unlearned ranking, so that clicks compare both."
        ),
    ),
]
HeldOut = Annotated[
    float,
    Field(
        ge=0,
        le=1,
        description="Share of queries whose feedback is never learned. The report compares the rankings on them.",
    ),
]


class CreateCollection(RequestModel):
    """A new collection."""

    name: CollectionName = Field(examples=["teas"])
    dimension: int = Field(ge=1, le=1_000_000, description="Number of features of an item.", examples=[64])
    learner: Annotated[str, StringConstraints(max_length=64)] = Field(
        "AnchoredOAHU", description="Name of the learner, one of oahu.LEARNERS."
    )
    parameters: dict[str, JsonValue] = Field({}, description="Parameters of the learner.")
    closure: Closure = 0
    contradictions: Contradictions = "newest"
    vote: Vote = "experts"
    interleave: Interleave = 0.0
    held_out: HeldOut = 0.0


class UpdateCollection(RequestModel):
    """New settings of a collection. Settings that are left out stay the same."""

    parameters: dict[str, JsonValue] = Field(
        {}, description="Parameters of the learner to change. Null sets a parameter to its default."
    )
    closure: Closure = 0
    contradictions: Contradictions = "newest"
    vote: Vote = "experts"
    interleave: Interleave = 0.0
    held_out: HeldOut = 0.0


class CollectionState(BaseModel):
    """The configuration and the current state of a collection."""

    name: str
    dimension: int
    learner: str
    parameters: dict[str, JsonValue]
    closure: int
    contradictions: str
    vote: str
    interleave: float
    held_out: float
    created: float = Field(description="Creation time, in seconds since 1970.")
    items: int = Field(description="Number of items.")
    last_seq: int = Field(description="Sequence number of the newest log entry.")
    metric_version: int = Field(
        description="Version of the metric: the sequence number of the last learned log entry."
    )
    constraints: int = Field(description="Number of learned constraints.")
    weights: dict[str, float] = Field(description="Weight of each space of the metric.")
    error_rate: float | None = Field(
        description="Recent share of triplets that the metric ranked wrongly before training on them, or null."
    )
    pending_feedback: int = Field(description="Number of log entries that are not learned yet.")
    candidates: CandidateAge
    calibrated: bool = Field(
        description="Whether the thresholds of the compare operation were chosen from labelled pairs."
    )
    ready: bool = Field(description="Whether the collection is loaded.")
    learner_error: str | None = Field(
        description="The error that stopped the learner, or null if it has not failed."
    )


class CollectionList(BaseModel):
    """All collections."""

    collections: list[CollectionState]
