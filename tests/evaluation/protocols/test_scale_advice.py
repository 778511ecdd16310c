"""Tests of the warnings about inputs on a scale that does not suit a method."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oahu
from oahu.evaluation.datasets import Dataset
from oahu.evaluation.protocols import PROTOCOLS, as_methods
from oahu.evaluation.protocols.scale_advice import scale_warnings

RNG = np.random.default_rng(3)
LABELS = np.arange(200) % 4
ITEMS = RNG.normal(size=(200, 10))


def warnings_of(X: Any, methods: list[Any], **changed: Any) -> list[str]:
    dataset = Dataset("mine", np.asarray(X, dtype=np.float32), LABELS)
    settings = PROTOCOLS["classification"].settings(dataset, **changed)
    return scale_warnings(dataset, as_methods(methods), settings)


def test_small_distances_give_no_warning() -> None:
    assert warnings_of(ITEMS, ["AnchoredOAHU", "OAHU", "LEGO", "RDML", "OPML", "POLA", "Euclidean"]) == []


def test_large_distances_name_the_affected_methods() -> None:
    (warning,) = warnings_of(100 * ITEMS, ["AnchoredOAHU", "OAHU", "LEGO", "RDML", "POLA", "OASIS"])
    assert warning.startswith("LEGO, RDML, POLA: thresholds and step sizes are designed for distances near 1")
    assert warning.endswith("Use --scaling unit or --scaling centred.")


@pytest.mark.parametrize("scaling", ["unit", "centred"])
@pytest.mark.parametrize("pca", [None, 5])
def test_advised_scaling_gives_no_warning(scaling: str, pca: int | None) -> None:
    assert warnings_of(100 * ITEMS, ["LEGO", "RDML", "POLA", "OPML"], scaling=scaling, pca=pca) == []


@pytest.mark.parametrize(
    ("learner", "effect"), [("OPML", "skips such triplets"), (oahu.OPML(), "and its runs fail")]
)
def test_opml_warns_where_its_step_has_no_minimiser(learner: Any, effect: str) -> None:
    (warning,) = warnings_of(100 * ITEMS, [learner])
    assert effect in warning
    bound = float(warning.rpartition(" ")[2].rstrip("."))
    assert warnings_of(100 * ITEMS, [oahu.OPML(gamma=bound / 2)]) == []


def test_opml_fails_where_it_is_warned_of() -> None:
    with pytest.raises(oahu.OAHUError, match="gamma"):
        oahu.OPML().partial_fit(100 * ITEMS, LABELS)


def test_dominating_feature_is_named() -> None:
    X = ITEMS.copy()
    X[:, 7] *= 1_000
    (warning, about_rdml) = warnings_of(X, ["Euclidean", "RDML"])
    assert warning.startswith("Feature 7 of mine has ")
    assert "Use --scaling standard" in warning
    assert about_rdml.endswith("Use --scaling standard.")
    assert warnings_of(X, ["Euclidean", "RDML"], scaling="standard") == []


def test_constant_features_give_no_warning() -> None:
    assert warnings_of(np.ones((200, 3)), ["Euclidean", "RDML", "OPML"]) == []
