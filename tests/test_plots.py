"""Pictures: what is drawn is what was given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.metrics import roc_curve as sklearn_roc_curve

from oahu import plots
from oahu.exceptions import InvalidInputError

DIGITS, CLASSES = load_digits(return_X_y=True)


def named(ax: Any, gid: str) -> list[Any]:
    return [line for line in ax.lines if line.get_gid() == gid]


def texts(legend: Any) -> list[str]:
    return [text.get_text() for text in legend.get_texts()]


def drawn_points(ax: Any) -> NDArray[np.float64]:
    return np.concatenate([dots.get_offsets() for dots in ax.collections])


def test_weights_are_stacked_to_one(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(4), size=30)
    drawn, (ax,) = plots.figure(1)
    plots.weights_over_time(ax, np.arange(1, 31), weights)
    tops = [band.get_paths()[0].vertices[:, 1].max() for band in ax.collections]
    np.testing.assert_allclose(tops, np.cumsum(weights, axis=1).max(axis=0))
    assert [text.get_text() for text in ax.texts] == [f"$E_{{{level}}}$" for level in range(4)]
    drawn.savefig(tmp_path / "weights.png")


def test_varying_curves_are_solid_and_constant_ones_dashed(tmp_path: Path) -> None:
    drawn, (left, right) = plots.figure(2, "Two")
    curves = {"plain": [0.4, 0.4, 0.4], "ours": [0.5, 0.3, 0.2]}
    plots.learning_curves(left, [0, 1, 2], curves, "errors", best=0)
    plots.learning_curves(right, [0, 1, 2], {"ours": [0.5, 0.7, 0.875]}, "right", best=1)
    level, learned = named(left, "curve")
    np.testing.assert_array_equal(level.get_ydata(), curves["plain"])
    np.testing.assert_array_equal(learned.get_ydata(), curves["ours"])
    assert level.get_linestyle() == "--"
    assert learned.get_linestyle() == "-"
    assert left.get_ylim()[0] == 0.0
    assert right.get_ylim()[1] == 1.0
    assert [text.get_text() for text in left.texts] == ["ours 20.0%", "plain 40.0%"]  # the lowest first
    drawn.savefig(tmp_path / "curves.png")


def test_every_learner_has_its_own_colour() -> None:
    _, (ax,) = plots.figure()
    plots.learning_curves(ax, [0, 1], {f"learner {i}": [0.1, 0.2 + 0.01 * i] for i in range(12)}, "many", best=1)
    looks = {(line.get_color(), line.get_linestyle()) for line in named(ax, "curve")}
    assert len(looks) == 12


def test_a_curve_of_another_length_is_rejected_with_its_name() -> None:
    _, (ax,) = plots.figure()
    with pytest.raises(InvalidInputError, match="The curve of OAHU must have 3 entries"):
        plots.learning_curves(ax, [0, 1, 2], {"OAHU": [0.1, 0.2]}, "errors", best=0)


def test_axes_are_returned_row_by_row() -> None:
    drawn, axes = plots.figure(3, rows=2, size=(3.0, 2.0))
    places = [ax.get_subplotspec() for ax in axes]
    assert [(place.rowspan.start, place.colspan.start) for place in places] == [
        (row, column) for row in range(2) for column in range(3)
    ]
    assert tuple(drawn.get_size_inches()) == (9.0, 4.0)


# --- ROC curves --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pairs() -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Whether pairs of digits are of one class, and how alike their pixels are."""
    a, b = np.random.default_rng(0).integers(len(DIGITS), size=(2, 3000))
    return CLASSES[a] == CLASSES[b], -np.linalg.norm(DIGITS[a] - DIGITS[b], axis=1)


def test_a_curve_is_drawn_with_its_area(pairs: Any, tmp_path: Path) -> None:
    far, tar, _ = sklearn_roc_curve(*pairs)
    drawn, (ax,) = plots.figure()
    plots.roc_curve(ax, far, tar, "pixels")
    ((x, y),) = [line.get_data() for line in named(ax, "curve")]
    np.testing.assert_array_equal(np.unique([x, y], axis=1), np.unique([far, tar], axis=1))
    assert texts(ax.get_legend())[0].startswith(f"pixels: AUC {roc_auc_score(*pairs):.3f}, EER ")
    (diagonal,) = named(ax, "chance")
    np.testing.assert_array_equal(*diagonal.get_data())
    drawn.savefig(tmp_path / "roc.png")


def test_the_ring_marks_the_equal_error_rate(pairs: Any) -> None:
    same, score = pairs
    far, tar, _ = sklearn_roc_curve(same, score)
    _, (ax,) = plots.figure()
    plots.roc_curve(ax, far, tar)
    ((x, y),) = [line.get_xydata()[0] for line in named(ax, "equal error")]
    assert x == pytest.approx(1 - y)
    threshold = np.quantile(score[~same], 1 - x)
    assert np.mean(score[same] < threshold) == pytest.approx(x, abs=2 / np.sum(same))


def test_the_equal_error_rate_is_interpolated_between_thresholds() -> None:
    _, (ax,) = plots.figure()
    plots.roc_curve(ax, [0.1, 0.3], [0.6, 0.8])  # 1 - tar falls from 0.4 to 0.2 while far grows from 0.1 to 0.3
    np.testing.assert_allclose(named(ax, "equal error")[0].get_xydata(), [[0.25, 0.75]])
    assert texts(ax.get_legend())[0] == "AUC 0.800, EER 25.0%"  # 0.03 + 0.14 + 0.63


def test_curves_in_the_same_axes_have_different_colours() -> None:
    _, (ax,) = plots.figure()
    for i in range(12):
        plots.roc_curve(ax, [0.1], [0.5 + i / 30], f"curve {i}")
    looks = {(to_hex(line.get_color()), line.get_linestyle()) for line in named(ax, "curve")}
    assert len(looks) == 12
    assert len(named(ax, "chance")) == 1
    entries = texts(ax.get_legend())
    assert [entry.split(":")[0] for entry in entries] == [
        *(f"curve {i}" for i in range(12)),
        "equal error",
        "chance",
    ]


def test_the_operating_point_is_marked_and_named() -> None:
    _, (ax,) = plots.figure()
    plots.roc_curve(ax, [0.1, 0.3], [0.6, 0.8], "a", operating_point=(0.1, 0.6))
    np.testing.assert_array_equal(named(ax, "operating point")[0].get_xydata(), [[0.1, 0.6]])
    assert texts(ax.get_legend())[1] == "operating at FAR 0.1, TAR 0.600"


def test_falling_rates_are_the_same_curve() -> None:
    _, (up, down) = plots.figure(2)
    plots.roc_curve(up, [0.1, 0.3, 0.3], [0.6, 0.8, 0.9])
    plots.roc_curve(down, [0.3, 0.3, 0.1], [0.9, 0.8, 0.6])
    np.testing.assert_array_equal(named(up, "curve")[0].get_xydata(), named(down, "curve")[0].get_xydata())


def test_a_logarithmic_axis_reaches_the_lowest_rate_and_curves_straight_segments(tmp_path: Path) -> None:
    drawn, (ax,) = plots.figure()
    plots.roc_curve(ax, [0.0, 0.02], [0.5, 0.9], log=True)
    plots.roc_curve(ax, [0.0, 0.0003, 0.02], [0.1, 0.2, 0.9])
    plots.roc_curve(ax, [0.5], [0.9])
    assert ax.get_xscale() == "log"
    assert ax.get_xlim() == (pytest.approx(1e-4), 1.0)
    x, y = named(ax, "curve")[0].get_data()
    np.testing.assert_allclose(np.interp([0.01, 0.51], x, y), [0.7, 0.95], atol=1e-3)
    assert len(x) > 100
    assert np.all(np.diff(x) >= 0)
    drawn.savefig(tmp_path / "log.png")


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        (([0.1, 0.2], [0.5]), r"tar must have shape \(2,\). Got \(1,\)"),
        (([], []), r"far must have shape \(n_thresholds,\). Got \(0,\)"),
        (([0.1, 0.2], [0.5, 1.5]), r"tar must be rates in \[0, 1\]. Got 0.5 to 1.5"),
        (([0.1, np.nan], [0.5, 0.6]), r"far must be rates in \[0, 1\]. Got nan"),
        (([0.1, 0.3, 0.2], [0.5, 0.6, 0.7]), "both rise or both fall"),
        (([0.1, 0.2], [0.6, 0.5]), "both rise or both fall"),
        (([0.1], [0.5], None, (0.1, 0.2, 0.3)), r"operating_point must have shape \(2,\). Got \(3,\)"),
    ],
)
def test_invalid_rates_are_rejected(rates: Any, message: str) -> None:
    _, (ax,) = plots.figure()
    with pytest.raises(InvalidInputError, match=message):
        plots.roc_curve(ax, *rates)
    assert len(ax.lines) == 0


# --- Embeddings --------------------------------------------------------------------------------------------------


def by_eigenvectors(vectors: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Principal coordinates and shares of variance, from the covariance matrix."""
    covariance = np.cov(vectors.T)
    variances, directions = np.linalg.eigh(covariance)
    return (vectors - vectors.mean(axis=0)) @ directions[:, :-3:-1], variances[:-3:-1] / np.trace(covariance)


def test_each_space_is_drawn_along_its_own_principal_components(tmp_path: Path) -> None:
    spaces = [DIGITS, np.sqrt(DIGITS)[:, ::2]]
    drawn, axes = plots.figure(2)
    plots.embeddings(axes, spaces, CLASSES, weights=[0.694, 0.306])
    order = np.random.default_rng(0).permutation(len(DIGITS))
    for ax, space in zip(axes, spaces, strict=True):
        expected, shares = by_eigenvectors(space)
        np.testing.assert_allclose(np.abs(drawn_points(ax)), np.abs(expected[order]), atol=1e-8)
        assert ax.get_xlabel() == f"PC 1 · {shares[0]:.0%} of variance"
        assert ax.get_ylabel() == f"PC 2 · {shares[1]:.0%} of variance"
    assert [ax.get_title("left") for ax in axes] == ["$E_{0}$ · weight 0.69", "$E_{1}$ · weight 0.31"]
    drawn.savefig(tmp_path / "embeddings.png")


def test_signs_do_not_depend_on_the_order_of_the_items() -> None:
    _, (one, other) = plots.figure(2)
    plots.embeddings(one, [DIGITS], CLASSES)
    plots.embeddings(other, [DIGITS[::-1]], CLASSES[::-1])
    first, second = (np.sort(drawn_points(ax), axis=0) for ax in (one, other))
    np.testing.assert_allclose(first, second, atol=1e-8)


def test_each_item_has_the_colour_that_the_legend_gives_its_class() -> None:
    drawn, (ax,) = plots.figure()
    names = np.array([f"_{digit}$" for digit in CLASSES])  # data, neither hidden nor a formula
    plots.embeddings(ax, [DIGITS], names)
    (legend,) = drawn.legends
    assert texts(legend) == [f"_{digit}$" for digit in range(10)]
    key = [to_rgb(line.get_color()) for line in legend.get_lines()]
    order = np.random.default_rng(0).permutation(len(DIGITS))
    drawn_colors = ax.collections[0].get_facecolors()[:, :3]
    np.testing.assert_allclose(drawn_colors, np.array(key)[CLASSES[order]])
    drawn.draw_without_rendering()


def test_twenty_classes_differ_in_colour_and_marker() -> None:
    drawn, (ax,) = plots.figure()
    plots.embeddings(ax, [DIGITS], CLASSES + 10 * (np.arange(len(DIGITS)) % 2))
    looks = {(to_hex(line.get_color()), line.get_marker()) for line in drawn.legends[0].get_lines()}
    assert len(looks) == 20
    assert len(ax.collections) == 2
    assert len(drawn_points(ax)) == len(DIGITS)


def test_many_classes_use_a_colour_scale() -> None:
    drawn, (ax,) = plots.figure()
    plots.embeddings(ax, [DIGITS], np.arange(len(DIGITS)) % 101)
    scale = drawn.axes[-1]
    assert [tick.get_text() for tick in scale.get_yticklabels()] == ["0", "20", "40", "60", "80", "100"]
    assert scale.get_ylabel() == "101 classes, in order"
    drawn.draw_without_rendering()


def oklab(rgb: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where equal distances look equally far (Ottosson, 2020), from linear light."""
    cones = [[0.41222, 0.53633, 0.05145], [0.2119, 0.6807, 0.1074], [0.0883, 0.28172, 0.62998]]
    axes = [[0.21045, 0.79362, -0.00407], [1.978, -2.42859, 0.45059], [0.0259, 0.78277, -0.80868]]
    return np.cbrt(np.clip(rgb, 0, 1) @ np.transpose(cones)) @ np.transpose(axes)


@pytest.mark.parametrize(
    ("eye", "least"),
    [
        (np.eye(3), 0.2),
        ([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]], 0.12),
        ([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]], 0.12),
    ],
    ids=["full", "without green", "without red"],  # Machado et al., 2009
)
def test_ten_class_colours_are_distinguishable(eye: Any, least: float) -> None:
    drawn, (ax,) = plots.figure()
    plots.embeddings(ax, [DIGITS], CLASSES)
    colors = np.array([to_rgb(line.get_color()) for line in drawn.legends[0].get_lines()])
    light = np.where(colors <= 0.04045, colors / 12.92, ((colors + 0.055) / 1.055) ** 2.4)
    seen = oklab(light @ np.transpose(eye))
    apart = np.linalg.norm(seen[:, None] - seen, axis=2)[np.triu_indices(10, 1)]
    assert apart.min() > least  # matplotlib's ten: 0.11, 0.02, 0.01


def test_a_sample_of_many_items_is_the_same_each_time() -> None:
    _, axes = plots.figure(3)
    for ax in axes:
        plots.embeddings(ax, [DIGITS], CLASSES, limit=100, random_state=3)
    chosen = np.random.default_rng(3).permutation(len(DIGITS))[:100]
    expected, _ = by_eigenvectors(DIGITS[chosen])
    for ax in axes:
        np.testing.assert_allclose(np.abs(drawn_points(ax)), np.abs(expected), atol=1e-8)


@pytest.mark.parametrize("shape", [(5, 1), (1, 5), (1, 1)])
def test_a_single_item_or_dimension_is_drawn(shape: tuple[int, int]) -> None:
    vectors = np.arange(5.0).reshape(-1, 1)[: shape[0]] * np.ones(shape)
    drawn, (ax,) = plots.figure()
    plots.embeddings(ax, [vectors], np.zeros(shape[0]), random_state=0)
    points = drawn_points(ax)
    np.testing.assert_allclose(np.ptp(points, axis=0), [shape[0] - 1, 0], atol=1e-12)
    assert ax.get_ylabel() == "PC 2 · 0% of variance"
    drawn.draw_without_rendering()


def test_unused_axes_are_hidden_and_names_are_used() -> None:
    _, axes = plots.figure(2, rows=2)
    plots.embeddings(axes, np.stack([DIGITS] * 3), CLASSES, names=["a", "b", "c"])
    assert [ax.get_title("left") for ax in axes] == ["a", "b", "c", ""]
    assert [ax.axison for ax in axes] == [True, True, True, False]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"vectors": [DIGITS, DIGITS]}, "Got 1 axes for 2 spaces"),
        ({"vectors": []}, "Got 1 axes for 0 spaces"),
        ({"vectors": DIGITS}, r"vectors\[0\] must have shape .* Got shape \(64,\)"),
        ({"labels": CLASSES[1:]}, r"Every item needs a label. Got 1796 labels for \[1797\] items"),
        (
            {"vectors": [np.where(np.arange(1797)[:, None] == 17, np.nan, DIGITS)]},
            r"vectors\[0\] .* Row 17 contains NaN or infinity",
        ),
        ({"names": ["a", "b"]}, "names must have 1 entries. Got 2"),
        ({"weights": [0.5, 0.5]}, "weights must have 1 entries. Got 2"),
        ({"limit": 0}, "'limit' parameter must be at least 1. Got 0"),
    ],
)
def test_invalid_embeddings_are_rejected(given: dict[str, Any], message: str) -> None:
    _, (ax,) = plots.figure()
    with pytest.raises(InvalidInputError, match=message):
        plots.embeddings(ax, **{"vectors": [DIGITS], "labels": CLASSES} | given)
    assert len(ax.collections) == 0


# --- Contact sheets ----------------------------------------------------------------------------------------------


def frames(ax: Any) -> list[Any]:
    return named(ax, "frame")


def test_a_sheet_shows_the_queries_and_their_neighbours(tmp_path: Path) -> None:
    images = plots.as_images(DIGITS)
    apart = np.linalg.norm(DIGITS[:3, None] - DIGITS[None, 3:], axis=2)
    near = [3 + np.argsort(row)[:4] for row in apart]
    near[1] = near[1][:2]
    drawn = plots.contact_sheet(
        images[:3],
        [images[row] for row in near],
        [[f"#{j}\n{apart[i, j - 3]:.1f}" for j in row] for i, row in enumerate(near)],
        titles=["zero", "one", "two"],
    )
    (ax,) = drawn.axes
    expected = [image for i, row in enumerate(near) for image in (i, *row)]
    np.testing.assert_array_equal([image.get_array() for image in ax.images], images[expected])
    captions = [text.get_text() for text in ax.texts]
    assert captions[:5] == ["query", "1", "2", "3", "4"]
    assert captions[5] == "zero"
    assert captions[6] == f"#{near[0][0]}\n{apart[0].min():.1f}"
    drawn.savefig(tmp_path / "sheet.png")


def test_results_are_drawn_in_order_without_overlap() -> None:
    drawn = plots.contact_sheet([np.eye(8)] * 2, [[np.eye(8)] * 3] * 2, [["left", "middle", "right"]] * 2)
    (ax,) = drawn.axes
    boxes = np.array([frame.get_xydata() for frame in frames(ax)]).reshape(2, 4, 5, 2)
    low, high = boxes.min(axis=2), boxes.max(axis=2)
    gaps = low[:, 1:, 0] - high[:, :-1, 0]
    assert np.all(gaps > 0)
    assert np.all(gaps[:, 0] > 2 * gaps[:, 1])  # the query is set apart
    assert np.all(low[1, :, 1] > high[0, :, 1])
    for picture, bottom, top in zip(ax.images, low.reshape(-1, 2), high.reshape(-1, 2), strict=True):
        left, right, lower, upper = picture.get_extent()
        assert bottom[0] < left < right < top[0]
        assert bottom[1] < upper < lower < top[1]
    drawn.draw_without_rendering()
    words = [text.get_window_extent() for text in ax.texts if text.get_text()]
    assert not any(a.overlaps(b) for i, a in enumerate(words) for b in words[:i])


def test_right_and_wrong_frames_differ_without_colour() -> None:
    drawn = plots.contact_sheet([np.eye(2)], [[np.eye(2)] * 3], right=[[True, np.False_, None]])
    _, right, wrong, unknown = frames(drawn.axes[0])
    assert [line.get_linestyle() for line in (right, wrong, unknown)] == ["-", "--", "-"]
    assert len({line.get_color() for line in (right, wrong, unknown)}) == 3
    assert texts(drawn.legends[0]) == ["right", "wrong"]


def test_small_images_are_not_smoothed_and_keep_their_proportions() -> None:
    photo = np.random.default_rng(0).integers(256, size=(100, 200, 3), dtype=np.uint8)
    (ax,) = plots.contact_sheet([photo, np.eye(8)], [[photo[:, :50]], []]).axes
    assert [image.get_interpolation() == "nearest" for image in ax.images] == [False, False, True]
    np.testing.assert_allclose(ax.images[0].get_array(), photo / 255)
    for image in ax.images:
        left, right, lower, upper = image.get_extent()
        tall, wide = image.get_array().shape[:2]
        assert (lower - upper) / (right - left) == pytest.approx(tall / wide)


def test_long_captions_are_cut_and_shown_literally() -> None:
    drawn = plots.contact_sheet([np.eye(2)], [[np.eye(2)]], [["$\\a name of a photograph that goes on$ and on"]])
    caption = drawn.axes[0].texts[-1]
    assert caption.get_text().startswith("$\\a name")
    assert caption.get_text().endswith("…")
    drawn.draw_without_rendering()


def test_queries_without_results_form_a_column() -> None:
    drawn = plots.contact_sheet([np.eye(2)] * 3, [[], [], []])
    assert len(drawn.axes[0].images) == 3
    drawn.draw_without_rendering()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"queries": [], "results": []}, "at least one query"),
        ({"results": [[], []]}, "results must have 1 entries. Got 2"),
        ({"titles": ["a", "b"]}, "titles must have 1 entries. Got 2"),
        ({"captions": [["a", "b"]]}, r"captions\[0\] must have 1 entries. Got 2"),
        ({"right": [[]]}, r"right\[0\] must have 1 entries. Got 0"),
        ({"right": [["yes"]]}, r"right\[0\]\[0\] must be True, False or None. Got 'yes'"),
        ({"queries": [np.zeros(64)]}, r"queries\[0\] must be an image .* Got \(64,\)"),
        ({"results": [[np.zeros((8, 8, 4))]]}, r"results\[0\]\[0\] must be an image .* Got \(8, 8, 4\)"),
        (
            {"results": [[DIGITS[:8]]]},
            r"results\[0\]\[0\] must be uint8 or have values in \[0, 1\]. Got 0 to 16 instead. Use as_images",
        ),
        ({"results": [[np.full((2, 2), np.nan)]]}, r"results\[0\]\[0\] must be uint8 or have values in \[0, 1\]"),
    ],
)
def test_invalid_sheets_are_rejected(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        plots.contact_sheet(**{"queries": [np.eye(8)], "results": [[np.eye(8)]]} | given)


# --- Images ------------------------------------------------------------------------------------------------------


def test_features_of_digits_become_their_images() -> None:
    before = DIGITS.copy()
    np.testing.assert_array_equal(plots.as_images(DIGITS), load_digits().images / 16)
    np.testing.assert_array_equal(DIGITS, before)


def test_the_shape_is_inferred_or_given() -> None:
    assert plots.as_images(np.ones((2, 27))).shape == (2, 3, 3, 3)
    assert plots.as_images(np.ones((2, 12)), (3, 4)).shape == (2, 3, 4)
    assert plots.as_images(np.ones((2, 18)), (3, 2, 3)).shape == (2, 3, 2, 3)


def test_values_are_scaled_to_the_range_0_to_1() -> None:
    images = plots.as_images(np.random.default_rng(0).normal(size=(5, 16)))
    assert (images.min(), images.max()) == (0.0, 1.0)
    np.testing.assert_array_equal(plots.as_images([[7, 7, 7, 7]]), np.zeros((1, 2, 2)))


@pytest.mark.parametrize(
    ("n_features", "shape", "message"),
    [
        (64, (8, 9), r"shape \(8, 9\) has 72 values, but the items have 64 features"),
        (10, None, "10 features do not form a square image, neither grey nor in colour. Pass the 'shape'"),
        (64, (64,), r"must be \(h, w\) or \(h, w, 3\). Got \(64,\)"),
        (64, (4, 4, 4), r"must be \(h, w\) or \(h, w, 3\). Got \(4, 4, 4\)"),
        (64, (-8, -8), r"must be \(h, w\) or \(h, w, 3\). Got \(-8, -8\)"),
    ],
)
def test_invalid_shapes_are_rejected(n_features: int, shape: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        plots.as_images(np.ones((3, n_features)), shape)


def test_a_figure_is_written_as_png_and_svg_with_the_same_bytes(tmp_path: Path) -> None:
    written = []
    for folder in ("one", "two"):
        drawn, (ax,) = plots.figure(1)
        plots.learning_curves(ax, [0, 1], {"OAHU": [0.5, 0.7]}, "right", best=1)
        written.append([path.read_bytes() for path in plots.save(drawn, tmp_path / folder / "a.b")])
    assert written[0] == written[1]
    assert {path.name for path in (tmp_path / "one").iterdir()} == {"a.b.png", "a.b.svg"}


def label_places(heights: list[float]) -> NDArray[np.float64]:
    _, (ax,) = plots.figure(1)
    ax.set_ylim(0, 1)
    plots.end_labels(ax, heights, [f"line {i}" for i in range(len(heights))], [{"color": "red"}] * len(heights))
    places = {text.get_text(): text.get_position()[1] for text in ax.texts}
    return np.array([places[f"line {i}"] for i in range(len(heights))])


def test_labels_without_overlap_stay_at_their_lines() -> None:
    np.testing.assert_allclose(label_places([0.1, 0.9, 0.5]), [0.1, 0.9, 0.5])


def test_overlapping_labels_are_spread_evenly_in_order() -> None:
    places = label_places([0.5, 0.5, 0.5001])
    assert np.all(np.diff(places) > 0.03)
    assert places.mean() == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize("height", [0.0, 1.0])
def test_labels_stay_inside_their_axes(height: float) -> None:
    places = label_places([height] * 5)
    assert places.min() >= 0
    assert places.max() <= 1 + 1e-12


def test_pairs_are_drawn_side_by_side() -> None:
    rng = np.random.default_rng(0)
    pairs = [(rng.random((4, 4)), rng.random((4, 4))) for _ in range(5)]
    drawn = plots.pair_sheet(pairs, ["a $x$", "b", "c", "d", "e" * 99], [True, False, None, True, True], columns=2)
    (ax,) = drawn.axes
    assert [image.get_array().tolist() for image in ax.images] == [
        image.tolist() for pair in pairs for image in pair
    ]
    assert [line.get_color() for line in named(ax, "frame")][:4] == ["#0b8a5f"] * 2 + ["#d1323f"] * 2
    assert ax.texts[0].get_text() == "a $x$"
    assert ax.texts[4].get_text().endswith("…")


@pytest.mark.parametrize(
    ("pairs", "captions", "right", "message"),
    [
        ([], [], [], "at least one pair"),
        ([(np.ones((2, 2)), np.ones((2, 2)))], [], [True], "captions must have 1 entries"),
        ([(np.ones((2, 2)), np.ones((2, 2)))], ["a"], ["yes"], r"right\[0\] must be True, False or None"),
        ([(np.ones((2, 2)), np.ones(2))], ["a"], [True], r"pairs\[0\]\[1\] must be an image"),
    ],
)
def test_invalid_pairs_are_rejected(pairs: Any, captions: Any, right: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        plots.pair_sheet(pairs, captions, right)
