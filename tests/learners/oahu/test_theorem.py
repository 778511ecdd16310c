"""Theorem 1: at zero loss, classes are at least 2 - 3 tau apart in every expert's space."""

from __future__ import annotations

import numpy as np
import pytest

from oahu import OAHU, sample_triplets


@pytest.mark.parametrize("tau", [0.1, 0.3, 0.5])
def test_two_classes_at_zero_loss_are_separated_by_theorem_1(tau: float) -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 15)
    X = rng.normal(0.0, 0.3, (30, 6)) + np.where(y[:, None] == 0, 1.0, -1.0) * rng.normal(0, 1, 6)
    learner = OAHU(
        n_layers=2, hidden_size=20, embedding_size=8, tau=tau, learning_rate=0.1, preprocessor=X, random_state=0
    )
    learner.partial_fit(sample_triplets(y, 4_000, random_state=1))

    assert learner.loss_history_[-1].max() < 0.05  # nearly optimised, in every expert
    same = y[:, None] == y[None, :]
    for space in learner.embed(X):
        distances = np.linalg.norm(space[:, None] - space[None, :], axis=2)
        # The theorem's premises: every similar pair within T_sim, and a dissimilar pair (x_1, x_4) beyond T_dis ...
        assert distances[same].max() <= tau
        assert distances[~same].max() >= 2 - tau
        # ... and its conclusion, for the closest dissimilar pair (x_2, x_3).
        assert distances[~same].min() >= 2 - 3 * tau
