"""The update step against independent oracles: autograd for the experts, brute force for the evidence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from oahu import AnchoredMetric, AnchoredOAHU, EnsembleMetric
from oahu.learners.anchored.model_arrays import UNLEARNED_DISTANCE
from oahu.learners.anchored.space_weights import standard_errors

Rows = NDArray[np.float64]
LAYERS = ("hidden_weights", "hidden_biases", "embedding_weights", "embedding_biases")


def learner_of(**parameters: Any) -> AnchoredOAHU:
    return AnchoredOAHU(dtype="float64", random_state=0, **parameters)


def constraints(n: int, d: int, n_items: int, seed: int) -> Rows:
    """Return triplets of few items, so that some items occur several times in a window."""
    rng = np.random.default_rng(seed)
    items = rng.standard_normal((n_items, d)) + 0.3
    rows = np.array([rng.choice(n_items, 3, replace=False) for _ in range(n)])
    return items[rows]


def eligible_candidates(window: Rows) -> NDArray[np.bool_]:
    """Return a mask of the eligible candidates (positives, then negatives) of each constraint."""
    n = len(window)
    candidates = np.concatenate([window[:, 1], window[:, 2]])
    counts = np.ones((n, 2 * n), bool)
    for i, (anchor, positive, _) in enumerate(window):
        for j, candidate in enumerate(candidates):
            own = j in (i, n + i)
            counts[i, j] = own or not (np.array_equal(candidate, anchor) or np.array_equal(candidate, positive))
    return counts


# -- the experts ---------------------------------------------------------------------------------------------


def expert_inputs(metric: AnchoredMetric, items: Rows) -> Rows:
    d = metric.n_features
    centred = items - metric.mean
    lengths = np.sqrt(np.square(centred).sum(axis=-1, keepdims=True) + metric.softening[1])
    return np.asarray(np.sqrt(d) * centred / lengths)


def autograd_step(
    metric: AnchoredMetric, window: Rows, learning_rate: float, temperature: float
) -> list[list[Rows]]:
    """Return the experts' layers after one window, trained with PyTorch."""
    layers = [[torch.tensor(a, requires_grad=True) for a in getattr(metric.experts, name)] for name in LAYERS]
    hidden_weights, hidden_biases, embedding_weights, embedding_biases = layers
    inputs = torch.tensor(expert_inputs(metric, window))
    counts = torch.tensor(eligible_candidates(window))
    n = len(window)
    hidden, loss = inputs, torch.zeros((), dtype=torch.float64)
    for level, (theta, bias) in enumerate(zip(embedding_weights, embedding_biases, strict=True)):
        if level:
            before = hidden @ hidden_weights[level - 1].T + hidden_biases[level - 1]
            assume(before.abs().min() > 1e-9)  # at 0 the ReLU has two valid gradients
            hidden = torch.relu(before)
        outputs = hidden @ theta.T + bias
        lengths = outputs.norm(dim=-1, keepdim=True)
        assume(not ((lengths > 0) & (lengths < 1e-6)).any())  # the direction would be rounding error
        units = torch.where(lengths > 0, outputs / torch.where(lengths > 0, lengths, 1.0), 0.0)
        candidates = torch.cat([units[:, 1], units[:, 2]])
        logits = (units[:, 0] @ candidates.T / temperature).masked_fill(~counts, -torch.inf)
        loss = loss + torch.nn.functional.cross_entropy(logits, torch.arange(n))
    loss.backward()
    trained = layers[:3]  # an embedding has no bias
    stepped = [[(a - learning_rate * a.grad).detach().numpy() for a in part] for part in trained]
    return [*stepped, [a.detach().numpy() for a in embedding_biases]]


def layers_of(experts: EnsembleMetric) -> list[list[Rows]]:
    return [list(getattr(experts, name)) for name in LAYERS]


@settings(max_examples=40)
@given(
    n_layers=st.integers(0, 4),
    hidden_size=st.integers(2, 20),
    embedding_size=st.integers(2, 12),
    d=st.integers(2, 30),
    window=st.integers(2, 9),
    n_items=st.integers(4, 40),
    temperature=st.floats(0.05, 1.0),
    seed=st.integers(0, 10**6),
)
def test_a_window_updates_the_experts_as_autograd_does(
    n_layers: int,
    hidden_size: int,
    embedding_size: int,
    d: int,
    window: int,
    n_items: int,
    temperature: float,
    seed: int,
) -> None:
    learner = learner_of(
        n_layers=n_layers,
        hidden_size=hidden_size,
        embedding_size=embedding_size,
        window=window,
        temperature=temperature,
    ).initialize(d)
    stream = constraints(4 * window, d, n_items, seed)
    learner.partial_fit(stream[:window])  # the first window estimates the items' lengths
    for start in range(window, len(stream), window):
        part = stream[start : start + window]
        rate = learner.learning_rate / np.sqrt(1 + (start + window) / 2_000)
        expected = autograd_step(learner.metric(), part, rate, temperature)
        learner.partial_fit(part)
        for mine, theirs in zip(layers_of(learner.metric().experts), expected, strict=True):
            for a, b in zip(mine, theirs, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


def test_an_open_window_does_not_change_the_experts() -> None:
    learner = learner_of(window=8).initialize(6)
    before = layers_of(learner.metric().experts)
    learner.partial_fit(constraints(7, 6, 20, 0))
    for mine, theirs in zip(layers_of(learner.metric().experts), before, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(a, b)


# -- the evidence --------------------------------------------------------------------------------------------


def pair_scores(vectors: list[Rows], counts: NDArray[np.bool_]) -> list[float]:
    """Return the score of each pair among all distances of its window. Vectors have shape (n, 3, dimensions)."""
    whole = np.concatenate(vectors, axis=2)
    n = len(whole)
    candidates = np.concatenate([whole[:, 1], whole[:, 2]])
    others = np.array(
        [
            np.square(whole[i, end] - candidates[j]).sum()
            for i in range(n)
            for j in range(2 * n)
            for end in (0, 1)
            if counts[i, j] and j != i
        ]
    )
    found = []
    for anchor, positive, _ in whole:
        near = (1.0 - 1e-5) * np.square(anchor - positive).sum()  # a repeated pair is not nearer than itself
        assume(not (np.abs(others - near) < 1e-9 * near).any())  # rounding must not decide the order
        found.append(1.0 / (1.0 + np.sum(others < near) / (0.01 * len(others))))
    return found


def mean_squared_distance(vectors: Rows) -> float:
    """Return the mean squared distance of both ends of all pairs to all candidates."""
    candidates = np.concatenate([vectors[:, 1], vectors[:, 2]])
    total = 0.0
    for end, other in ((0, 1), (1, 0)):
        for i, triplet in enumerate(vectors):
            compared = candidates.copy()
            compared[i] = triplet[other]
            total += np.square(compared - triplet[end]).sum(axis=1).mean()
    return total / (2 * len(vectors))


def expected_evidence(learner: AnchoredOAHU, stream: Rows, window: int) -> Rows:
    """Return the evidence of a stream: each window is evaluated before it is learned."""
    arrays = learner._state.arrays
    sums, mean_square = arrays["evidence"].copy(), arrays["encoder_mean_squares"][UNLEARNED_DISTANCE]
    seen = learner.n_seen_
    for start in range(0, len(stream), window):
        part = stream[start : start + window]
        metric, counts = learner.metric(), eligible_candidates(part)
        spaces = [
            p.encode(part.reshape(-1, part.shape[2])).reshape(len(part), 3, -1) for p in metric.weighted_spaces
        ]
        mean_square += (mean_squared_distance(spaces[0]) - mean_square) * max(len(part) / (seen + len(part)), 0.01)
        spaces[0] = spaces[0] * np.sqrt(max(1.0, 0.3 / mean_square))
        base = pair_scores(spaces[:1], counts)
        beside = [pair_scores([spaces[0], space], counts) for space in spaces[1:]]
        for i in range(len(part)):
            keep = 1.0 - 1.0 / min(100.0 + 0.5 * seen, 10_000.0)
            near, far = (np.square(spaces[0][i, 0] - spaces[0][i, k]).sum() for k in (1, 2))
            gains = [0.5 if near < far else -0.5] + [space[i] - base[i] for space in beside]
            sums = keep * sums + np.array([gains, np.square(gains)])
            seen += 1
        learner.partial_fit(part)
    return sums


@settings(max_examples=15)
@example(d=2, window=3, n_items=5, seed=1)  # three items, each pair of them twice
@given(d=st.integers(2, 12), window=st.integers(2, 8), n_items=st.integers(5, 30), seed=st.integers(0, 10**6))
def test_evidence_is_measured_before_each_window_is_learned(d: int, window: int, n_items: int, seed: int) -> None:
    learner = learner_of(n_layers=2, hidden_size=8, embedding_size=5, window=window).initialize(d)
    stream = constraints(6 * window, d, n_items, seed)
    learner.partial_fit(stream[:window])  # the first window estimates the items' lengths
    sums = expected_evidence(learner, stream[window:], window)
    assert learner.evidence_ == pytest.approx(standard_errors(sums), rel=1e-6, abs=1e-6)


# -- the encoder ---------------------------------------------------------------------------------------------


def test_the_encoder_has_the_mean_and_mean_square_of_the_stream() -> None:
    stream = constraints(64, 7, 25, 3)
    metric = learner_of(window=16).partial_fit(stream).metric()
    items = stream.reshape(-1, 7)
    assert metric.mean == pytest.approx(items.mean(axis=0))
    assert metric.softening[0] == pytest.approx((4 / 6) ** 3 * np.square(items).sum(axis=1).mean())


def test_the_whitened_space_shrinks_differences_of_similar_pairs() -> None:
    rng = np.random.default_rng(0)
    anchors = rng.standard_normal((4_000, 6))
    nuisance = np.zeros((4_000, 6))
    nuisance[:, 0] = 5.0 * rng.standard_normal(4_000)
    positives = anchors + nuisance + 0.1 * rng.standard_normal((4_000, 6))
    stream = np.stack([anchors, positives, rng.standard_normal((4_000, 6))], axis=1)
    metric = learner_of().partial_fit(stream).metric()
    assert abs(metric.directions[0, 0]) > 0.99
    assert metric.gains[0] < 0.5 * metric.gains[-1]
