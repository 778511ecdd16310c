"""`oahu compare` gives the answers of the library, for two items and for streams of pairs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

import oahu
from oahu import Click, Comparator, Pair, Triplet
from oahu.cli import app

runner = CliRunner()
DIGITS, LABELS = load_digits(return_X_y=True)
ITEMS, CLASSES = DIGITS[:200] / 16, LABELS[:200]
IDS = [f"d{row}" for row in range(200)]
ROWS, SAME = oahu.sample_pairs(CLASSES, 300, random_state=0)
OTHER_ROWS, OTHER_SAME = oahu.sample_pairs(CLASSES, 400, random_state=1)
NAMED = [Pair(IDS[a], IDS[b], bool(same > 0)) for (a, b), same in zip(ROWS, SAME, strict=True)]
OTHERS = [Pair(IDS[a], IDS[b], bool(same > 0)) for (a, b), same in zip(OTHER_ROWS, OTHER_SAME, strict=True)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with models, items and pairs."""
    folder = tmp_path_factory.mktemp("compare")
    learner = oahu.OAHU(n_layers=2, hidden_size=20, embedding_size=10, preprocessor=ITEMS, random_state=0)
    learner.partial_fit(oahu.sample_triplets(CLASSES, 300, random_state=0)).save(folder / "oahu.oahu")
    oahu.EuclideanMetric(64).save(folder / "euclidean.oahu")
    oahu.CosineMetric(64).save(folder / "cosine.oahu")
    np.savez(folder / "items.npz", X=ITEMS, ids=np.array(IDS))
    oahu.write_stream(folder / "pairs.csv", NAMED)
    oahu.write_stream(folder / "others.jsonl", OTHERS)
    return folder


@pytest.fixture
def folder(files: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to the folder."""
    monkeypatch.chdir(files)
    return files


def compare(*arguments: str, model: str = "oahu.oahu", stdin: str | None = None) -> Any:
    return runner.invoke(app, ["compare", "--model", model, *arguments], input=stdin, catch_exceptions=False)


def answered(*arguments: str, model: str = "oahu.oahu", stdin: str | None = None) -> Any:
    """Return the JSON output; nothing else must be printed."""
    result = compare("--features", "items.npz", *arguments, "--json", model=model, stdin=stdin)
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    return json.loads(result.stdout, parse_constant=pytest.fail)


def metric(model: str = "oahu.oahu") -> Any:
    loaded = oahu.load(model)
    return loaded.metric() if model == "oahu.oahu" else loaded


# -- answers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["npy", "npz", "csv", "parquet"])
def test_comparing_two_ids_equals_the_library(folder: Path, tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"items.{kind}"
    if kind == "npy":
        np.save(path, ITEMS)
    elif kind == "npz":
        np.savez(path, X=ITEMS)
    elif kind == "csv":
        header = ",".join(f"pixel{place}" for place in range(64))
        np.savetxt(path, ITEMS, delimiter=",", header=header, comments="", fmt="%.17g")
    else:
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.table({"vector": list(ITEMS)}), path)
    result = compare("--features", str(path), "3", "13", "--json")
    (pair,) = json.loads(result.stdout)["pairs"]
    found = Comparator(metric()).compare(ITEMS[3], ITEMS[13])
    assert (pair["first"], pair["second"], pair["answer"]) == (3, 13, found.answer)
    assert (pair["probability"], found.probability) == (None, None)
    assert pair["vote_share"] == pytest.approx(found.vote_share)
    assert pair["score"] == pytest.approx(found.score)
    assert pair["same"] is None


def test_scores_and_answers_follow_from_distances(folder: Path) -> None:
    pairs = answered("--pairs", "pairs.csv", "--threshold", "2.5", "--band", "0.5", model="euclidean.oahu")["pairs"]
    apart = np.linalg.norm(ITEMS[ROWS[:, 0]] - ITEMS[ROWS[:, 1]], axis=1)
    np.testing.assert_allclose([pair["score"] for pair in pairs], -apart, rtol=1e-5)
    words = np.select([apart < 2, apart >= 3], ["yes", "no"], "unknown").tolist()
    assert [pair["answer"] for pair in pairs] == words
    assert [pair["same"] for pair in pairs] == [pair.same for pair in NAMED]


def test_rule_equals_the_library(folder: Path) -> None:
    pairs = answered("--pairs", "pairs.csv", "--rule", "mean")["pairs"]
    comparator = Comparator(metric(), rule="mean", preprocessor=ITEMS)
    assert [pair["answer"] for pair in pairs] == comparator.predict(ROWS).tolist()
    np.testing.assert_allclose([pair["score"] for pair in pairs], comparator.decision_function(ROWS))


# -- streams of pairs ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "first,second\nd1,d2\n\nd3,d4\n",
        "second,note,first\r\nd2,x,d1\r\nd4,y,d3\r\n",
        "\ufefffirst\tsecond\nd1\td2\nd3\td4",
        '{"first": "d1", "second": "d2"}\n{"first": "d3", "second": "d4", "same": null}\n',
        '["d1", "d2"]\n\n["d3", "d4"]',
    ],
)
def test_pairs_can_be_unlabelled(folder: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "open.txt").write_bytes(text.encode())
    output = answered("--pairs", str(tmp_path / "open.txt"))
    assert [(pair["first"], pair["second"], pair["same"]) for pair in output["pairs"]] == [
        ("d1", "d2", None),
        ("d3", "d4", None),
    ]
    assert output["quality"] is None
    assert [pair["answer"] for pair in output["pairs"]] == Comparator(metric(), preprocessor=ITEMS).predict(
        [[1, 2], [3, 4]]
    ).tolist()


def test_some_pairs_can_be_labelled(folder: Path) -> None:
    lines = '["d1", "d2"]\n["d3", "d4", false]\n{"first": "d0", "second": "d10", "same": true}\n'
    output = answered("--pairs", "-", stdin=lines)
    assert [pair["same"] for pair in output["pairs"]] == [None, False, True]
    assert output["quality"]["n_pairs"] == 2


def test_pairs_by_value_need_no_features(folder: Path, tmp_path: Path) -> None:
    values = [Pair(ITEMS[a], ITEMS[b], bool(same > 0)) for (a, b), same in zip(ROWS[:9], SAME, strict=False)]
    for name in ("values.jsonl", "values.csv"):
        oahu.write_stream(tmp_path / name, values)
        result = compare("--pairs", str(tmp_path / name), "--json")
        scores = [pair["score"] for pair in json.loads(result.stdout)["pairs"]]
        np.testing.assert_allclose(scores, Comparator(metric()).decision_function(ITEMS[ROWS[:9]]))


def test_a_click_counts_as_its_pairs(folder: Path, tmp_path: Path) -> None:
    oahu.write_stream(tmp_path / "clicks.csv", [Click("d0", ["d10"], ["d1", "d2"])])
    oahu.write_stream(tmp_path / "pairs.csv", Click("d0", ["d10"], ["d1", "d2"]).pairs)
    by_click, by_pairs = (
        answered("--pairs", str(tmp_path / name))["pairs"] for name in ("clicks.csv", "pairs.csv")
    )
    assert by_click == by_pairs


def test_a_triplet_counts_as_two_pairs(folder: Path, tmp_path: Path) -> None:
    oahu.write_stream(tmp_path / "triplets.csv", [Triplet("d0", "d10", "d1")])
    pairs = answered("--pairs", str(tmp_path / "triplets.csv"))["pairs"]
    assert [(pair["first"], pair["second"], pair["same"]) for pair in pairs] == [
        ("d0", "d10", True),
        ("d0", "d1", False),
    ]


# -- quality --------------------------------------------------------------------------------------


def test_quality_equals_counted_answers(folder: Path) -> None:
    output = answered("--pairs", "pairs.csv", "--threshold", "2.5", "--band", "0.5", model="euclidean.oahu")
    apart = np.linalg.norm(ITEMS[ROWS[:, 0]] - ITEMS[ROWS[:, 1]], axis=1)
    known = (apart < 2) | (apart >= 3)
    quality = output["quality"]
    assert quality["unknown"] == pytest.approx(np.mean(~known))
    assert quality["accuracy"] == pytest.approx(np.mean((apart < 2)[known] == (SAME > 0)[known]))
    assert quality["false_accept_rate"] == pytest.approx(np.mean(apart[SAME < 0] < 2))
    assert quality["false_reject_rate"] == pytest.approx(np.mean(apart[SAME > 0] >= 3))
    assert quality["auc"] == pytest.approx(roc_auc_score(SAME, -apart))
    far, frr = max(
        ((np.mean(apart[SAME < 0] <= t), np.mean(apart[SAME > 0] > t)) for t in apart),
        key=lambda r: -abs(r[0] - r[1]),
    )
    assert abs(quality["eer"] - (far + frr) / 2) < 0.02
    strictest = np.sort(apart[SAME < 0])[int(0.01 * np.sum(SAME < 0))]
    assert quality["tar@far=0.01"] == pytest.approx(np.mean(apart[SAME > 0] < strictest))


def test_a_rate_with_too_few_pairs_is_null(folder: Path) -> None:
    assert answered("--pairs", "pairs.csv")["quality"]["tar@far=0.001"] is None


def test_pairs_with_one_label_have_an_accuracy_but_no_curve(folder: Path) -> None:
    quality = answered("--pairs", "-", stdin='["d0", "d10", true]')["quality"]
    assert quality["accuracy"] in (0, 1)
    assert quality["false_accept_rate"] is None
    assert quality["false_reject_rate"] == 1 - quality["accuracy"]
    assert quality["auc"] is quality["eer"] is None


# -- thresholds ------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:target_f.* needs .* pairs:UserWarning")
@pytest.mark.parametrize(
    ("options", "target"),
    [
        ((), {"target": "accuracy"}),
        (("--target", "f1"), {"target": "f1"}),
        (("--target", "eer"), {"target": "eer"}),
        (("--target-far", "0.05"), {"target_far": 0.05}),
        (("--target-far", "0.05", "--target-frr", "0.02"), {"target_far": 0.05, "target_frr": 0.02}),
    ],
)
def test_calibration_equals_the_library_and_can_be_saved(
    folder: Path, tmp_path: Path, options: tuple[str, ...], target: dict[str, Any]
) -> None:
    saved = tmp_path / "saved.oahu"
    output = answered("--pairs", "pairs.csv", "--calibrate", "others.jsonl", *options, "--save", str(saved))
    comparator = Comparator(metric(), preprocessor=ITEMS).calibrate(OTHER_ROWS, OTHER_SAME, **target)
    assert (output["yes_below"], output["no_from"]) == pytest.approx((comparator.yes_below_, comparator.no_from_))
    assert [pair["answer"] for pair in output["pairs"]] == comparator.predict(ROWS).tolist()
    assert [pair["probability"] for pair in output["pairs"]] == pytest.approx(comparator.probability(ROWS))
    assert output["calibration"]["n_pairs"] == 400
    again = answered("--pairs", "pairs.csv", model=str(saved))
    assert again["pairs"] == output["pairs"]
    assert again["calibration"] is None


def test_calibration_alone_prints_the_threshold(folder: Path) -> None:
    result = compare("--features", "items.npz", "--calibrate", "others.jsonl", model="euclidean.oahu")
    comparator = Comparator(metric("euclidean.oahu"), preprocessor=ITEMS)
    comparator.calibrate(OTHER_ROWS, OTHER_SAME, target="accuracy")
    assert f"{comparator.yes_below_:.4f}" in result.stdout
    assert "400 pairs" in result.stdout


def test_an_infinite_threshold_is_null_in_json(folder: Path) -> None:
    pairs = '["d0", "d0", false]\n["d0", "d10", true]\n'
    output = answered("d0", "d10", "--calibrate", "-", "--target-far", "0", stdin=pairs)
    assert output["yes_below"] is None
    assert output["pairs"][0]["answer"] == "no"


def test_options_take_precedence_over_calibration(folder: Path, tmp_path: Path) -> None:
    saved = str(tmp_path / "saved.oahu")
    answered("--calibrate", "others.jsonl", "--save", saved, "--rule", "mean", model="cosine.oahu")
    output = answered("d0", "d1", "--threshold", "0.3", model=saved)
    assert (output["yes_below"], output["no_from"], output["rule"]) == (0.3, 0.3, "mean")
    band = answered("d0", "d1", "--band", "0.1", model=saved)
    comparator = oahu.load(saved)
    assert band["yes_below"] == pytest.approx(comparator.yes_below_ - 0.1)
    refused = compare("--features", "items.npz", "d0", "d1", "--rule", "vote", model=saved)
    assert refused.exit_code == 1
    assert "--calibrate" in refused.stderr


# -- tables, pictures, errors ----------------------------------------------------------------------------


def test_limit_sets_the_number_of_pairs_shown(folder: Path) -> None:
    result = compare("--features", "items.npz", "--pairs", "pairs.csv", "--limit", "2")
    assert result.exit_code == 0
    rows = [line.split()[:2] for line in result.stdout.splitlines() if line.startswith("d")]
    assert rows == [list(pair[:2]) for pair in NAMED[:2]]
    for word in (
        "2 of 300 pairs are shown",
        "truth",
        "accuracy",
        "false accept rate",
        "false reject rate",
        "AUC",
        "EER",
        "TAR@FAR=0.01",
        "0.5500",
    ):
        assert word in result.stdout
    assert "TAR@FAR=0.001" not in result.stdout


def test_a_roc_curve_is_drawn(folder: Path, tmp_path: Path) -> None:
    result = compare("--features", "items.npz", "--pairs", "pairs.csv", "--roc", str(tmp_path / "roc.png"))
    assert result.exit_code == 0
    assert (tmp_path / "roc.png").read_bytes().startswith(b"\x89PNG")


F = ("--features", "items.npz")


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        ((*F,), None, "Nothing to compare"),
        ((*F, "d1"), None, "Give exactly two ids. Got 1"),
        ((*F, "d1", "d2", "--pairs", "pairs.csv"), None, "not both"),
        (("d1", "d2"), None, "--features"),
        ((*F, "d1", "nobody"), None, "items.npz: The feature table has no item 'nobody'"),
        ((*F, "--pairs", "none.csv"), None, "none.csv"),
        ((*F, "--pairs", "-"), "", "standard input has no pairs"),
        (
            (*F, "--pairs", "-"),
            '["d1", "d2"]\n["d1", "nobody"]',
            "standard input, line 2: The feature table has no item 'nobody'",
        ),
        ((*F, "--pairs", "-"), "left,right\nd1,d2", "line 1: the first line must be a header"),
        ((*F, "--pairs", "-"), '["d1"', "line 1: invalid JSON"),
        ((*F, "--pairs", "-"), "[[1.0], [2.0]]", "line 1: The items have 1 features"),
        (
            (*F, "--pairs", "-"),
            f'["d1", "d2"]\n[{[0.0] * 64}, {[0.0] * 64}]',
            "All pairs of a file must consist of ids, or all must consist of feature values",
        ),
        (("--pairs", "pairs.csv"), None, "pairs.csv, line 2: The items of the pair are given by id"),
        ((*F, "d1", "d2", "--target", "f1"), None, "--calibrate FILE"),
        ((*F, "--calibrate", "others.jsonl", "--threshold", "1"), None, "not both"),
        ((*F, "--calibrate", "-"), '["d1", "d2"]', "has no labelled pairs"),
        ((*F, "--calibrate", "-"), '["d1", "d2", true]', "needs similar and dissimilar pairs"),
        (
            (*F, "--calibrate", "others.jsonl", "--target-frr", "0.1"),
            None,
            "--target-frr can only be used with --target-far",
        ),
        (
            (*F, "--calibrate", "others.jsonl", "--target", "f1", "--target-far", "0.1"),
            None,
            "--target or --target-far, not both",
        ),
        ((*F, "--calibrate", "others.jsonl", "--target-far", "2"), None, "in [0, 1]"),
        ((*F, "--pairs", "-", "--calibrate", "-"), "", "cannot both read standard input"),
        ((*F, "--pairs", "-", "--roc", "roc.png"), '["d1", "d2", true]', "standard input: A ROC curve needs"),
        ((*F, "d1", "d2", "--roc", "roc.png"), None, "--pairs"),
        ((*F, "--pairs", "pairs.csv", "--roc", "roc.xyz"), None, "Cannot write roc.xyz"),
        ((*F, "--pairs", "pairs.csv", "--save", "no/where.oahu"), None, "Cannot write where.oahu: the folder"),
        ((*F, "d1", "d2", "--band", "-1"), None, "error: The 'band' parameter"),
    ],
)
def test_errors_say_what_is_wrong(
    folder: Path, arguments: tuple[str, ...], stdin: str | None, message: str
) -> None:
    result = compare(*arguments, stdin=stdin)
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stdout == ""


def test_an_unbounded_metric_needs_a_threshold(folder: Path) -> None:
    result = compare(*F, "d1", "d2", model="euclidean.oahu")
    assert result.exit_code == 1
    assert "euclidean.oahu" in result.stderr
    assert "--threshold" in result.stderr


def test_info_describes_a_comparator(folder: Path, tmp_path: Path) -> None:
    Comparator(metric(), threshold=0.4).save(tmp_path / "saved.oahu")
    result = runner.invoke(app, ["info", str(tmp_path / "saved.oahu")])
    assert result.exit_code == 0
    for word in ("Comparator", "EnsembleMetric", "threshold", "0.4"):
        assert word in result.stdout
