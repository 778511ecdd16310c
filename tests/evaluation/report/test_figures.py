"""Tests of the figures: numbers are read back from the axes."""

from __future__ import annotations

from collections.abc import Callable
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imsave

from oahu import plots
from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.protocols import DEFAULT_METHODS
from oahu.evaluation.report import figures
from oahu.evaluation.report.experiments import Experiment, experiments
from oahu.evaluation.report.figure_style import line_style
from oahu.evaluation.trials import BenchmarkRecord, Outcome, Trial

Drawn = dict[str, Any]


def outcome(method: str, run: int, protocol: str, scores: dict[str, float], **more: Any) -> Outcome:
    curves, seconds = more.pop("curves", {}), more.pop("seconds", {})
    return Outcome(
        Trial(protocol, more.pop("dataset", "fashion-mnist"), method, run, more), scores, curves, seconds
    )


def record(*outcomes: Outcome) -> BenchmarkRecord:
    return BenchmarkRecord("oahu benchmark", "", 1.0, {}, {}, outcomes, "OAHU")


def only(protocol: str, *outcomes: Outcome) -> Experiment:
    (experiment,) = experiments(record(*outcomes), protocol)
    return experiment


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Drawn]:
    """Return the figures of an experiment by the last word of their names, before they are saved."""

    def draw(experiment: Experiment, dataset: Dataset | None = None) -> Drawn:
        figures_by_name: Drawn = {}
        monkeypatch.setattr(
            plots, "save", lambda figure, stem: figures_by_name.update({stem.name.rsplit("-", 1)[-1]: figure})
        )
        figures.draw_experiment(experiment, tmp_path, dataset)
        return figures_by_name

    return draw


def errors(means: dict[str, float], n: int = 3) -> list[Outcome]:
    return [
        outcome(method, run, "classification", {"error_rate": mean + 0.01 * (run - 1)})
        for method, mean in means.items()
        for run in range(n)
    ]


def tick_names(ax: Any) -> list[str]:
    return [tick.get_text() for tick in ax.get_yticklabels()]


# -- looks -----------------------------------------------------------------------------------------------


def test_every_method_has_its_own_style() -> None:
    looks = [line_style(method, "OAHU") for method in DEFAULT_METHODS]
    looks += [line_style(name, "OAHU", ["one", "two", "three"]) for name in ("one", "two", "three")]
    assert len({look["color"] for look in looks}) == len(looks)
    assert len({look["marker"] for look in looks}) == len(looks)


def test_only_the_reference_has_a_solid_line() -> None:
    assert [method for method in DEFAULT_METHODS if line_style(method, "OAHU")["linestyle"] == "-"] == ["OAHU"]


def test_colours_contrast_with_white() -> None:
    for method in DEFAULT_METHODS:
        red, green, blue = (
            c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
            for c in to_rgb(line_style(method, "OAHU")["color"])
        )
        assert 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05) > 2.2


# -- what is drawn ---------------------------------------------------------------------------------------


def test_error_rates_are_sorted_and_show_the_paper(drawn: Callable[..., Drawn]) -> None:
    (ax,) = drawn(only("classification", *errors({"OAHU": 0.2, "LEGO": 0.3, "Euclidean": 0.1})))["errors"].axes
    assert tick_names(ax) == ["Euclidean", "OAHU", "LEGO"]
    ours = [line.get_xdata()[0] for line, *_ in ax.containers if line.get_marker() != "D"]
    assert ours == pytest.approx([0.1, 0.2, 0.3])
    theirs = [line.get_xdata()[0] for line, *_ in ax.containers if line.get_marker() == "D"]
    assert theirs == [0.18, 0.35]
    spans = [bars[0].get_segments()[0][:, 0] for _, _, bars in ax.containers]
    assert spans[0] == pytest.approx([0.09, 0.11])


def test_names_are_not_parsed_as_formulas(drawn: Callable[..., Drawn], tmp_path: Path) -> None:
    figure = drawn(only("classification", *errors({"$x_1$": 0.2, "_hidden": 0.3})))["errors"]
    figure.savefig(tmp_path / "names.png")
    assert tick_names(figure.axes[0]) == ["$x_1$", "_hidden"]


def test_one_run_has_no_error_bar(drawn: Callable[..., Drawn]) -> None:
    (ax,) = drawn(only("classification", *errors({"OAHU": 0.2}, n=1)))["errors"].axes
    low, high = ax.containers[0][2][0].get_segments()[0][:, 0]
    assert low == high


def test_constraints_figure_has_a_line_for_each_method(drawn: Callable[..., Drawn]) -> None:
    swept = [
        outcome(method, run, "constraints", {"error_rate": base + run / 100}, n_constraints=n)
        for method, base, ns in (
            ("OAHU", 0.2, (1000, 2000, 3000)),
            ("LEGO", 0.3, (1000, 2000, 3000)),
            ("Cosine", 0.4, (3000,)),
        )
        for n in ns
        for run in range(3)
    ]
    (ax,) = drawn(only("constraints", *swept))["constraints"].axes
    assert [list(line.get_ydata()) for line, *_ in ax.containers] == [
        pytest.approx([0.21] * 3),
        pytest.approx([0.31] * 3),
    ]
    level = [line for line in ax.lines if list(line.get_xdata()) == [0, 1] and line.get_gid() is None]
    assert [line.get_ydata()[0] for line in level] == pytest.approx([0.41])
    assert {text.get_text() for text in ax.texts} == {"OAHU", "LEGO", "Cosine"}


def test_sweep_without_values_is_not_drawn(drawn: Callable[..., Drawn]) -> None:
    experiment = only("constraints", outcome("OAHU", 0, "constraints", {"error_rate": nan}, n_constraints=5))
    assert drawn(experiment) == {}


def test_weights_are_averaged_over_runs(drawn: Callable[..., Drawn]) -> None:
    runs = [
        outcome("OAHU", run, "classification", {}, curves={"weights": {"rounds": [0, 5, 9], "weights": w}})
        for run, w in enumerate([[[0.5, 0.5], [0.4, 0.6], [0.2, 0.8]], [[0.5, 0.5], [0.6, 0.4], [0.4, 0.6]]])
    ]
    (ax,) = drawn(only("classification", *runs))["weights"].axes
    path = ax.collections[0].get_paths()[0].vertices
    assert {(x, round(y, 9)) for x, y in path if y > 0} == {(0, 0.5), (5, 0.5), (9, 0.3)}


def test_one_round_is_not_drawn(drawn: Callable[..., Drawn]) -> None:
    once = outcome("OAHU", 0, "classification", {}, curves={"weights": {"rounds": [0], "weights": [[1.0]]}})
    assert "weights" not in drawn(only("classification", once))


def test_roc_is_averaged_over_folds(drawn: Callable[..., Drawn]) -> None:
    folds = [
        outcome(
            "OAHU", fold, "verification", {"auc": 0.75}, curves={"roc": {"far": [0, 0.5, 1], "tar": [0, tar, 1]}}
        )
        for fold, tar in enumerate([0.6, 1.0])
    ]
    (ax,) = drawn(only("verification", *folds))["roc"].axes
    x, y = ax.lines[1].get_data()
    assert np.interp([0.25, 0.5, 0.75], x, y) == pytest.approx([0.4, 0.8, 0.9])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["OAHU  0.750"]


def test_vertical_step_of_a_roc_curve(drawn: Callable[..., Drawn]) -> None:
    roc = {"far": [0.0, 0.0, 0.5, 0.5], "tar": [0.0, 0.4, 0.4, 1.0]}
    fold = outcome("OAHU", 0, "verification", {"auc": 0.7}, curves={"roc": roc})
    (ax,) = drawn(only("verification", fold))["roc"].axes
    x, y = ax.lines[1].get_data()
    assert y[0] == 0.4
    assert y[np.flatnonzero(x < 0.5)[-1]] == pytest.approx(0.4)
    assert y[np.flatnonzero(x >= 0.5)[0]] == 1.0


def test_auc_has_a_marker_for_each_fold(drawn: Callable[..., Drawn]) -> None:
    folds = [outcome("OAHU", fold, "verification", {"auc": auc}) for fold, auc in enumerate([0.7, 0.9, nan])]
    (ax,) = drawn(only("verification", *folds))["auc"].axes
    assert list(ax.lines[0].get_xdata()) == [0.7, 0.9]
    assert ax.lines[1].get_xdata()[0] == pytest.approx(0.8)


def test_recall_has_a_line_for_each_method(drawn: Callable[..., Drawn]) -> None:
    scores = {"recall@1": 0.2, "recall@32": 0.9, "recall@4": 0.5}
    found = [outcome(method, 0, "retrieval", scores) for method in ("OAHU", "Cosine")]
    (ax,) = drawn(only("retrieval", *found))["recall"].axes
    assert [list(map(list, line.get_data())) for line, *_ in ax.containers] == [[[1, 4, 32], [0.2, 0.5, 0.9]]] * 2


def test_sensitivity_has_two_panels(drawn: Callable[..., Drawn]) -> None:
    swept = [
        outcome("OAHU", 0, "sensitivity", {"error_rate": v / 2, "macro_f1": 1 - v}, vary="tau", params={"tau": v})
        for v in (0.2, 0.8)
    ]
    left, right = drawn(only("sensitivity", *swept))["sensitivity"].axes
    assert list(left.containers[0][0].get_ydata()) == pytest.approx([0.9, 0.6])
    assert list(right.containers[0][0].get_ydata()) == pytest.approx([0.8, 0.2])


def test_regret_and_bound(drawn: Callable[..., Drawn]) -> None:
    curve = {"rounds": [1, 4, 9], "regret": [1.0, 1.5, 2.0], "bound": [1.0, 2.0, 3.0]}
    (ax,) = drawn(only("regret", outcome("OAHU", 0, "regret", {}, curves={"regret": curve})))["regret"].axes
    assert [list(line.get_ydata()) for line in ax.lines[:2]] == [[1.0, 1.5, 2.0], [1.0, 2.0, 3.0]]
    assert {text.get_text() for text in ax.texts} == {"measured", "√(T ln N)"}


def test_time_is_stacked(drawn: Callable[..., Drawn]) -> None:
    runs = [
        outcome("OAHU", r, "classification", {}, seconds={"constraints": 1.0, "learning": r, "evaluation": 3.0})
        for r in (1, 3)
    ]
    (ax,) = drawn(only("classification", *runs))["time"].axes
    assert [(bar.get_x(), bar.get_width()) for bar in ax.patches] == [(0.0, 1.0), (1.0, 2.0), (3.0, 3.0)]


# -- examples --------------------------------------------------------------------------------------------


def images(keys: bool = True) -> Dataset:
    X = np.arange(5 * 4, dtype=np.float32).reshape(5, 4)
    names = np.array([f"face {i}" for i in range(5)]) if keys else None
    return Dataset("lfw", X, np.array([0, 0, 1, 2, 3]), image_shape=(2, 2), keys=names)


def pairs(*names: Any) -> Outcome:
    entry = {"a": names[0], "b": names[1], "same": True, "vote_share": 0.875}
    examples = {"right": [entry], "wrong": [{**entry, "same": False}]}
    return outcome("OAHU", 0, "verification", {}, curves={"examples": examples}, dataset="lfw")


@pytest.mark.parametrize(("keys", "names"), [(True, ("face 1", "face 4")), (False, (1, 4)), (True, (1, 4))])
def test_pair_sheet_shows_vote_shares(drawn: Callable[..., Drawn], keys: bool, names: Any) -> None:
    (ax,) = drawn(only("verification", pairs(*names)), images(keys))["examples"].axes
    shown = [image.get_array() for image in ax.images]
    assert len(shown) == 4
    np.testing.assert_allclose(
        shown[0], np.arange(4).reshape(2, 2) / 15, atol=1e-6
    )  # scaled over all that is shown
    assert [text.get_text() for text in ax.texts] == ["same, vote share 0.88", "different, vote share 0.88"]


@pytest.mark.parametrize("suffix", ["png", "jpg"])
def test_image_files_are_found_by_key(drawn: Callable[..., Drawn], tmp_path: Path, suffix: str) -> None:
    """Image files at any depth, one in colour and one in greyscale."""
    keys = np.array(["Ann_0001", "Bob_0001", "Bob_0002"])
    (tmp_path / "Ann").mkdir()
    imsave(tmp_path / "Ann" / f"Ann_0001.{suffix}", np.full((4, 6, 3), 0.5))
    imsave(tmp_path / f"Bob_0002.{suffix}", np.ones((4, 6, 3)))
    (tmp_path / "Bob_0001.txt").write_text("no picture")
    data = Dataset("lfw", np.zeros((3, 2)), np.array(["Ann", "Bob", "Bob"]), keys=keys, image_folder=tmp_path)
    (ax,) = drawn(only("verification", pairs("Ann_0001", "Bob_0002")), data)["examples"].axes
    shown = [image.get_array() for image in ax.images]
    assert [image.shape for image in shown[:2]] == [(4, 6, 3)] * 2
    assert np.mean(shown[0]) == pytest.approx(0.5, abs=0.01)
    assert np.mean(shown[1]) == 1
    assert "examples" not in drawn(only("verification", pairs("Ann_0001", "Bob_0001")), data)


def test_retrieval_sheet_shows_matches(drawn: Callable[..., Drawn]) -> None:
    examples = {"right": [{"query": 0, "found": [1, 2]}], "wrong": [{"query": 3, "found": [9]}]}
    found = outcome("OAHU", 0, "retrieval", {}, curves={"examples": examples}, dataset="lfw")
    (ax,) = drawn(only("retrieval", found), images(keys=False))["examples"].axes
    assert len(ax.images) == 3  # item 9 does not exist
    frames = [line.get_color() for line in ax.lines if line.get_gid() == "frame"]
    assert frames[1:] == ["#0b8a5f", "#d1323f"]


@pytest.mark.parametrize("dataset", [None, Dataset("lfw", np.zeros((5, 4)), np.arange(5)), images()])
def test_no_sheet_without_images(drawn: Callable[..., Drawn], dataset: Dataset | None) -> None:
    assert "examples" not in drawn(only("verification", pairs("nobody", "no one")), dataset)


# -- files -----------------------------------------------------------------------------------------------


def test_figures_are_written_as_png_and_svg(tmp_path: Path) -> None:
    made = figures.draw_all(
        record(*errors({"OAHU": 0.2, "LEGO": 0.3}), pairs(1, 2)), tmp_path / "figures", {"lfw": images(False)}
    )
    assert [drawing.name for drawing in made] == [
        "classification-fashion-mnist-untuned-errors",
        "verification-lfw-untuned-examples",
    ]
    for drawing in made:
        assert drawing.stem.with_name(f"{drawing.name}.png").read_bytes()[:4] == b"\x89PNG"
        assert "<svg" in drawing.stem.with_name(f"{drawing.name}.svg").read_text()


def test_empty_record_has_no_figures(tmp_path: Path) -> None:
    assert figures.draw_all(record(), tmp_path) == []


@pytest.mark.parametrize(
    "protocol", ["classification", "constraints", "verification", "retrieval", "sensitivity", "regret"]
)
def test_failures_have_no_figures(tmp_path: Path, protocol: str) -> None:
    failed = Outcome(Trial(protocol, "digits", "OAHU", 0), error="no")
    assert figures.draw_all(record(failed), tmp_path) == []
