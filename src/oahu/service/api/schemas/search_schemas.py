"""Schemas of search, compare, calibrate and classify."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, JsonValue, Tag, model_validator

from oahu.service.api.schemas.common_schemas import (
    STOP_AT_FIRST_ERROR,
    CandidateAge,
    ItemKey,
    Label,
    RequestModel,
    Vector,
    selected_by_field,
)
from oahu.service.api.schemas.feedback_schemas import LabelledPair

__all__ = [
    "CalibrateRequest",
    "CalibrateResponse",
    "ClassifyByKey",
    "ClassifyByVector",
    "ClassifyRequest",
    "ClassifyResponse",
    "CompareRequest",
    "CompareResponse",
    "ItemByKey",
    "ItemByVector",
    "ItemReference",
    "LabelVote",
    "MetricResponse",
    "SearchByKey",
    "SearchByVector",
    "SearchMatch",
    "SearchRequest",
    "SearchResponse",
]


class MetricResponse(BaseModel):
    """The metric that was used for a response."""

    metric_version: int = Field(
        description="Version of the metric: the sequence number of the last learned log entry."
    )
    constraints: int = Field(description="Number of learned constraints.")
    candidates: CandidateAge


class ItemByKey(RequestModel):
    """An item of the collection."""

    key: ItemKey


class ItemByVector(RequestModel):
    """An item given by its features. The item need not be in the collection."""

    vector: Vector


ItemReference = Annotated[
    Annotated[ItemByKey, Tag("<key>")] | Annotated[ItemByVector, Tag("<vector>")],
    selected_by_field(key="key", vector="vector"),
]


# -- search --------------------------------------------------------------------------------------------------


class _SearchOptions(RequestModel):
    k: int = Field(10, ge=1, le=1_000_000, description="Number of results.")
    label: Label | None = Field(None, description="Only return items with this label.")
    payload: bool = Field(False, description="Whether to return payloads.")
    use_feedback: bool = Field(
        True,
        description="Whether items that are similar according to feedback come first, and dissimilar items last.",
    )
    interleave: float | None = Field(
        None,
        ge=0,
        le=1,
        description=(
            "Probability that the results interleave the learned and the unlearned ranking. By default, the "
            "setting of the collection."
        ),
    )


class SearchByKey(_SearchOptions):
    """Search for the items that are most similar to an item of the collection. The item itself is not returned."""

    key: ItemKey


class SearchByVector(_SearchOptions):
    """Search for the items that are most similar to an item given by its features."""

    vector: Vector


SearchRequest = Annotated[
    Annotated[SearchByKey, Tag("<key>")] | Annotated[SearchByVector, Tag("<vector>")],
    selected_by_field(key="key", vector="vector"),
]


class SearchMatch(BaseModel):
    """One search result."""

    key: str
    distance: float | None = Field(description="Distance to the query. Null if the metric has no distances.")
    similarity: float = Field(description="Similarity to the query. A higher value means more similar.")
    feedback: Literal["similar", "dissimilar"] | None = Field(
        description="Relation to the query according to given or implied feedback. Null if unknown."
    )
    label: str | None
    payload: dict[str, JsonValue] | None = None


class SearchResponse(MetricResponse):
    """Search results, best first."""

    matches: list[SearchMatch]
    impression: str = Field(
        description="Id of this response. A click can refer to it, instead of listing ``shown``."
    )


# -- compare -------------------------------------------------------------------------------------------------


class CompareRequest(RequestModel):
    """Two items to compare."""

    first: ItemReference
    second: ItemReference


class CompareResponse(MetricResponse):
    """The answer whether two items are similar."""

    answer: Literal["yes", "no", "unknown"]
    probability: float | None = Field(
        description="Calibrated probability that the items are similar. Null before calibration."
    )
    vote_share: float = Field(description="Total weight of the spaces that vote for similar, from 0 to 1.")
    score: float = Field(description="Similarity of the two items. A higher value means more similar.")
    yes_below: float = Field(description="The answer is yes for distances below this threshold.")
    no_from: float = Field(description="The answer is no for distances of at least this threshold.")
    calibrated: bool = Field(description="Whether the thresholds were chosen from labelled pairs.")
    warnings: list[str] = Field(description="Warnings of the calibration, for example about too few pairs.")


class CalibrateRequest(RequestModel):
    """Labelled pairs. The thresholds are chosen from these pairs now and whenever the metric changes."""

    pairs: Annotated[list[LabelledPair], STOP_AT_FIRST_ERROR] = Field(min_length=2, max_length=2_000)
    target: Literal["accuracy", "f1", "eer"] | None = Field(
        None, description="Criterion for one threshold: highest accuracy, highest F1, or equal error rates (eer)."
    )
    target_far: float | None = Field(None, ge=0, le=1, description="Maximum false accept rate.")
    target_frr: float | None = Field(
        None, ge=0, le=1, description="Maximum false reject rate. Valid only with target_far."
    )

    @model_validator(mode="after")
    def _check_one_target(self) -> CalibrateRequest:
        if (self.target is None) == (self.target_far is None):
            raise ValueError(
                "either 'target' or 'target_far' is required; 'target_frr' is optional with 'target_far'"
            )
        if self.target_frr is not None and self.target_far is None:
            raise ValueError("'target_frr' requires 'target_far'")
        return self

    @property
    def targets(self) -> dict[str, Any]:
        """The given targets, as keyword arguments of `Comparator.calibrate`."""
        targets = {"target": self.target, "target_far": self.target_far, "target_frr": self.target_frr}
        return {name: value for name, value in targets.items() if value is not None}


class CalibrateResponse(BaseModel):
    """The number of stored pairs, and the metric that was calibrated with these pairs."""

    pairs: int = Field(description="Number of stored pairs.")
    metric_version: int = Field(
        description="Version of the metric: the sequence number of the last learned log entry."
    )
    constraints: int = Field(description="Number of learned constraints.")
    warnings: list[str] = Field(description="Warnings of the calibration, for example about too few pairs.")


# -- classify ------------------------------------------------------------------------------------------------


class _ClassifyOptions(RequestModel):
    k: int = Field(5, ge=1, le=1_000_000, description="Number of neighbours that vote.")


class ClassifyByKey(_ClassifyOptions):
    """Predict the label of an item of the collection from the other items."""

    key: ItemKey


class ClassifyByVector(_ClassifyOptions):
    """Predict the label of an item given by its features."""

    vector: Vector


ClassifyRequest = Annotated[
    Annotated[ClassifyByKey, Tag("<key>")] | Annotated[ClassifyByVector, Tag("<vector>")],
    selected_by_field(key="key", vector="vector"),
]


class LabelVote(BaseModel):
    """A label and its share of the votes."""

    label: str
    share: float = Field(description="Share of the votes, from 0 to 1.")


class ClassifyResponse(MetricResponse):
    """The predicted label and the votes."""

    label: str | None = Field(description="The label with the most votes. Null if no item has a label.")
    votes: list[LabelVote] = Field(description="Labels with votes, most votes first.")
    familiarity: float = Field(description="Similarity to the nearest labelled item.")
