"""`oahu evaluate` measures what can be counted another way, for the model and for what nobody learned."""

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
import oahu.cli.evaluate
from oahu import Pair
from oahu.cli import app
from oahu.evaluation import eer, error_rate, tar_at_far

runner = CliRunner()
DIGITS, LABELS = load_digits(return_X_y=True)
ITEMS, QUERIES = DIGITS[:200] / 16, DIGITS[200:280] / 16
CLASSES, TRUTH = LABELS[:200], LABELS[200:280]
SMALL = ("--n-pairs", "600", "--n-triplets", "500", "--seed", "3")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
def folder(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """To work in."""
    monkeypatch.chdir(made)
    return made


FILES = ("--items", "items.npz", "--queries", "queries.npz")


def evaluate(*arguments: str, model: str = "oahu.oahu") -> Any:
    return runner.invoke(app, ["evaluate", "--model", model, *arguments], catch_exceptions=False)


def measured(*arguments: str, model: str = "oahu.oahu") -> Any:
    """What is said as JSON, and nothing beside it."""
    result = evaluate(*arguments, "--json", model=model)
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    return json.loads(result.stdout, parse_constant=pytest.fail)


def unit(X: Any) -> Any:
    return X / np.linalg.norm(X, axis=1, keepdims=True)


@pytest.mark.parametrize(("name", "scaled"), [("euclidean", np.asarray), ("cosine", unit)])
def test_what_nobody_learned_is_what_distances_say(folder: Path, name: str, scaled: Any) -> None:
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


def test_a_model_is_classified_by_as_the_library_does(folder: Path) -> None:
    results = measured(*FILES, *SMALL, "--k", "3")["results"]
    metrics = {"model": oahu.load("oahu.oahu").metric(), "cosine": oahu.CosineMetric(64)}
    for name, metric in metrics.items():
        said = oahu.Classifier(metric, k=3).fit(ITEMS, CLASSES).predict(QUERIES)
        assert results[name]["error_rate"] == pytest.approx(error_rate(TRUTH, said))


def test_a_model_that_is_euclidean_does_as_euclidean_does(folder: Path) -> None:
    results = measured(*FILES, *SMALL, model="euclidean.oahu")["results"]
    assert results["model"] == results["euclidean"]


def test_the_same_question_has_the_same_answer(folder: Path) -> None:
    assert measured(*FILES, *SMALL) == measured(*FILES, *SMALL)


def test_labels_may_be_in_files_of_their_own(folder: Path) -> None:
    files = ("--items", "items.npy", "--labels", "labels.npy", "--queries", "queries.npy")
    apart = measured(*files, "--query-labels", "truth.npy", *SMALL)
    assert apart["results"] == measured(*FILES, *SMALL)["results"]


def test_pairs_may_be_given(folder: Path, tmp_path: Path) -> None:
    pairs, same = oahu.sample_pairs(TRUTH, 600, random_state=3)
    given = (Pair(int(a), int(b), bool(alike > 0)) for (a, b), alike in zip(pairs, same, strict=True))
    oahu.write_stream(tmp_path / "pairs.csv", given)
    said = measured(*FILES, "--pairs", str(tmp_path / "pairs.csv"), "--n-triplets", "500", "--seed", "3")
    assert said["results"] == measured(*FILES, *SMALL)["results"]


def test_what_is_not_wanted_is_left_out(folder: Path) -> None:
    result = evaluate("--items", "items.npz", "--queries", "alike.npz", "--n-pairs", "0", "--n-triplets", "0")
    assert result.exit_code == 0
    for word in ("AUC", "EER", "TAR", "triplets"):
        assert word not in result.stdout
    assert "Recall@8" in result.stdout


def test_recall_goes_as_deep_as_there_are_items(folder: Path) -> None:
    said = measured("--items", "few.npz", "--queries", "queries.npz", *SMALL)["results"]["model"]
    assert [name for name in said if name.startswith("recall")] == ["recall@1", "recall@2"]


def test_a_similarity_without_distances_is_measured(folder: Path) -> None:
    said = measured(*FILES, *SMALL, model="oasis.oahu")["results"]["model"]
    metric = oahu.load("oasis.oahu").metric()
    pairs, same = oahu.sample_pairs(TRUTH, 600, random_state=3)
    assert said["auc"] == pytest.approx(roc_auc_score(same, metric.score(*QUERIES[pairs].transpose(1, 0, 2))))


def test_blocks_make_no_difference(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = measured(*FILES, *SMALL, model="euclidean.oahu")
    monkeypatch.setattr(oahu.cli.evaluate, "_BLOCK", 7)
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
    ("arguments", "said"),
    [
        (("--items", "items.npz"), "evaluate needs both"),
        (("--queries", "queries.npz"), "evaluate needs both"),
        (("--items", "items.npy", "--queries", "queries.npz"), "items.npy has no labels"),
        (("--items", "items.npz", "--queries", "queries.npy"), "--query-labels FILE"),
        (("--items", "items.npz", "--queries", "none.npz"), "none.npz"),
        (("--items", "items.npz", "--queries", "alike.npz"), "--n-pairs 0 leaves pairs out"),
        (
            ("--items", "items.npz", "--queries", "alike.npz", "--n-pairs", "0"),
            "--n-triplets 0 leaves triplets out",
        ),
        ((*FILES, "--plot", "report.xyz"), "report.xyz cannot be drawn"),
        ((*FILES, "--pairs", "none.csv"), "none.csv"),
    ],
)
def test_what_is_wrong_is_said(folder: Path, arguments: tuple[str, ...], said: str) -> None:
    result = evaluate(*arguments)
    assert result.exit_code == 1
    assert said in result.stderr
    assert result.stdout == ""


def test_items_are_not_asked_for_among_themselves(folder: Path) -> None:
    result = evaluate("--items", "items.npz", "--queries", "./items.npz")
    assert result.exit_code == 1
    assert "every query would find itself" in " ".join(result.stderr.split())
