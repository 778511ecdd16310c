"""`oahu search` finds the matches of the library, in tables, as JSON and as pictures."""

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
import oahu.cli.search_command
import oahu.plots
from oahu import Retriever
from oahu.cli import app

runner = CliRunner()
DIGITS, LABELS = load_digits(return_X_y=True)
ITEMS, QUERIES = DIGITS[:200] / 16, DIGITS[200:230] / 16
CLASSES, TRUTH = LABELS[:200], LABELS[200:230]
IDS = [f"d{row}" for row in range(200)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with models, items and queries."""
    folder = tmp_path_factory.mktemp("search")
    learner = oahu.OAHU(n_layers=2, hidden_size=20, embedding_size=10, preprocessor=ITEMS, random_state=0)
    learner.partial_fit(oahu.sample_triplets(CLASSES, 300, random_state=0)).save(folder / "oahu.oahu")
    oahu.EuclideanMetric(64).save(folder / "euclidean.oahu")
    bilinear = oahu.OASIS(preprocessor=ITEMS).partial_fit(oahu.sample_triplets(CLASSES, 50, random_state=0))
    bilinear.save(folder / "oasis.oahu")
    np.savez(folder / "items.npz", X=ITEMS, y=CLASSES, ids=np.array(IDS))
    np.savez(folder / "unlabelled.npz", X=ITEMS, ids=np.array(IDS))
    np.savez(folder / "queries.npz", X=QUERIES, y=TRUTH, ids=np.array([f"q{row}" for row in range(30)]))
    np.save(folder / "labels.npy", CLASSES)
    return folder


@pytest.fixture
def folder(files: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to the folder."""
    monkeypatch.chdir(files)
    return files


F = ("--features", "items.npz")


def search(*arguments: str, model: str = "oahu.oahu") -> Any:
    return runner.invoke(app, ["search", "--model", model, *arguments], catch_exceptions=False)


def found(*arguments: str, model: str = "oahu.oahu") -> Any:
    """Return the JSON output; nothing else must be printed."""
    result = search(*arguments, "--json", model=model)
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    return json.loads(result.stdout, parse_constant=pytest.fail)


def retriever(**settings: Any) -> Retriever:
    return Retriever(oahu.load("oahu.oahu").metric(), **settings).add(IDS, ITEMS)


def check_equal(output: Any, result: oahu.RetrievalResult) -> None:
    """Check that JSON contains the whole result. The last bits of a distance may differ with the batch size."""
    assert output["version"] == result.version
    assert [match["key"] for match in output["matches"]] == result.keys
    for match, expected in zip(output["matches"], result, strict=True):
        for name in ("distance", "similarity"):
            assert match[name] == pytest.approx(getattr(expected, name), rel=1e-5, abs=1e-6)
        assert len(match["votes"]) == len(expected.votes)
        for one, other in zip(match["votes"], expected.votes, strict=True):
            assert (one["space"], one["rank"]) == (other.space, other.rank)
            assert (one["distance"], one["score"]) == pytest.approx(
                (other.distance, other.score), rel=1e-4, abs=1e-6
            )


# -- matches ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["npy", "npz", "csv", "parquet"])
def test_matches_equal_the_library_for_every_file_format(folder: Path, tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"items.{kind}"
    if kind == "npy":
        np.save(path, ITEMS)
    elif kind == "npz":
        np.savez(path, X=ITEMS, ids=np.array(IDS))
    elif kind == "csv":
        lines = [f"{name},{','.join(map(str, row))}" for name, row in zip(IDS, ITEMS, strict=True)]
        path.write_text("\n".join([f"id,{','.join(f'pixel{place}' for place in range(64))}", *lines]))
    else:
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.table({"key": IDS, "vector": list(ITEMS)}), path)
    name = "17" if kind == "npy" else "d17"
    (output,) = found("--features", str(path), "--query", name, "--k", "6")["queries"]
    result = retriever().similar_to("d17", k=6)
    if kind == "npy":
        assert [f"d{match['key']}" for match in output["matches"]] == result.keys
    else:
        assert output["query"] == "d17"
        check_equal(output, result)


def test_matches_are_the_nearest_items(folder: Path) -> None:
    output = found(*F, "--queries", "queries.npz", "--k", "5", model="euclidean.oahu")
    apart = cdist(QUERIES, ITEMS)
    for row, one in enumerate(output["queries"]):
        nearest = np.argsort(apart[row], kind="stable")[:5]
        assert one["query"] == f"q{row}"
        assert one["label"] == TRUTH[row]
        assert [match["key"] for match in one["matches"]] == [IDS[at] for at in nearest]
        assert [match["label"] for match in one["matches"]] == CLASSES[nearest].tolist()
        np.testing.assert_allclose([match["distance"] for match in one["matches"]], apart[row][nearest], rtol=1e-5)


def test_a_query_is_not_its_own_match(folder: Path) -> None:
    output = found(*F, "--query", "d3", "--k", "200", model="euclidean.oahu")
    (one,) = output["queries"]
    order = np.argsort(cdist(ITEMS[3:4], ITEMS)[0], kind="stable")[1:]
    assert [match["key"] for match in one["matches"]] == [IDS[at] for at in order]


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ((), {}),
        (("--vote", "experts"), {"vote": "experts"}),
        (("--combine", "sum"), {"combine": "sum"}),
    ],
)
def test_settings_equal_the_library(folder: Path, options: tuple[str, ...], settings: dict[str, Any]) -> None:
    output = found(*F, "--query", "d5", "--query", "d6", "--queries", "queries.npz", *options)
    index = retriever(**settings)
    expected = [index.similar_to("d5"), index.similar_to("d6"), *index.search_batch(QUERIES)]
    assert len(output["queries"]) == 32
    for one, result in zip(output["queries"], expected, strict=True):
        check_equal(one, result)


def test_approximate_search_finds_nearly_all_matches(folder: Path) -> None:
    output = found(*F, "--queries", "queries.npz", "--approximate")
    both = [
        len({match["key"] for match in one["matches"]} & set(result.keys))
        for one, result in zip(output["queries"], retriever().search_batch(QUERIES), strict=True)
    ]
    assert np.mean(both) >= 9  # of 10; two graphs of the same items are not the same


def test_block_size_does_not_change_results(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = found(*F, "--queries", "queries.npz", model="euclidean.oahu")
    monkeypatch.setattr(oahu.cli.search_command, "_BLOCK", 7)
    cut = found(*F, "--queries", "queries.npz", model="euclidean.oahu")
    keys = [[[match["key"] for match in one["matches"]] for one in output["queries"]] for output in (whole, cut)]
    assert keys[0] == keys[1]


def test_a_saved_index_is_searched_without_features(folder: Path, tmp_path: Path) -> None:
    saved = str(tmp_path / "index.oahu")
    asked = ("--query", "d5", "--queries", "queries.npz")
    before = found(*F, *asked, "--combine", "sum", "--save", saved)
    after = found(*asked, "--labels", "labels.npy", model=saved)
    assert after["queries"] == before["queries"]
    assert after["n_items"] == 200


def test_an_index_can_be_saved_without_a_search(folder: Path, tmp_path: Path) -> None:
    result = search(*F, "--save", str(tmp_path / "index.oahu"))
    assert result.exit_code == 0
    assert len(oahu.load(tmp_path / "index.oahu")) == 200
    described = runner.invoke(app, ["info", str(tmp_path / "index.oahu")])
    assert "Retriever" in described.stdout
    assert "200" in described.stdout


def test_a_metric_without_distances_shows_similarities(folder: Path) -> None:
    (one,) = found(*F, "--query", "d5", "--k", "3", model="oasis.oahu")["queries"]
    metric = oahu.load("oasis.oahu").metric()
    scores = np.delete(metric.scores(ITEMS[5:6], ITEMS)[0], 5)
    assert [match["distance"] for match in one["matches"]] == [None] * 3
    similar = [match["similarity"] for match in one["matches"]]
    np.testing.assert_allclose(similar, np.sort(scores)[::-1][:3], rtol=1e-5)
    assert "similarity" in search(*F, "--query", "d5", model="oasis.oahu").stdout


# -- tables ----------------------------------------------------------------------------------------------


def test_the_table_of_one_query_has_its_name_as_title(folder: Path) -> None:
    result = search(*F, "--query", "d5", "--k", "2")
    assert result.exit_code == 0
    assert f"most similar to d5 ({CLASSES[5]})" in result.stdout
    rows = [line.split() for line in result.stdout.splitlines() if line.lstrip()[:1].isdigit()]
    matches = retriever().similar_to("d5", k=2)
    expected = [[match.key, str(CLASSES[IDS.index(str(match.key))]), f"{match.distance:.4f}"] for match in matches]
    assert [row[1:4] for row in rows] == expected
    assert [row[4:] for row in rows] == [[one.space for one in match.votes] for match in matches]


def test_limit_sets_the_number_of_queries_shown(folder: Path) -> None:
    result = search(*F, "--queries", "queries.npz", "--limit", "2", "--k", "3")
    assert "q1 " in result.stdout
    assert "q2 " not in result.stdout
    assert "2 of 30 queries are shown" in result.stdout


# -- sheets ----------------------------------------------------------------------------------------------


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Record the arguments of the drawing function."""
    given: list[Any] = []
    draw = oahu.plots.contact_sheet

    def record(*arguments: Any) -> Any:
        given.extend(arguments)
        return draw(*arguments)

    monkeypatch.setattr(oahu.plots, "contact_sheet", record)
    return given


def test_a_sheet_shows_queries_and_matches(folder: Path, tmp_path: Path, drawn: list[Any]) -> None:
    path = tmp_path / "sheet.png"
    asked = ("--query", "d5", "--queries", "queries.npz", "--k", "4", "--limit", "6")
    assert search(*F, *asked, "--sheet", str(path), "--shape", "8x8", "--invert").exit_code == 0
    assert path.read_bytes().startswith(b"\x89PNG")
    queries, results, captions, titles, right = drawn
    assert titles == [f"d5 · {CLASSES[5]}", *(f"q{row} · {TRUTH[row]}" for row in range(5))]
    np.testing.assert_allclose(queries[1], 1 - QUERIES[0].reshape(8, 8), atol=1e-6)
    index = retriever()
    matches = [index.similar_to("d5", 4), *index.search_batch(QUERIES[:5], 4)]
    for row, result in enumerate(matches):
        at = [IDS.index(str(key)) for key in result.keys]
        np.testing.assert_allclose(results[row], 1 - ITEMS[at].reshape(-1, 8, 8), atol=1e-6)
        label = CLASSES[5] if row == 0 else TRUTH[row - 1]
        assert right[row] == (CLASSES[at] == label).tolist()
        assert captions[row] == [
            f"{match.key} · {CLASSES[place]}\n{match.distance:.3f}" for match, place in zip(result, at, strict=True)
        ]


def test_a_sheet_without_labels_marks_nothing_as_right_or_wrong(
    folder: Path, tmp_path: Path, drawn: list[Any]
) -> None:
    sheet = str(tmp_path / "sheet.svg")
    result = search("--features", "unlabelled.npz", "--query", "d5", "--k", "2", "--sheet", sheet)
    assert result.exit_code == 0
    assert drawn[3] == ["d5"]
    assert drawn[4] is None


def test_a_sheet_shows_the_end_of_a_long_key(folder: Path, tmp_path: Path, drawn: list[Any]) -> None:
    np.savez(
        tmp_path / "long.npz", X=ITEMS[:2], ids=np.array([f"/archive/of/digits/{row}.png" for row in range(2)])
    )
    asked = ("--features", str(tmp_path / "long.npz"), "--query", "/archive/of/digits/0.png")
    assert search(*asked, "--sheet", str(tmp_path / "sheet.png")).exit_code == 0
    assert drawn[3] == ["…ive/of/digits/0.png"]


def test_a_saved_index_can_be_drawn(folder: Path, tmp_path: Path, drawn: list[Any]) -> None:
    retriever().save(tmp_path / "index.oahu")
    sheet = str(tmp_path / "sheet.png")
    assert search("--query", "d5", "--sheet", sheet, model=str(tmp_path / "index.oahu")).exit_code == 0
    np.testing.assert_allclose(drawn[0][0], ITEMS[5].reshape(8, 8), atol=1e-6)


# -- errors ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def broken(files: Path) -> Path:
    """The folder, with several invalid files."""
    holed = QUERIES.copy()
    holed[3, 5] = np.inf
    np.save(files / "holed.npy", holed)
    np.save(files / "narrow.npy", QUERIES[:, :9])
    np.savez(files / "words.npz", X=QUERIES, y=np.array(["one"] * 30))
    np.save(files / "short.npy", CLASSES[:7])
    Retriever(oahu.EuclideanMetric(64)).add(IDS, ITEMS).save(files / "index.oahu")
    return files


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        ("oahu.oahu", F, "--query ID or --queries FILE"),
        ("oahu.oahu", ("--query", "d5"), "oahu.oahu contains an OAHU, but no items"),
        ("oahu.oahu", (*F, "--query", "nobody"), "items.npz: The feature table has no item 'nobody'"),
        ("oahu.oahu", (*F, "--queries", "none.npy"), "none.npy"),
        ("oahu.oahu", (*F, "--queries", "holed.npy"), "holed.npy: "),
        ("oahu.oahu", (*F, "--queries", "narrow.npy"), "narrow.npy has 9 features per item"),
        ("oahu.oahu", (*F, "--queries", "words.npz"), "words.npz are strings"),
        ("oahu.oahu", (*F, "--query", "d5", "--labels", "short.npy"), "short.npy has 7 labels"),
        ("oahu.oahu", ("--features", "holed.npy", "--query", "5"), "holed.npy: "),
        ("oahu.oahu", (*F, "--query", "d5", "--shape", "8x8"), "--sheet FILE"),
        ("oahu.oahu", (*F, "--query", "d5", "--sheet", "a.png", "--shape", "8"), "--shape must have the form 8x8"),
        ("oahu.oahu", (*F, "--query", "d5", "--sheet", "a.png", "--shape", "8x9"), "(8, 9) has 72 values"),
        ("oahu.oahu", (*F, "--query", "d5", "--sheet", "a.xyz"), "Cannot write a.xyz"),
        ("oahu.oahu", (*F, "--query", "d5", "--save", "no/where.oahu"), "Cannot write where.oahu: the folder"),
        ("oahu.oahu", (*F, "--save", "b.oahu", "--sheet", "a.png"), "--sheet needs queries"),
        ("index.oahu", (*F, "--query", "d5"), "Remove --features"),
        ("index.oahu", ("--query", "d5", "--combine", "sum"), "Remove --combine"),
        ("index.oahu", ("--query", "d5", "--approximate"), "Remove --approximate"),
        ("index.oahu", ("--query", "d5", "--labels", "short.npy"), "short.npy has 7 labels"),
        ("index.oahu", ("--query", "nobody"), "index.oahu: The feature table has no item 'nobody'"),
    ],
)
def test_errors_say_what_is_wrong(
    broken: Path, monkeypatch: pytest.MonkeyPatch, model: str, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(broken)
    result = search(*arguments, model=model)
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stdout == ""


def test_an_unknown_vote_is_a_usage_error(folder: Path) -> None:
    assert search(*F, "--query", "d5", "--vote", "loudest").exit_code == 2
