"""The anchored metric: its eight spaces, its formula, its files."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import oahu
from oahu import AnchoredMetric, AnchoredOAHU, ModelFileError, OverflowedItemError
from oahu.metrics.anchored_metric import N_ANCHORS, SPACES, SpaceArrays

D, R, LEADING, H = 7, 5, 3, 6
RNG = np.random.default_rng(0)
ITEMS = RNG.standard_normal((60, D)) * [5, 1, 1, 1, 1, 1, 0.1] + 0.5
WEIGHTS = np.array([0.2, 0.15, 0.1, 0.05, 0.1, 0.15, 0.2, 0.05])
NEGATIVE = WEIGHTS + np.array([0.3, -0.3, 0, 0, 0, 0, 0, 0])
STARTING = ["cosine", "centred cosine", "Euclidean", "catalogue-whitened", "pair-whitened"]
FACTORS = ("spread", "gains", "pair_gains", "axis_weights")  # must not be negative
LEARNED = ["axis weights", "linear map", "network"]


def random_arrays(dtype: str = "float64", n_axes: int = R, n_leading: int = LEADING) -> SpaceArrays:
    rng = np.random.default_rng(1)
    root = rng.standard_normal((n_leading, n_leading))
    arrays = (
        rng.standard_normal(D),
        np.array([2.5]),
        np.linalg.qr(rng.standard_normal((D, D)))[0][:, :n_axes],
        rng.uniform(0.1, 1, n_axes),
        root @ root.T + np.eye(n_leading),
        rng.uniform(0.1, 3, n_axes - n_leading),
        rng.uniform(0.1, 3, n_axes),
        rng.standard_normal((n_leading, n_leading)),
        rng.standard_normal((n_leading, H)),
        rng.standard_normal(H),
        rng.standard_normal((H, n_leading)),
    )
    return SpaceArrays(*(array.astype(dtype) for array in arrays))


#: The number of axes, and of leading axes: all, some, or none of them.
SIZES = {"all axes": (R, R), "leading axes": (R, LEADING), "no leading axes": (R, 0), "no axes": (0, 0)}


@pytest.fixture(scope="module")
def metric() -> AnchoredMetric:
    return AnchoredMetric.frozen(random_arrays(), WEIGHTS, 200)


def unit(vector: Any) -> NDArray[np.float64]:
    return np.asarray(vector / np.sqrt(np.sum(np.square(vector))))


def expected_vectors(x: NDArray[np.float64], arrays: SpaceArrays) -> list[NDArray[np.float64]]:
    """Return the vector of one item in each space."""
    centred = x - arrays.mean
    along_axes = arrays.axes.T @ centred
    r = len(arrays.pair_whitening)
    factors = [float(gain) * float(value) for gain, value in zip(arrays.pair_gains, along_axes[r:], strict=True)]
    whitened = unit([*(arrays.pair_whitening @ along_axes[:r]), *factors])
    scaled = unit([value * weight for value, weight in zip(whitened, arrays.axis_weights, strict=True)])
    leading, rest = scaled[:r], scaled[r:]
    units = [max(0.0, float(leading @ arrays.hidden_weights[:, k] + arrays.hidden_bias[k])) for k in range(H)]
    added = sum((value * row for value, row in zip(units, arrays.output_weights, strict=True)), np.zeros(r))
    return [
        unit(x),
        unit(centred),
        centred / arrays.spread[0],
        unit(arrays.gains * along_axes),
        whitened,
        unit(arrays.axis_weights * along_axes),
        unit([*(arrays.linear_map @ leading), *rest]),
        unit([*(leading + added), *rest]),
    ]


# -- spaces ------------------------------------------------------------------------------------------------------


def test_there_are_five_starting_spaces_and_three_learned_spaces(metric: AnchoredMetric) -> None:
    assert [part.name for part in metric.weighted_spaces] == STARTING + LEARNED == list(SPACES)
    assert len(STARTING) == N_ANCHORS
    assert [part.weight for part in metric.weighted_spaces] == WEIGHTS.tolist()
    assert [part.dimensions for part in metric.weighted_spaces] == [D, D, D, R, R, R, R, R]


@pytest.mark.parametrize("space", range(8), ids=SPACES)
@pytest.mark.parametrize("sizes", list(SIZES.values())[:3], ids=list(SIZES)[:3])
def test_each_space_has_its_formula(sizes: tuple[int, int], space: int) -> None:
    metric = AnchoredMetric.frozen(random_arrays("float64", *sizes), WEIGHTS, 0)
    expected = [expected_vectors(x, metric.arrays)[space] for x in ITEMS]
    assert metric.weighted_spaces[space].encode(ITEMS) == pytest.approx(np.array(expected))


def test_the_metric_is_one_space_of_joint_vectors(metric: AnchoredMetric) -> None:
    (space,) = metric.spaces
    assert space.name == "whole"
    assert space.encode(ITEMS) == pytest.approx(metric.transform(ITEMS))


@pytest.mark.parametrize("n_features", [3, 7])
def test_before_the_first_click_learned_spaces_equal_the_centred_cosine(n_features: int) -> None:
    items = ITEMS[:, :n_features]
    learner = AnchoredOAHU(preprocessor=items, dtype="float64", random_state=0).initialize(n_features)
    parts = {part.name: part.encode(items) for part in learner.metric().weighted_spaces}
    expected = parts["centred cosine"] @ parts["centred cosine"].T
    for name in ("pair-whitened", *LEARNED):
        assert parts[name] @ parts[name].T == pytest.approx(expected), name


# -- distances ---------------------------------------------------------------------------------------------------


def test_the_squared_distance_is_the_weighted_sum_over_the_spaces(metric: AnchoredMetric) -> None:
    a, b = ITEMS[:30], ITEMS[30:]
    squares = [np.square(part.encode(a) - part.encode(b)).sum(axis=1) for part in metric.weighted_spaces]
    assert np.square(metric.distance(a, b)) == pytest.approx(WEIGHTS @ squares)


def test_distances_are_the_distances_of_joint_vectors(metric: AnchoredMetric) -> None:
    vectors = metric.transform(ITEMS)
    assert vectors.shape == (60, metric.dimensions) == (60, 3 * D + 5 * R)
    assert metric.distance(ITEMS[:30], ITEMS[30:]) == pytest.approx(
        np.linalg.norm(vectors[:30] - vectors[30:], axis=1)
    )


@pytest.mark.parametrize("size", [2, 3])
def test_scores_of_tuples_are_negative_distances_to_the_first_item(metric: AnchoredMetric, size: int) -> None:
    tuples = np.random.default_rng(2).integers(60, size=(500, size))
    scores = metric.scores_to_first(ITEMS[tuples].reshape(-1, D), size)
    for column in range(1, size):
        expected = -metric.distance(ITEMS[tuples[:, 0]], ITEMS[tuples[:, column]])
        assert scores[column - 1] == pytest.approx(expected)


def test_distances_have_no_upper_bound(metric: AnchoredMetric) -> None:
    assert metric.diameter is None
    assert metric.distance(ITEMS[:1], 1e6 * ITEMS[:1])[0] > 1e3


def test_spaces_without_weight_are_not_part_of_the_joint_vector(metric: AnchoredMetric) -> None:
    alone = replace(metric, metric_weights=np.array([0, 0, 0, 0, 0, 0, 1.0, 0]))
    assert alone.dimensions == R
    assert alone.transform(ITEMS) == pytest.approx(metric.weighted_spaces[6].encode(ITEMS))


def test_without_axes_only_the_first_three_spaces_have_dimensions() -> None:
    metric = AnchoredMetric.frozen(random_arrays("float64", 0, 0), WEIGHTS, 0)
    assert [part.dimensions for part in metric.weighted_spaces] == [D, D, D, 0, 0, 0, 0, 0]
    parts = [part.encode(ITEMS) for part in metric.weighted_spaces[:3]]
    squares = [np.square(part[:30] - part[30:]).sum(axis=1) for part in parts]
    assert np.square(metric.distance(ITEMS[:30], ITEMS[30:])) == pytest.approx(WEIGHTS[:3] @ squares)


def test_zeros_and_the_mean_have_finite_vectors(metric: AnchoredMetric) -> None:
    special = np.stack([np.zeros(D), metric.arrays.mean])
    assert np.isfinite(metric.transform(special)).all()
    assert not metric.weighted_spaces[0].encode(special)[0].any()
    for part in metric.weighted_spaces[1:7]:  # the network adds a constant to the mean
        assert not part.encode(special)[1].any(), part.name


def test_many_items_are_encoded_like_few(metric: AnchoredMetric) -> None:
    many = np.tile(ITEMS, (100, 1))
    assert metric.transform(many)[-60:] == pytest.approx(metric.transform(ITEMS), abs=1e-12)
    assert metric.weighted_spaces[7].encode(many)[-60:] == pytest.approx(metric.weighted_spaces[7].encode(ITEMS))


def test_float32_differs_only_by_rounding(metric: AnchoredMetric) -> None:
    single = AnchoredMetric.frozen(random_arrays("float32"), WEIGHTS, 200)
    vectors = single.transform(ITEMS)
    assert vectors.dtype == single.dtype == np.float32
    assert vectors == pytest.approx(metric.transform(ITEMS), abs=1e-5)


# -- verification ------------------------------------------------------------------------------------------------


def test_verification_gives_learned_spaces_three_times_the_weight(metric: AnchoredMetric) -> None:
    a, b = ITEMS[:30], ITEMS[30:]
    verifying = metric.for_verification
    assert verifying.metric_weights == pytest.approx(np.array([0.2, 0.15, 0.1, 0.05, 0.1, 0.45, 0.6, 0.15]) / 1.8)
    assert metric.metric_weights.tolist() == WEIGHTS.tolist()
    found = oahu.Comparator(metric, threshold=0.5).compare_all(np.stack([a, b], axis=1))
    assert found.scores == pytest.approx(-verifying.distance(a, b))


def test_verification_without_learned_spaces_uses_the_same_weights(metric: AnchoredMetric) -> None:
    start = replace(metric, metric_weights=np.array([0.5, 0.25, 0.25, 0, 0, 0, 0, 0]))
    assert start.for_verification.metric_weights.tolist() == start.metric_weights.tolist()


# -- copies and files --------------------------------------------------------------------------------------------


def copies(metric: AnchoredMetric) -> list[AnchoredMetric]:
    return [copy.copy(metric), copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))]


def test_arrays_cannot_be_changed_also_in_copies(metric: AnchoredMetric) -> None:
    for one in (metric, *copies(metric), metric.for_verification):
        for array in (*one.arrays, one.metric_weights):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0


def test_a_copy_has_the_same_vectors_and_version(metric: AnchoredMetric) -> None:
    for one in copies(metric):
        assert one.version == 200
        np.testing.assert_array_equal(one.transform(ITEMS), metric.transform(ITEMS))


def test_the_metric_does_not_change_with_the_given_arrays() -> None:
    arrays, weights = random_arrays(), WEIGHTS.copy()
    metric = AnchoredMetric.frozen(arrays, weights, 0)
    before = metric.transform(ITEMS)
    for array in (*arrays, weights):
        array[...] = 1
    np.testing.assert_array_equal(metric.transform(ITEMS), before)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_a_saved_metric_is_loaded_unchanged(tmp_path: Path, dtype: str, sizes: tuple[int, int]) -> None:
    metric = AnchoredMetric.frozen(random_arrays(dtype, *sizes), WEIGHTS, 200)
    metric.save(tmp_path / "metric.oahu")
    loaded = oahu.load(tmp_path / "metric.oahu")
    assert (type(loaded), loaded.version, loaded.dtype) == (AnchoredMetric, 200, np.dtype(dtype))
    for name, array in metric.arrays._asdict().items():
        np.testing.assert_array_equal(getattr(loaded.arrays, name), array, strict=True)
    np.testing.assert_array_equal(loaded.metric_weights, WEIGHTS)
    np.testing.assert_array_equal(loaded.transform(ITEMS), metric.transform(ITEMS))


@pytest.mark.parametrize(
    ("weights", "why"),
    [(WEIGHTS * 1.1, "must sum to 1"), (NEGATIVE, "must sum to 1"), (WEIGHTS[:7] / WEIGHTS[:7].sum(), "8")],
    ids=["too large", "negative", "too few"],
)
def test_a_file_with_invalid_weights_is_rejected(
    metric: AnchoredMetric, tmp_path: Path, weights: NDArray[np.float64], why: str
) -> None:
    replace(metric, metric_weights=weights).save(tmp_path / "wrong.oahu")
    with pytest.raises(ModelFileError, match=why):
        oahu.load(tmp_path / "wrong.oahu")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, np.zeros((9, 9, 9))) for name in SpaceArrays._fields),
        *((name, array[:-1]) for name, array in random_arrays()._asdict().items()),
        *((name, array.astype(np.float32)) for name, array in random_arrays()._asdict().items()),
        *((name, -np.ones_like(getattr(random_arrays(), name))) for name in FACTORS),
        ("linear_map", np.ones((R + 1, R + 1))),
        ("spread", np.zeros(1)),
        ("axes", np.zeros((D, R), np.int64)),
        ("axes", np.zeros((D, R), np.float16)),
    ],
)
def test_a_file_with_an_invalid_array_is_rejected(
    metric: AnchoredMetric, tmp_path: Path, name: str, value: NDArray[Any]
) -> None:
    replace(metric, arrays=metric.arrays._replace(**{name: value})).save(tmp_path / "wrong.oahu")
    with pytest.raises(ModelFileError, match=r"wrong\.oahu"):
        oahu.load(tmp_path / "wrong.oahu")


@pytest.mark.parametrize("name", [*SpaceArrays._fields, "metric_weights"])
def test_content_without_an_array_is_rejected(metric: AnchoredMetric, name: str) -> None:
    content = metric._to_content()
    del content.arrays[name]
    with pytest.raises(ModelFileError, match=f"no array '{name}'"):
        AnchoredMetric._from_content(content)


@pytest.mark.parametrize("name", [*SpaceArrays._fields, "metric_weights"])
def test_content_with_a_value_that_is_not_finite_is_rejected(metric: AnchoredMetric, name: str) -> None:
    content = metric._to_content()
    content.arrays[name] = content.arrays[name].copy()
    content.arrays[name].flat[-1] = np.nan
    with pytest.raises(ModelFileError, match=f"'{name}' contains values that are not finite"):
        AnchoredMetric._from_content(content)


# -- overflow ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [0, 41, 2_047, 2_048, 5_000])
def test_an_item_too_large_is_named(metric: AnchoredMetric, row: int) -> None:
    items = np.tile(ITEMS, (100, 1))
    items[row] = 1.5e308
    with pytest.raises(OverflowedItemError, match=f"Item {row} is too large") as raised:
        metric.transform(items)
    assert raised.value.row == row


def test_an_item_too_large_for_float32_is_named() -> None:
    single = AnchoredMetric.frozen(random_arrays("float32"), WEIGHTS, 200)
    items = ITEMS.copy()
    items[3] = 3e38
    with pytest.raises(OverflowedItemError, match="Item 3 is too large"):
        single.transform(items)


@pytest.mark.parametrize("size", [1e160, 1.5e308])
def test_an_item_too_large_for_a_distance_is_named(metric: AnchoredMetric, size: float) -> None:
    """Squares of the distances to the first item overflow. Vectors of the second item overflow, too."""
    many = np.tile(ITEMS, (10, 1))
    far = many.copy()
    far[437] = size
    with pytest.raises(OverflowedItemError, match="437 is too large"):
        metric.distance(many, far)
