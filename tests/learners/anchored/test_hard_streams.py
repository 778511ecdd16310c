"""Difficult streams: the metric stays finite, and is not worse than the unlearned metric."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from oahu import AnchoredOAHU, Classifier, RejectedConstraintError, sample_triplets

Rows = NDArray[np.float64]
PIXELS, LABELS = load_digits(return_X_y=True)
SPLIT = np.random.default_rng(0).permutation(len(LABELS))
TRAIN, TEST = SPLIT[:900], SPLIT[900:]
STREAM = sample_triplets(LABELS[TRAIN], 2_000, random_state=0)


def learned(items: Rows, stream: NDArray[np.intp] = STREAM, **parameters: Any) -> AnchoredOAHU:
    return AnchoredOAHU(preprocessor=items[TRAIN], random_state=0, **parameters).partial_fit(stream)


def accuracy(learner: AnchoredOAHU, items: Rows) -> float:
    votes = Classifier(learner.metric(), k=5).fit(items[TRAIN], LABELS[TRAIN])
    return float(votes.score(items[TEST], LABELS[TEST]))


@cache
def accuracy_of_unlearned_pixels() -> float:
    return accuracy(unlearned(PIXELS), PIXELS)


def unlearned(items: Rows) -> AnchoredOAHU:
    """Return a learner after one window of wrong feedback: unlearned, but with the mean length of the items."""
    start = learned(items, STREAM[:16, [0, 2, 1]])
    assert start.metric_weights_[0] == 1
    return start


def beside_noise(items: Rows) -> Rows:
    return np.hstack([items, np.full((len(items), 200), 7.0)])


def duplicated(items: Rows) -> Rows:
    return np.hstack([items, items])


def of_low_rank(items: Rows) -> Rows:
    return np.asarray(items @ np.random.default_rng(1).standard_normal((64, 8)) @ np.ones((8, 40)) + items[:, :40])


def of_mixed_scales(items: Rows) -> Rows:
    return items * 10.0 ** np.random.default_rng(2).uniform(-6, 6, 64)


def far_from_the_origin(items: Rows) -> Rows:
    return items + 1e4


TABLES: dict[str, Callable[[Rows], Rows]] = {
    "as they are": lambda items: items,
    "with constant features": beside_noise,
    "with every feature duplicated": duplicated,
    "of low rank": of_low_rank,
    "of wild scale": of_mixed_scales,
    "far from the origin": far_from_the_origin,
    "tiny": lambda items: items * 1e-6,
    "huge": lambda items: items * 1e6,
}


@pytest.mark.slow
@pytest.mark.parametrize("made", TABLES.values(), ids=TABLES.keys())
def test_no_table_makes_the_metric_worse_than_unlearned(made: Callable[[Rows], Rows]) -> None:
    items = made(PIXELS)
    learner = learned(items)
    assert np.isfinite(learner.transform(items)).all()
    # two standard errors of an error difference with a dozen of the 897 test items
    assert accuracy(learner, items) >= accuracy(unlearned(items), items) - 7 / len(TEST)


def test_duplicated_rows_are_no_candidates_against_themselves() -> None:
    items = PIXELS.copy()
    items[TRAIN[1::2]] = items[TRAIN[::2]]  # pairs of equal rows, half of them under another label
    learner = learned(items)
    assert np.isfinite(learner.transform(items)).all()


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [0.5, 0.6, 0.9])
@pytest.mark.parametrize("n_classes", [2, 10])
def test_wrong_feedback_leaves_the_unlearned_metric(wrong: float, n_classes: int) -> None:
    labels = LABELS[TRAIN] % n_classes
    stream = sample_triplets(labels, 4_000, random_state=1)
    swapped = np.random.default_rng(0).random(len(stream)) < wrong
    stream[swapped] = stream[swapped][:, [0, 2, 1]]
    assert learned(PIXELS, stream).metric_weights_[0] > (0.9 if wrong == 0.5 else 1 - 1e-12)


def test_a_minority_of_wrong_feedback_does_no_harm() -> None:
    stream = STREAM.copy()
    swapped = np.random.default_rng(0).random(len(stream)) < 0.2
    stream[swapped] = stream[swapped][:, [0, 2, 1]]
    learner = learned(PIXELS, stream)
    assert learner.metric_weights_[0] < 0.9
    assert accuracy(learner, PIXELS) >= accuracy_of_unlearned_pixels() - 7 / len(TEST)


STREAMS: dict[str, Callable[[], NDArray[np.intp]]] = {
    "all of one class": lambda: np.random.default_rng(0).choice(np.flatnonzero(LABELS[TRAIN] == 3), (1_500, 3)),
    "drawn without labels": lambda: np.random.default_rng(0).integers(0, len(TRAIN), (1_500, 3)),
    "one triplet again and again": lambda: np.tile(STREAM[:1], (1_500, 1)),
    "the positive is the anchor": lambda: STREAM[:, [0, 0, 2]],
    "the positive is the negative": lambda: STREAM[:, [0, 1, 1]],
    "the negative is the anchor": lambda: STREAM[:, [0, 1, 0]],
    "all the same item": lambda: np.zeros((1_500, 3), np.intp),
}


@pytest.mark.parametrize("drawn", STREAMS.values(), ids=STREAMS.keys())
def test_no_stream_makes_the_metric_worse_than_unlearned(drawn: Callable[[], NDArray[np.intp]]) -> None:
    learner = learned(PIXELS, drawn())
    assert np.isfinite(learner.transform(PIXELS)).all()
    assert accuracy(learner, PIXELS) >= accuracy_of_unlearned_pixels() - 7 / len(TEST)


@pytest.mark.parametrize("d", [1, 2, 3, 5, 129, 4096])
def test_any_number_of_features(d: int) -> None:
    rng = np.random.default_rng(d)
    stream = rng.standard_normal((40, 3, d))
    learner = AnchoredOAHU(random_state=0).partial_fit(stream)
    assert learner.metric().transform(stream[:, 0]).shape == (40, 2 * d + 300)
    assert np.isfinite(learner.pair_distance(stream[:, :2])).all()


def test_the_scale_of_the_items_does_not_matter() -> None:
    small, large = (learned(PIXELS * scale, dtype="float64") for scale in (1.0, 1024.0))
    assert large.metric_weights_ == pytest.approx(small.metric_weights_, abs=1e-6)
    np.testing.assert_allclose(large.transform(PIXELS * 1024.0), small.transform(PIXELS), rtol=0, atol=1e-6)


def test_memory_does_not_grow_with_the_stream() -> None:
    def count_numbers(learner: AnchoredOAHU) -> int:
        return sum(array.size for array in learner._state.arrays.values())

    learner = learned(PIXELS, STREAM[:10])
    before = count_numbers(learner)
    assert count_numbers(learner.partial_fit(STREAM)) == before
    d, r, H, E, L, m = 64, 32, 100, 50, 5, 48
    stated = d * (2 * r + E + H + m + 3) + L * (H + m) * (H + E)
    assert stated <= before <= 1.2 * stated


def test_a_too_large_item_is_rejected_and_changes_nothing() -> None:
    learner = learned(PIXELS, STREAM[:20])
    before = learner.transform(PIXELS)
    triplets = np.ones((20, 3, 64))
    triplets[7, 1, 5] = 1e20
    with pytest.raises(RejectedConstraintError, match="Triplet 7 was rejected"):
        learner.partial_fit(triplets)
    assert learner.n_seen_ == 20
    np.testing.assert_array_equal(learner.transform(PIXELS), before)


def test_learning_improves_the_score() -> None:
    learner = learned(PIXELS, sample_triplets(LABELS[TRAIN], 5_000, random_state=0))
    unseen = PIXELS[TEST][sample_triplets(LABELS[TEST], 2_000, random_state=1)]
    assert learner.score(unseen) > unlearned(PIXELS).score(unseen) + 0.05
    assert accuracy(learner, PIXELS) >= accuracy_of_unlearned_pixels() - 7 / len(TEST)
