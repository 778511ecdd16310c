"""The ensemble's metric against the formulas, item by item, in plain Python."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Sequence
from dataclasses import FrozenInstanceError
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from oahu import OAHU, EnsembleMetric, InvalidInputError

Floats = NDArray[np.floating]
Vector = list[float]

LAYERS = ("hidden_weights", "hidden_biases", "embedding_weights", "embedding_biases")


def random_metric(
    seed: int = 0,
    sizes: Sequence[int] = (3, 5, 4),
    embedding_size: int = 2,
    dtype: str = "float64",
    bias: float = 1,
) -> EnsembleMetric:
    """Return a metric for ``sizes[0]`` features, with hidden layers of the other sizes."""
    rng = np.random.default_rng(seed)

    def draw(*shape: int) -> Floats:
        return rng.normal(size=shape).astype(dtype)

    return EnsembleMetric.frozen(
        [draw(out, into) for into, out in pairwise(sizes)],
        [bias * draw(out) for out in sizes[1:]],
        [draw(embedding_size, into) for into in sizes],
        [bias * draw(embedding_size) for _ in sizes],
        rng.dirichlet(np.ones(len(sizes))),
        version=seed,
    )


# -- the formulas, without numpy ----------------------------------------------------------------------------


def affine(weights: Floats, biases: Floats, x: Vector) -> Vector:
    rows = zip(weights.tolist(), biases.tolist(), strict=True)
    return [math.fsum([*(w * v for w, v in zip(row, x, strict=True)), b]) for row, b in rows]


def by_hand(metric: EnsembleMetric, item: Floats) -> list[Vector]:
    """f_0(x) ... f_L(x): h_l = relu(W_l h_(l-1) + b_l), f_l = Theta_l h_l + c_l, scaled to length 1."""
    hidden, spaces = [float(v) for v in item], []
    for level, (theta, c) in enumerate(zip(metric.embedding_weights, metric.embedding_biases, strict=True)):
        if level:
            hidden = [
                max(0.0, v)
                for v in affine(metric.hidden_weights[level - 1], metric.hidden_biases[level - 1], hidden)
            ]
        embedded = affine(theta, c, hidden)
        length = math.hypot(*embedded)
        spaces.append([v / length for v in embedded] if length else embedded)
    return spaces


def distance_by_hand(metric: EnsembleMetric, a: Floats, b: Floats) -> float:
    """sqrt(sum_l alpha_l ||f_l(a) - f_l(b)||^2)."""
    spaces = zip(metric.metric_weights.tolist(), by_hand(metric, a), by_hand(metric, b), strict=True)
    return math.sqrt(math.fsum(alpha * math.dist(left, right) ** 2 for alpha, left, right in spaces))


@st.composite
def metrics_and_items(draw: st.DrawFn, n_items: int = 4) -> tuple[EnsembleMetric, Floats]:
    """Draw a float64 metric of 1 to 4 small experts, and items for it."""
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    seed = draw(st.integers(0, 2**32 - 1))
    metric = random_metric(seed, sizes, draw(st.integers(1, 4)))
    return metric, np.random.default_rng([seed, 1]).normal(size=(n_items, sizes[0]))


TOLERANCE = {"float32": 2e-5, "float64": 1e-9}


@given(metrics_and_items())
@settings(max_examples=50)
def test_embeddings_are_the_formula_item_by_item(case: tuple[EnsembleMetric, Floats]) -> None:
    metric, items = case
    expected = np.array([by_hand(metric, item) for item in items]).transpose(1, 0, 2)
    np.testing.assert_allclose(metric.embed(items), expected, atol=TOLERANCE["float64"])


@given(metrics_and_items(n_items=2))
@settings(max_examples=50)
def test_the_distance_is_the_formula(case: tuple[EnsembleMetric, Floats]) -> None:
    metric, (a, b) = case
    assert metric.distance(a, b) == pytest.approx(distance_by_hand(metric, a, b), abs=TOLERANCE["float64"])


def test_the_formula_holds_in_float32_up_to_rounding() -> None:
    metric = random_metric(dtype="float32")
    items = np.random.default_rng(1).normal(size=(2, 20, 3)).astype(np.float32)
    expected = [distance_by_hand(metric, a, b) for a, b in zip(*items, strict=True)]
    np.testing.assert_allclose(metric.distance(*items), expected, atol=TOLERANCE["float32"])


def test_a_learners_metric_is_the_formula_on_its_weights() -> None:
    learner = OAHU(n_layers=3, hidden_size=6, embedding_size=4, dtype="float64", random_state=0)
    triplets = np.random.default_rng(0).normal(size=(50, 3, 5))
    metric = learner.partial_fit(triplets).metric()
    anchor, positive, _ = triplets[0]
    expected = distance_by_hand(metric, anchor, positive)
    assert learner.pair_distance([[anchor, positive]])[0] == pytest.approx(expected, abs=1e-9)


# -- it is a metric -----------------------------------------------------------------------------------------


@given(metrics_and_items(n_items=2))
@settings(max_examples=50)
def test_the_distance_is_symmetric(case: tuple[EnsembleMetric, Floats]) -> None:
    metric, (a, b) = case
    assert metric.distance(a, b) == metric.distance(b, a)


@given(metrics_and_items(n_items=1))
@settings(max_examples=50)
def test_the_distance_of_an_item_to_itself_is_zero(case: tuple[EnsembleMetric, Floats]) -> None:
    metric, (a,) = case
    assert metric.distance(a, a.copy()) == 0.0


@given(metrics_and_items(n_items=3))
@settings(max_examples=50)
def test_the_triangle_inequality_holds(case: tuple[EnsembleMetric, Floats]) -> None:
    metric, (a, b, c) = case
    assert metric.distance(a, c) <= metric.distance(a, b) + metric.distance(b, c) + 1e-12


@given(metrics_and_items(n_items=2))
@settings(max_examples=50)
def test_no_distance_exceeds_two(case: tuple[EnsembleMetric, Floats]) -> None:
    metric, (a, b) = case
    assert 0.0 <= metric.distance(a, b) <= 2.0 + 1e-12


@given(metrics_and_items(n_items=6))
@settings(max_examples=50)
def test_the_distance_is_euclidean_between_transformed_items(case: tuple[EnsembleMetric, Floats]) -> None:
    metric, items = case
    vectors = metric.transform(items)
    between = [math.dist(left, right) for left, right in zip(vectors[:3], vectors[3:], strict=True)]
    np.testing.assert_allclose(metric.distance(items[:3], items[3:]), between, atol=1e-12)


def test_transformed_items_have_one_block_of_columns_per_expert() -> None:
    metric = random_metric(sizes=(3, 5, 4), embedding_size=2)
    vectors = metric.transform(np.ones((7, 3)))
    lengths = np.linalg.norm(vectors.reshape(7, 3, 2), axis=2)
    np.testing.assert_allclose(lengths, np.tile(np.sqrt(metric.metric_weights), (7, 1)), rtol=1e-12)


def test_two_items_give_a_float() -> None:
    assert type(random_metric().distance(np.ones(3), np.zeros(3))) is float


def test_arrays_of_items_give_one_distance_each() -> None:
    metric, (a, b) = random_metric(), np.random.default_rng(0).normal(size=(2, 4, 3))
    one_by_one = [metric.distance(left, right) for left, right in zip(a, b, strict=True)]
    np.testing.assert_allclose(metric.distance(a, b), one_by_one, rtol=1e-12)


# -- the experts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("level", range(3))
def test_an_expert_encodes_items_like_embed(level: int, dtype: str) -> None:
    metric, items = random_metric(dtype=dtype), np.random.default_rng(0).normal(size=(10, 3))
    assert np.array_equal(metric.spaces[level].encode(items), metric.embed(items)[level])


def test_the_experts_are_named_from_shallow_to_deep() -> None:
    assert [expert.name for expert in random_metric().spaces] == ["E_0", "E_1", "E_2"]


def test_the_experts_share_the_weight() -> None:
    metric = random_metric()
    assert [expert.weight for expert in metric.spaces] == metric.metric_weights.tolist()


def test_a_shallow_expert_does_not_compute_the_deeper_ones() -> None:
    """An expert uses only its own layers, so that an overflow in a deeper layer does not matter."""
    metric = random_metric(dtype="float32")
    huge = [metric.hidden_weights[0], np.full_like(metric.hidden_weights[1], 3e38)]
    deep = EnsembleMetric.frozen(
        huge, metric.hidden_biases, metric.embedding_weights, metric.embedding_biases, metric.metric_weights, 0
    )
    items = 100 * np.random.default_rng(0).normal(size=(5, 3))
    assert np.array_equal(deep.spaces[1].encode(items), metric.embed(items)[1])


# -- at the edges of the numbers ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_item_with_only_inactive_units_is_embedded_as_zero(dtype: str) -> None:
    metric = OAHU(n_layers=2, bias=False, dtype=dtype, random_state=0).initialize(4).metric()
    assert not metric.embed(np.zeros((1, 4))).any()


def test_a_zero_embedding_has_distance_one_to_a_unit_vector() -> None:
    metric = OAHU(n_layers=0, bias=False, random_state=0).initialize(4).metric()
    assert metric.distance(np.zeros(4), np.ones(4)) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("scale", [2.0**-100, 2.0**-60, 2.0**60, 2.0**100], ids="2**{:g}".format)
def test_without_biases_the_length_of_an_item_does_not_matter(scale: float) -> None:
    """Every layer is positively homogeneous, so f_l(s x) = f_l(x): squares overflow at s = 2**100 in float32."""
    metric = random_metric(dtype="float32", bias=0)
    items = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    np.testing.assert_allclose(metric.embed(items * np.float32(scale)), metric.embed(items), atol=1e-6)


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e200, 1e300])
def test_without_biases_the_length_of_an_item_does_not_matter_in_float64(scale: float) -> None:
    metric = random_metric(dtype="float64", bias=0)
    items = np.random.default_rng(0).normal(size=(20, 3))
    np.testing.assert_allclose(metric.embed(items * scale), metric.embed(items), atol=1e-12)


@pytest.mark.parametrize("scale", [1e-45, 1e-38, 1e-30, 1e30, 1e36])
def test_extreme_items_give_finite_unit_vectors(scale: float) -> None:
    metric = OAHU(n_layers=3, random_state=0).initialize(4).metric()
    items = (np.random.default_rng(0).uniform(1, 2, size=(20, 4)) * scale).astype(np.float32)
    np.testing.assert_allclose(np.linalg.norm(metric.embed(items), axis=2), 1.0, atol=1e-5)


def test_an_extreme_item_does_not_change_the_others() -> None:
    metric = random_metric(dtype="float32")
    items = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    mixed = items.copy()
    mixed[2] *= np.float32(1e30)
    np.testing.assert_allclose(np.delete(metric.embed(mixed), 2, axis=1), np.delete(metric.embed(items), 2, axis=1))


@pytest.mark.parametrize(
    ("value", "message"),
    [(3e38, "Item 4 is too large for the model's float32"), (1e300, r"too large for float32: row 4, feature 1")],
    ids=["in the network", "in the cast"],
)
def test_an_item_that_overflows_is_named(value: float, message: str) -> None:
    metric = EnsembleMetric.frozen(
        [], [], [np.full((2, 3), 2.0, np.float32)], [np.zeros(2, np.float32)], np.ones(1), 0
    )
    items = np.ones((6, 3))
    items[4, 1] = value
    with pytest.raises(InvalidInputError, match=message):
        metric.embed(items)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_items_beyond_one_block_embed_as_they_do_alone(dtype: str) -> None:
    metric = random_metric(dtype=dtype)
    items = np.random.default_rng(0).normal(size=(2 * 4096 + 3, 3)).astype(dtype)
    embedded = metric.embed(items)
    rows = [0, 1, 4094, 4095, 4096, 4097, 8191, 8192, 8193, 8194, *range(100, 8000, 97)]
    alone = np.stack([metric.embed(items[row : row + 1])[:, 0] for row in rows], axis=1)
    np.testing.assert_allclose(embedded[:, rows], alone, atol=TOLERANCE[dtype])


def test_an_overflow_beyond_one_block_is_named_by_its_row() -> None:
    metric = random_metric(dtype="float32")
    items = np.ones((5000, 3))
    items[4500] = 1e300
    with pytest.raises(InvalidInputError, match="row 4500, feature 0"):
        metric.embed(items)


# -- what it takes ------------------------------------------------------------------------------------------

TAKERS = ("embed", "transform")


def test_a_list_of_lists_is_accepted() -> None:
    metric = random_metric()
    assert np.array_equal(metric.embed([[1.0, 2.0, 3.0]]), metric.embed(np.array([[1.0, 2.0, 3.0]])))


@pytest.mark.parametrize("layout", [np.asfortranarray, lambda x: np.repeat(x, 2, axis=1)[:, ::2]])
def test_the_layout_of_the_items_does_not_matter(layout: Any) -> None:
    metric, items = random_metric(), np.random.default_rng(0).normal(size=(10, 3))
    np.testing.assert_allclose(metric.embed(layout(items)), metric.embed(items), atol=1e-12)


def test_integers_are_not_rounded_to_float32_first() -> None:
    """2**24 + 1 is the first integer that float32 cannot represent."""
    metric, items = random_metric(bias=0), np.array([[2**24 + 1, -(2**24), 0]])
    assert np.array_equal(metric.embed(items), metric.embed(items.astype(np.float64)))


@pytest.mark.parametrize("take", [*TAKERS, "distance"])
def test_the_items_are_not_changed(take: str) -> None:
    metric, items = random_metric(), np.random.default_rng(0).normal(size=(10, 3))
    before = items.copy()
    getattr(metric, take)(*[items] * (2 if take == "distance" else 1))
    assert np.array_equal(items, before)


@pytest.mark.parametrize("take", TAKERS)
def test_a_wrong_number_of_features_is_rejected_with_both_numbers(take: str) -> None:
    with pytest.raises(InvalidInputError, match=r"X has 2 features.*expecting 3 features"):
        getattr(random_metric(), take)(np.ones((4, 2)))


def test_a_distance_with_too_many_features_is_rejected_with_both_numbers() -> None:
    with pytest.raises(InvalidInputError, match=r"X has 4 features.*expecting 3 features"):
        random_metric().distance(np.ones(4), np.ones(4))


def test_an_expert_rejects_a_wrong_number_of_features() -> None:
    with pytest.raises(InvalidInputError, match=r"X has 2 features.*expecting 3 features"):
        random_metric().spaces[1].encode(np.ones((4, 2)))


@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
@pytest.mark.parametrize("take", TAKERS)
def test_items_that_are_not_finite_are_rejected(take: str, value: float, word: str) -> None:
    items = np.ones((4, 3))
    items[2, 1] = value
    with pytest.raises(ValueError, match=word):
        getattr(random_metric(), take)(items)


@pytest.mark.parametrize("side", [0, 1])
def test_a_distance_to_nan_is_rejected(side: int) -> None:
    items = [np.ones(3), np.ones(3)]
    items[side][0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        random_metric().distance(*items)


@pytest.mark.parametrize("shape", [(), (3,), (2, 2, 3)], ids=str)
@pytest.mark.parametrize("take", TAKERS)
def test_items_of_another_dimension_are_rejected(take: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"shape \(n_items, n_features\)"):
        getattr(random_metric(), take)(np.ones(shape))


@pytest.mark.parametrize("take", TAKERS)
def test_an_empty_array_of_items_is_rejected(take: str) -> None:
    with pytest.raises(ValueError, match=r"with at least one item. Got an array of shape \(0, "):
        getattr(random_metric(), take)(np.ones((0, 3)))


@pytest.mark.parametrize(
    "shapes", [((3,), (2,)), ((3,), (1, 3)), ((2, 3), (3, 3)), ((), ()), ((1, 2, 3), (1, 2, 3))], ids=str
)
def test_a_distance_between_arrays_of_other_shapes_is_rejected_with_both_shapes(
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        random_metric().distance(np.ones(shapes[0]), np.ones(shapes[1]))
    assert f"Got shapes {shapes[0]} and {shapes[1]}" in str(caught.value)


# -- it is frozen -------------------------------------------------------------------------------------------


def every_array(metric: EnsembleMetric) -> list[Floats]:
    return [array for name in LAYERS for array in getattr(metric, name)] + [metric.metric_weights]


def test_no_array_can_be_written_to() -> None:
    assert not any(array.flags.writeable for array in every_array(random_metric()))


def test_no_array_can_be_made_writeable_through_a_base() -> None:
    assert all(array.base is None for array in every_array(random_metric()))


@pytest.mark.parametrize("name", [*LAYERS, "metric_weights", "version"])
def test_no_attribute_can_be_set(name: str) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(random_metric(), name, None)


def test_a_metric_copies_its_arrays() -> None:
    weights = np.ones((2, 3))
    metric = EnsembleMetric.frozen([], [], [weights], [np.zeros(2)], np.ones(1), 0)
    weights[:] = 7
    assert np.array_equal(metric.embedding_weights[0], np.ones((2, 3)))


def test_returned_arrays_are_writeable() -> None:
    metric, items = random_metric(), np.ones((2, 3))
    before = metric.transform(items)
    metric.transform(items)[:] = 0
    assert np.array_equal(metric.transform(items), before)


def test_the_number_of_features_is_the_first_layers() -> None:
    assert random_metric(sizes=(7, 2)).n_features == 7


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda metric: pickle.loads(pickle.dumps(metric))], ids=["copy", "pickle"]
)
def test_a_copy_is_read_only(copied: Any) -> None:
    metric = copied(OAHU(n_layers=1, hidden_size=3, embedding_size=2, random_state=0).initialize(4).metric())
    arrays = [*metric.hidden_weights, *metric.embedding_weights, *metric.embedding_biases, metric.metric_weights]
    assert not any(array.flags.writeable for array in arrays)


def test_repr_is_one_line() -> None:
    metric = OAHU(n_layers=1, random_state=0).initialize(4).metric()
    assert repr(metric) == "EnsembleMetric(metric_weights=array([0.5, 0.5]), version=0)"
