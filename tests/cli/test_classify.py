"""`oahu classify` gives the answers of the library, and errors name the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from typer.testing import CliRunner

import oahu
import oahu.cli.classify_command
from oahu.cli import app

runner = CliRunner()
DIGITS, LABELS = load_digits(return_X_y=True)
ITEMS, QUERIES = DIGITS[:200] / 16, DIGITS[200:260] / 16
CLASSES, TRUTH = LABELS[:200], LABELS[200:260]
WORDS = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])


def write(path: Path, X: Any, y: Any = None, prefix: str = "") -> None:
    """Write items in the format of the suffix; a prefix adds ids."""
    ids = None if not prefix else [f"{prefix}{row}" for row in range(len(X))]
    if path.suffix == ".npy":
        np.save(path, X)
    elif path.suffix == ".npz":
        given = {"y": y, "ids": None if ids is None else np.array(ids)}
        np.savez(path, X=X, **{name: array for name, array in given.items() if array is not None})
    else:
        named = {"id": ids, **{f"pixel{place}": column for place, column in enumerate(X.T)}, "label": y}
        columns = {name: column for name, column in named.items() if column is not None}
        if path.suffix == ".parquet":
            import pyarrow
            import pyarrow.parquet

            pyarrow.parquet.write_table(pyarrow.table(columns), path)
        else:
            rows = zip(*columns.values(), strict=True)
            path.write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two models, items and queries."""
    files = tmp_path_factory.mktemp("classify")
    learner = oahu.OAHU(n_layers=2, hidden_size=20, embedding_size=10, preprocessor=ITEMS, random_state=0)
    learner.partial_fit(oahu.sample_triplets(CLASSES, 300, random_state=0)).save(files / "oahu.oahu")
    oahu.EuclideanMetric(64).save(files / "euclidean.oahu")
    write(files / "items.npz", ITEMS, CLASSES, "g")
    write(files / "queries.npz", QUERIES, TRUTH, "q")
    write(files / "plain.npy", QUERIES)
    return files


def classify(folder: Path, model: str, items: str, queries: str, *more: str) -> Any:
    files = [str(folder / name) for name in (model, items, queries)]
    options = ["--model", files[0], "--items", files[1], "--queries", files[2], *more]
    return runner.invoke(app, ["classify", *options], catch_exceptions=False)


def answered(*arguments: Any) -> Any:
    """Return the JSON output; nothing else must be printed."""
    result = classify(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    return json.loads(result.stdout, parse_constant=pytest.fail)


@pytest.mark.parametrize("kind", ["npy", "npz", "csv", "parquet"])
def test_answers_equal_the_library_for_every_file_format(folder: Path, tmp_path: Path, kind: str) -> None:
    write(tmp_path / f"items.{kind}", ITEMS, CLASSES, "g")
    write(tmp_path / f"queries.{kind}", QUERIES, TRUTH, "q")
    write(tmp_path / "labels.npy", CLASSES)
    more = ("--labels", str(tmp_path / "labels.npy")) if kind == "npy" else ()
    found = answered(tmp_path, folder / "oahu.oahu", f"items.{kind}", f"queries.{kind}", *more)["answers"]
    classifier = oahu.Classifier(oahu.load(folder / "oahu.oahu").metric()).fit(ITEMS, CLASSES)
    assert [one["label"] for one in found] == classifier.predict(QUERIES).tolist()
    shares = classifier.predict_proba(QUERIES)
    np.testing.assert_allclose([one["share"] for one in found], shares.max(axis=1))
    np.testing.assert_allclose([one["familiarity"] for one in found], classifier.familiarity(QUERIES))
    assert [one["query"] for one in found] == [row if kind == "npy" else f"q{row}" for row in range(60)]
    for one, row in zip(found, shares, strict=True):
        votes = {vote["label"]: vote["share"] for vote in one["votes"]}
        assert votes == pytest.approx({label: share for label, share in enumerate(row) if share > 0})


def test_votes_and_nearest_item_follow_from_distances(folder: Path) -> None:
    found = answered(folder, "euclidean.oahu", "items.npz", "queries.npz", "--k", "3")["answers"]
    for one, apart in zip(found, cdist(QUERIES, ITEMS), strict=True):
        nearest = np.argsort(apart, kind="stable")[:3]
        near = apart[nearest]
        votes = np.bincount(CLASSES[nearest], np.exp(-(near - near[0]) / (near[2] - near[0])), minlength=10)
        assert one["label"] == votes.argmax()
        assert one["share"] == pytest.approx(votes.max() / votes.sum(), rel=1e-4)
        assert one["nearest"] == f"g{nearest[0]}"
        assert one["familiarity"] == pytest.approx(-near[0], rel=1e-5)


def test_nearest_item_is_from_the_space_with_the_largest_weight(folder: Path) -> None:
    found = answered(folder, "oahu.oahu", "items.npz", "queries.npz", "--vote", "experts")["answers"]
    metric = oahu.load(folder / "oahu.oahu").metric()
    most = max(metric.spaces, key=lambda space: space.weight)
    nearest = cdist(most.encode(QUERIES), most.encode(ITEMS)).argmin(axis=1)
    assert [one["nearest"] for one in found] == [f"g{row}" for row in nearest]


def test_vote_of_the_experts_equals_the_library(folder: Path) -> None:
    found = answered(folder, "oahu.oahu", "items.npz", "queries.npz", "--vote", "experts")["answers"]
    classifier = oahu.Classifier(oahu.load(folder / "oahu.oahu").metric(), vote="experts").fit(ITEMS, CLASSES)
    assert [one["label"] for one in found] == classifier.predict(QUERIES).tolist()


def test_quality_equals_counted_errors(folder: Path) -> None:
    output = answered(folder, "euclidean.oahu", "items.npz", "queries.npz")
    labels = np.array([one["label"] for one in output["answers"]])
    assert output["quality"]["error_rate"] == pytest.approx(np.mean(labels != TRUTH))
    f1 = []
    for label in np.union1d(labels, TRUTH):
        hits = np.sum((labels == label) & (label == TRUTH))
        f1.append(2 * hits / (np.sum(labels == label) + np.sum(label == TRUTH)))
    assert output["quality"]["macro_f1"] == pytest.approx(np.mean(f1))


def test_no_quality_without_query_labels(folder: Path) -> None:
    output = answered(folder, "euclidean.oahu", "items.npz", "plain.npy")
    assert output["quality"] is None
    assert "truth" not in output["answers"][0]


def test_unfamiliar_queries_are_unknown_and_not_counted(folder: Path) -> None:
    every = answered(folder, "euclidean.oahu", "items.npz", "queries.npz")["answers"]
    middle = float(np.median([one["familiarity"] for one in every]))
    output = answered(folder, "euclidean.oahu", "items.npz", "queries.npz", "--unknown-below", str(middle))
    known = [one["familiarity"] >= middle for one in every]
    assert [one["label"] for one in output["answers"]] == [
        one["label"] if familiar else None for one, familiar in zip(every, known, strict=True)
    ]
    assert output["quality"]["n_unknown"] == 60 - sum(known)
    wrong = [one["label"] != one["truth"] for one, familiar in zip(every, known, strict=True) if familiar]
    assert output["quality"]["error_rate"] == pytest.approx(np.mean(wrong))


def test_no_error_rate_if_all_queries_are_unknown(folder: Path) -> None:
    output = answered(folder, "euclidean.oahu", "items.npz", "queries.npz", "--unknown-below", "1")
    assert output["quality"] == {"n_queries": 60, "n_unknown": 60, "error_rate": None, "macro_f1": None}


def test_labels_can_be_strings_in_a_separate_file(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("\n".join(WORDS[CLASSES]))
    output = answered(folder, "euclidean.oahu", "items.npz", "plain.npy", "--labels", str(tmp_path / "words.txt"))
    numbers = answered(folder, "euclidean.oahu", "items.npz", "plain.npy")
    # Between classes with as many votes the first in order wins, and words have another order.
    for one, other in zip(output["answers"], numbers["answers"], strict=True):
        if one["share"] > 0.5:
            assert one["label"] == WORDS[other["label"]]


def test_block_size_does_not_change_results(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = answered(folder, "oahu.oahu", "items.npz", "queries.npz")
    monkeypatch.setattr(oahu.cli.classify_command, "_BLOCK", 7)
    cut = answered(folder, "oahu.oahu", "items.npz", "queries.npz")
    for one, other in zip(whole["answers"], cut["answers"], strict=True):
        assert (one["label"], one["nearest"]) == (other["label"], other["nearest"])
        assert one["share"] == pytest.approx(other["share"], abs=1e-4)


def test_limit_sets_the_number_of_queries_shown(folder: Path) -> None:
    result = classify(folder, "euclidean.oahu", "items.npz", "queries.npz", "--limit", "4")
    assert result.exit_code == 0
    assert [row in result.stdout for row in ("q0 ", "q3 ", "q4 ")] == [True, True, False]
    assert "4 of 60 queries are shown" in result.stdout
    for word in ("nearest item", "familiarity", "truth", "error rate", "macro F1"):
        assert word in result.stdout
    everything = classify(folder, "euclidean.oahu", "items.npz", "queries.npz", "--limit", "0").stdout
    assert "q59 " in everything
    assert "are shown" not in everything


def test_ids_are_not_interpreted_as_markup(folder: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "queries.npz", X=QUERIES[:1], ids=np.array(["[/bold]x"]))
    result = classify(folder, "euclidean.oahu", "items.npz", str(tmp_path / "queries.npz"))
    assert "[/bold]x" in result.stdout


@pytest.fixture(scope="module")
def broken(folder: Path) -> Path:
    """The folder, with several invalid files."""
    holed = QUERIES.copy()
    holed[3, 5] = np.nan
    write(folder / "holed.npy", holed)
    write(folder / "narrow.npy", QUERIES[:, :9])
    write(folder / "words.npz", QUERIES, WORDS[TRUTH])
    write(folder / "unlabelled.npy", ITEMS)
    write(folder / "short.npy", CLASSES[:7])
    (folder / "foreign.oahu").write_bytes(b"no model")
    (folder / "foreign.npz").write_bytes(b"no archive")
    return folder


@pytest.mark.parametrize(
    ("files", "more", "message"),
    [
        (("none.oahu", "items.npz", "plain.npy"), (), "none.oahu"),
        (("foreign.oahu", "items.npz", "plain.npy"), (), "foreign.oahu"),
        (("euclidean.oahu", "foreign.npz", "plain.npy"), (), "foreign.npz"),
        (("euclidean.oahu", "items.npz", "none.csv"), (), "none.csv"),
        (("euclidean.oahu", "items.txt", "plain.npy"), (), ".parquet"),
        (("euclidean.oahu", "items.npz", "holed.npy"), (), "holed.npy: "),
        (("euclidean.oahu", "items.npz", "narrow.npy"), (), "narrow.npy has 9 features per item"),
        (("euclidean.oahu", "items.npz", "words.npz"), (), "words.npz are strings"),
        (("euclidean.oahu", "unlabelled.npy", "plain.npy"), (), "--labels FILE"),
        (("euclidean.oahu", "items.npz", "plain.npy"), ("--labels", "short.npy"), "short.npy has 7 labels"),
    ],
)
def test_errors_name_the_file(broken: Path, files: tuple[str, ...], more: tuple[str, ...], message: str) -> None:
    result = classify(broken, *files, *(str(broken / name) if "." in name else name for name in more))
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stdout == ""
