"""The loss of groups: its gradient against central differences of a loss in plain Python."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from oahu.learners.anchored.click_loss import loss_gradient, pair_weights

Rows = NDArray[np.float64]
Loss = Callable[..., float]
Gradient = Callable[[Callable[[], float], Rows], Rows]

#: Marks of five items, the query first. 0 is padding.
MARKS: dict[str, list[float]] = {
    "a triplet": [1, 1, -1, 0, 0],
    "positives and negatives": [1, 1, 1, -1, -1],
    "shown items as weak negatives": [1, 1, -1, -0.3, -0.3],
    "shown items as weak positives": [1, 0.3, 0.3, -1, 0],
    "only positives": [1, 1, 1, 0, 0],
    "only negatives": [1, -1, -1, -1, 0],
    "one negative": [1, -1, 0, 0, 0],
    "a query without marks": [1, 0, 0, 0, 0],
}


def units(rng: np.random.Generator, *shape: int) -> Rows:
    vectors = rng.standard_normal(shape)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


@pytest.mark.parametrize("temperature", [0.1, 1.0])
@pytest.mark.parametrize("marks", MARKS.values(), ids=MARKS.keys())
def test_the_gradient_of_one_group(
    loss_of_group: Loss, numeric_gradient: Gradient, marks: list[float], temperature: float
) -> None:
    rng = np.random.default_rng(0)
    vectors, randoms = units(rng, 1, 5, 3), units(rng, 4, 3)

    def loss() -> float:
        return loss_of_group(vectors[0], randoms, marks, temperature)

    array = np.array([marks])
    by_items, by_randoms = loss_gradient(vectors, randoms, array, pair_weights(array), temperature)
    assert by_items == pytest.approx(numeric_gradient(loss, vectors), abs=1e-6)
    assert by_randoms == pytest.approx(numeric_gradient(loss, randoms), abs=1e-6)


def test_the_gradient_of_many_groups_is_the_weighted_sum(loss_of_group: Loss, numeric_gradient: Gradient) -> None:
    rng = np.random.default_rng(1)
    marks, weights = np.array(list(MARKS.values())), np.linspace(0.2, 1.0, len(MARKS))
    vectors, randoms = units(rng, len(marks), 5, 3), units(rng, 6, 3)

    def loss() -> float:
        groups = zip(weights, vectors, marks, strict=True)
        return float(sum(weight * loss_of_group(items, randoms, row, 0.3) for weight, items, row in groups))

    pairs = pair_weights(marks) * weights[:, None, None]
    by_items, by_randoms = loss_gradient(vectors, randoms, marks, pairs, 0.3)
    assert by_items == pytest.approx(numeric_gradient(loss, vectors), abs=1e-6)
    assert by_randoms == pytest.approx(numeric_gradient(loss, randoms), abs=1e-6)


def test_padding_has_no_influence() -> None:
    rng = np.random.default_rng(2)
    vectors, randoms, marks = units(rng, 3, 4, 5), units(rng, 6, 5), np.array([[1.0, 1, -1, -0.3]] * 3)
    expected = loss_gradient(vectors, randoms, marks, pair_weights(marks), 0.2)
    longer = np.concatenate([vectors, units(rng, 3, 2, 5)], axis=1)
    padded = np.concatenate([marks, np.zeros((3, 2))], axis=1)
    by_items, by_randoms = loss_gradient(longer, randoms, padded, pair_weights(padded), 0.2)
    assert by_items[:, :4] == pytest.approx(expected[0], abs=1e-12)
    assert not by_items[:, 4:].any()
    assert by_randoms == pytest.approx(expected[1], abs=1e-12)


@given(st.lists(st.sampled_from([1.0, 0.3, -1.0, -0.3, 0.0]), min_size=1, max_size=7))
def test_pair_weights_are_products_of_marks_and_sum_to_one(others: list[float]) -> None:
    marks = [1.0, *others]
    weights = pair_weights(np.array([marks]))[0]
    assert weights.sum() == pytest.approx(1)
    if max(others) <= 0:
        assert weights[0, 0] == 1  # the query is its own positive
        return
    positive = [max(mark, 0.0) for mark in marks]
    expected = [[a * b * (i != j) for j, b in enumerate(positive)] for i, a in enumerate(positive)]
    assert weights == pytest.approx(np.array(expected) / np.sum(expected))


def test_a_step_against_the_gradient_brings_positives_nearer_than_negatives() -> None:
    vectors = units(np.random.default_rng(3), 1, 3, 8)
    marks = np.array([[1.0, 1.0, -1.0]])
    for _ in range(100):
        by_items, _ = loss_gradient(vectors, np.zeros((1, 8)), marks, pair_weights(marks), 0.5)
        vectors = vectors - 0.1 * by_items
        vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
    query, positive, negative = vectors[0]
    assert query @ positive > 0.9
    assert query @ negative < -0.3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_gradient_is_finite_at_the_largest_and_smallest_similarities(dtype: type[np.floating]) -> None:
    east = np.eye(4, dtype=dtype)[0]
    vectors = np.stack([[east, -east, east], [east, east, -east], [east, east, east]])
    marks = np.array([[1, 1, -1]] * 3, dtype)
    for randoms in (east[None], -east[None]):
        parts = loss_gradient(vectors, randoms, marks, pair_weights(marks), 0.1)
        assert all(np.isfinite(part).all() and part.dtype == dtype for part in parts)


@pytest.mark.parametrize("temperature", [0.02, 0.005, 0.0001])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_gradient_is_finite_at_a_low_temperature(dtype: type[np.floating], temperature: float) -> None:
    """The positive, the negative and the random item are all far from the query, so all exponentials are tiny."""
    east = np.eye(4, dtype=dtype)[0]
    marks = np.array([[1, 1, -1]], dtype)
    vectors = np.stack([[east, -east, -east]])
    parts = loss_gradient(vectors, -east[None], marks, pair_weights(marks), temperature)
    assert all(np.isfinite(part).all() for part in parts)
