"""Euclidean and Cosine have the interface of learners and learn nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits

from oahu import LEGO, Cosine, Euclidean, load, sample_pairs

X, y = load_digits(return_X_y=True)
PAIRS, SAME = sample_pairs(y, 300, random_state=0)

KINDS = [Euclidean, Cosine]


@pytest.mark.parametrize("kind", KINDS)
def test_learning_changes_no_distance(kind: type[Euclidean]) -> None:
    before = kind().initialize(64).pair_distance(X[PAIRS])
    np.testing.assert_array_equal(kind().partial_fit(X[PAIRS], SAME).pair_distance(X[PAIRS]), before)


@pytest.mark.parametrize("kind", KINDS)
def test_all_constraints_are_counted_and_none_is_used(kind: type[Euclidean]) -> None:
    learner = kind().partial_fit(X[PAIRS], SAME)
    assert (learner.n_seen_, learner.utilization_) == (300, 0.0)
    assert (learner.utilization_similar_, learner.utilization_dissimilar_) == (0.0, 0.0)


@pytest.mark.parametrize("kind", KINDS)
def test_triplet_counts_as_two_pairs(kind: type[Euclidean]) -> None:
    assert kind().partial_fit(np.ones((7, 3, 2))).n_seen_ == 14


def test_euclidean_distances_are_scipys() -> None:
    first, second = X[PAIRS[:, 0]], X[PAIRS[:, 1]]
    found = Euclidean(dtype="float64").initialize(64).pair_distance(X[PAIRS])
    np.testing.assert_allclose(found, np.diag(cdist(first, second)), rtol=1e-12)


def test_cosine_distances_are_the_chord_of_scipys_cosine() -> None:
    cosines = np.diag(cdist(X[PAIRS[:, 0]], X[PAIRS[:, 1]], "cosine"))
    found = Cosine(dtype="float64").initialize(64).pair_distance(X[PAIRS])
    np.testing.assert_allclose(found, np.sqrt(2 * cosines), rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_saved_learner_is_loaded(kind: type[Euclidean], tmp_path: Path) -> None:
    learner = kind(dtype="float64").partial_fit(X[PAIRS], SAME)
    learner.save(tmp_path / "learner")
    back = load(tmp_path / "learner")
    assert (type(back), back.n_seen_) == (kind, 300)
    np.testing.assert_array_equal(back.pair_distance(X[PAIRS]), learner.pair_distance(X[PAIRS]))


def test_euclidean_scores_digits_like_an_untrained_learner() -> None:
    """LEGO starts at the identity."""
    euclidean, unlearned = (
        kind(n_constraints=2000, random_state=0).initialize(64).score(X, y) for kind in (Euclidean, LEGO)
    )
    assert euclidean == pytest.approx(unlearned, abs=0.002)
    assert euclidean > 0.5
