"""`oahu evaluate` gives the numbers of independent computations, for the model and for unlearned metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

import oahu
import oahu.cli.evaluate_command
from oahu import Pair
from oahu.cli import app
from oahu.evaluation import eer, error_rate, tar_at_far

runner = CliRunner()
DIGITS, LABELS = load_digits(return_X_y=True)
ITEMS, QUERIES = DIGITS[:200] / 16, DIGITS[200:280] / 16
CLASSES, TRUTH = LABELS[:200], LABELS[200:280]
SMALL = ("--n-pairs", "600", "--n-triplets", "500", "--seed", "3")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with models, items and queries."""
    folder = tmp_path_factory.mktemp("evaluate")
    learner = oahu.OAHU(n_layers=2, hidden_size=20, embedding_size=10, preprocessor=ITEMS, random_state=0)
    learner.partial_fit(oahu.sample_triplets(CLASSES, 300, random_state=0)).save(folder / "oahu.oahu")
    oahu.EuclideanMetric(64).save(folder / "euclidean.oahu")
    bilinear = oahu.OASIS(preprocessor=ITEMS).partial_fit(oahu.sample_triplets(CLASSES, 50, random_state=0))
    bilinear.save(folder / "oasis.oahu")
    np.savez(folder / "items.npz", X=ITEMS, y=CLASSES)
    np.savez(folder / "queries.npz", X=QUERIES, y=TRUTH)
    np.save(folder / "items.npy", ITEMS)
    np.save(folder / "queries.npy", QUERIES)
    np.save(folder / "labels.npy", CLASSES)
    np.save(folder / "truth.npy", TRUTH)
    np.savez(folder / "alike.npz", X=QUERIES, y=np.zeros(80, int))
    np.savez(folder / "few.npz", X=ITEMS[:3], y=CLASSES[:3])
    return folder


@pytest.fixture
def folder(files: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to the folder."""
    monkeypatch.chdir(files)
    return files


FILES = ("--items", "items.npz", "--queries", "queries.npz")


def evaluate(*arguments: str, model: str = "oahu.oahu") -> Any:
    return runner.invoke(app, ["evaluate", "--model", model, *arguments], catch_exceptions=False)


def measured(*arguments: str, model: str = "oahu.oahu") -> Any:
    """Return the JSON output; nothing else must be printed."""
    result = evaluate(*arguments, "--json", model=model)
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    return json.loads(result.stdout, parse_constant=pytest.fail)


def unit(X: Any) -> Any:
    return X / np.linalg.norm(X, axis=1, keepdims=True)


@pytest.mark.parametrize(("name", "scaled"), [("euclidean", np.asarray), ("cosine", unit)])
def test_unlearned_metrics_equal_plain_distances(folder: Path, name: str, scaled: Any) -> None:
    results = measured(*FILES, *SMALL)["results"][name]
    items, queries = scaled(ITEMS), scaled(QUERIES)
    order = np.argsort(cdist(queries, items), axis=1, kind="stable")
    for k in (1, 2, 4, 8):
        hit = (CLASSES[order[:, :k]] == TRUTH[:, None]).any(axis=1)
        assert results[f"recall@{k}"] == pytest.approx(hit.mean())
    pairs, same = oahu.sample_pairs(TRUTH, 600, random_state=3)
    scores = -np.linalg.norm(queries[pairs[:, 0]] - queries[pairs[:, 1]], axis=1)
    assert results["auc"] == pytest.approx(roc_auc_score(same, scores), abs=1e-4)
    assert results["eer"] == pytest.approx(eer(same, scores), abs=1e-4)
    assert results["tar@far=0.01"] == pytest.approx(tar_at_far(same, scores, 0.01), abs=1e-2)
    assert results["tar@far=0.001"] is None
    anchor, positive, negative = queries[oahu.sample_triplets(TRUTH, 500, random_state=3)].transpose(1, 0, 2)
    right = np.linalg.norm(anchor - positive, axis=1) < np.linalg.norm(anchor - negative, axis=1)
    assert results["triplet_accuracy"] == pytest.approx(right.mean())


def test_classification_equals_the_library(folder: Path) -> None:
    results = measured(*FILES, *SMALL, "--k", "3")["results"]
    metrics = {"model": oahu.load("oahu.oahu").metric(), "cosine": oahu.CosineMetric(64)}
    for name, metric in metrics.items():
        output = oahu.Classifier(metric, k=3).fit(ITEMS, CLASSES).predict(QUERIES)
        assert results[name]["error_rate"] == pytest.approx(error_rate(TRUTH, output))


def test_a_euclidean_model_equals_the_euclidean_column(folder: Path) -> None:
    results = measured(*FILES, *SMALL, model="euclidean.oahu")["results"]
    assert results["model"] == results["euclidean"]


def test_results_are_deterministic(folder: Path) -> None:
    assert measured(*FILES, *SMALL) == measured(*FILES, *SMALL)


def test_labels_can_be_in_separate_files(folder: Path) -> None:
    files = ("--items", "items.npy", "--labels", "labels.npy", "--queries", "queries.npy")
    apart = measured(*files, "--query-labels", "truth.npy", *SMALL)
    assert apart["results"] == measured(*FILES, *SMALL)["results"]


def test_pairs_can_be_given_in_a_file(folder: Path, tmp_path: Path) -> None:
    pairs, same = oahu.sample_pairs(TRUTH, 600, random_state=3)
    given = (Pair(int(a), int(b), bool(alike > 0)) for (a, b), alike in zip(pairs, same, strict=True))
    oahu.write_stream(tmp_path / "pairs.csv", given)
    output = measured(*FILES, "--pairs", str(tmp_path / "pairs.csv"), "--n-triplets", "500", "--seed", "3")
    assert output["results"] == measured(*FILES, *SMALL)["results"]


def test_pairs_and_triplets_can_be_skipped(folder: Path) -> None:
    result = evaluate("--items", "items.npz", "--queries", "alike.npz", "--n-pairs", "0", "--n-triplets", "0")
    assert result.exit_code == 0
    for word in ("AUC", "EER", "TAR", "triplets"):
        assert word not in result.stdout
    assert "Recall@8" in result.stdout


def test_recall_depth_is_limited_by_the_number_of_items(folder: Path) -> None:
    output = measured("--items", "few.npz", "--queries", "queries.npz", *SMALL)["results"]["model"]
    assert [name for name in output if name.startswith("recall")] == ["recall@1", "recall@2"]


def test_a_metric_without_distances_is_measured(folder: Path) -> None:
    output = measured(*FILES, *SMALL, model="oasis.oahu")["results"]["model"]
    metric = oahu.load("oasis.oahu").metric()
    pairs, same = oahu.sample_pairs(TRUTH, 600, random_state=3)
    assert output["auc"] == pytest.approx(roc_auc_score(same, metric.score(*QUERIES[pairs].transpose(1, 0, 2))))


def test_block_size_does_not_change_results(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = measured(*FILES, *SMALL, model="euclidean.oahu")
    monkeypatch.setattr(oahu.cli.evaluate_command, "_BLOCK", 7)
    assert measured(*FILES, *SMALL, model="euclidean.oahu") == whole


def test_the_table_has_a_column_for_each_metric(folder: Path) -> None:
    result = evaluate(*FILES, *SMALL)
    results = measured(*FILES, *SMALL)["results"]
    titles, *lines = result.stdout.splitlines()
    assert titles.split()[:3] == ["OAHU", "Euclidean", "cosine"]
    rows = {line[:13].strip(): line[13:].split() for line in lines}
    for title, name in {"error rate": "error_rate", "AUC": "auc", "Recall@1": "recall@1"}.items():
        assert rows[title][:3] == [f"{column[name]:.4f}" for column in results.values()]
    assert "TAR@FAR=0.001" not in result.stdout


@pytest.mark.parametrize("model", ["oahu.oahu", "euclidean.oahu"])
def test_a_report_is_drawn(folder: Path, tmp_path: Path, model: str) -> None:
    result = evaluate(*FILES, *SMALL, "--plot", str(tmp_path / "report.png"), model=model)
    assert result.exit_code == 0
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--items", "items.npz"), "Give --items FILE and --queries FILE"),
        (("--queries", "queries.npz"), "Give --items FILE and --queries FILE"),
        (("--items", "items.npy", "--queries", "queries.npz"), "items.npy has no labels"),
        (("--items", "items.npz", "--queries", "queries.npy"), "--query-labels FILE"),
        (("--items", "items.npz", "--queries", "none.npz"), "none.npz"),
        (("--items", "items.npz", "--queries", "alike.npz"), "--n-pairs 0 skips pairs"),
        (
            ("--items", "items.npz", "--queries", "alike.npz", "--n-pairs", "0"),
            "--n-triplets 0 skips triplets",
        ),
        ((*FILES, "--plot", "report.xyz"), "Cannot write report.xyz"),
        ((*FILES, "--pairs", "none.csv"), "none.csv"),
    ],
)
def test_errors_say_what_is_wrong(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    result = evaluate(*arguments)
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stdout == ""


def test_items_and_queries_must_be_different_files(folder: Path) -> None:
    result = evaluate("--items", "items.npz", "--queries", "./items.npz")
    assert result.exit_code == 1
    assert "every query would find itself" in " ".join(result.stderr.split())
