"""`oahu search` finds what the library finds, in tables, as JSON and as pictures."""

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
import oahu.cli.search
import oahu.plots
from oahu import Retriever
from oahu.cli import app

runner = CliRunner()
DIGITS, LABELS = load_digits(return_X_y=True)
ITEMS, QUERIES = DIGITS[:200] / 16, DIGITS[200:230] / 16
CLASSES, TRUTH = LABELS[:200], LABELS[200:230]
IDS = [f"d{row}" for row in range(200)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
def folder(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """To work in."""
    monkeypatch.chdir(made)
    return made


F = ("--features", "items.npz")


def search(*arguments: str, model: str = "oahu.oahu") -> Any:
    return runner.invoke(app, ["search", "--model", model, *arguments], catch_exceptions=False)


def found(*arguments: str, model: str = "oahu.oahu") -> Any:
    """What is said as JSON, and nothing beside it."""
    result = search(*arguments, "--json", model=model)
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    return json.loads(result.stdout, parse_constant=pytest.fail)


def retriever(**settings: Any) -> Retriever:
    return Retriever(oahu.load("oahu.oahu").metric(), **settings).add(IDS, ITEMS)


def check_equal(said: Any, result: oahu.SearchResult) -> None:
    """That all of a result is said. An item's last bits depend on its company, so 0 may be 1e-7 of its length."""
    assert said["version"] == result.version
    assert [match["key"] for match in said["matches"]] == result.keys
    for match, expected in zip(said["matches"], result, strict=True):
        for name in ("distance", "similarity"):
            assert match[name] == pytest.approx(getattr(expected, name), rel=1e-5, abs=1e-6)
        assert len(match["votes"]) == len(expected.votes)
        for one, other in zip(match["votes"], expected.votes, strict=True):
            assert (one["space"], one["rank"]) == (other.space, other.rank)
            assert (one["distance"], one["score"]) == pytest.approx(
                (other.distance, other.score), rel=1e-4, abs=1e-6
            )


# -- what is found ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["npy", "npz", "csv", "parquet"])
def test_the_likes_of_an_item_are_the_librarys_from_every_kind_of_file(
    folder: Path, tmp_path: Path, kind: str
) -> None:
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
    (said,) = found("--features", str(path), "--query", name, "--k", "6")["queries"]
    result = retriever().similar_to("d17", k=6)
    if kind == "npy":
        assert [f"d{match['key']}" for match in said["matches"]] == result.keys
    else:
        assert said["query"] == "d17"
        check_equal(said, result)


def test_what_is_found_is_nearest(folder: Path) -> None:
    said = found(*F, "--queries", "queries.npz", "--k", "5", model="euclidean.oahu")
    apart = cdist(QUERIES, ITEMS)
    for row, one in enumerate(said["queries"]):
        nearest = np.argsort(apart[row], kind="stable")[:5]
        assert one["query"] == f"q{row}"
        assert one["label"] == TRUTH[row]
        assert [match["key"] for match in one["matches"]] == [IDS[at] for at in nearest]
        assert [match["label"] for match in one["matches"]] == CLASSES[nearest].tolist()
        np.testing.assert_allclose([match["distance"] for match in one["matches"]], apart[row][nearest], rtol=1e-5)


def test_an_item_is_not_its_own_like(folder: Path) -> None:
    said = found(*F, "--query", "d3", "--k", "200", model="euclidean.oahu")
    (one,) = said["queries"]
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
def test_settings_are_the_librarys(folder: Path, options: tuple[str, ...], settings: dict[str, Any]) -> None:
    said = found(*F, "--query", "d5", "--query", "d6", "--queries", "queries.npz", *options)
    index = retriever(**settings)
    expected = [index.similar_to("d5"), index.similar_to("d6"), *index.search_batch(QUERIES)]
    assert len(said["queries"]) == 32
    for one, result in zip(said["queries"], expected, strict=True):
        check_equal(one, result)


def test_an_approximate_search_finds_nearly_all(folder: Path) -> None:
    said = found(*F, "--queries", "queries.npz", "--approximate")
    both = [
        len({match["key"] for match in one["matches"]} & set(result.keys))
        for one, result in zip(said["queries"], retriever().search_batch(QUERIES), strict=True)
    ]
    assert np.mean(both) >= 9  # of 10; two graphs of the same items are not the same


def test_blocks_make_no_difference(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = found(*F, "--queries", "queries.npz", model="euclidean.oahu")
    monkeypatch.setattr(oahu.cli.search, "_BLOCK", 7)
    cut = found(*F, "--queries", "queries.npz", model="euclidean.oahu")
    keys = [[[match["key"] for match in one["matches"]] for one in said["queries"]] for said in (whole, cut)]
    assert keys[0] == keys[1]


def test_an_index_can_be_kept_and_searched_without_features(folder: Path, tmp_path: Path) -> None:
    kept = str(tmp_path / "index.oahu")
    asked = ("--query", "d5", "--queries", "queries.npz")
    before = found(*F, *asked, "--combine", "sum", "--save", kept)
    after = found(*asked, "--labels", "labels.npy", model=kept)
    assert after["queries"] == before["queries"]
    assert after["n_items"] == 200


def test_an_index_can_be_made_without_a_search(folder: Path, tmp_path: Path) -> None:
    result = search(*F, "--save", str(tmp_path / "index.oahu"))
    assert result.exit_code == 0
    assert len(oahu.load(tmp_path / "index.oahu")) == 200
    described = runner.invoke(app, ["info", str(tmp_path / "index.oahu")])
    assert "Retriever" in described.stdout
    assert "200" in described.stdout


def test_a_similarity_without_distances_says_so(folder: Path) -> None:
    (one,) = found(*F, "--query", "d5", "--k", "3", model="oasis.oahu")["queries"]
    metric = oahu.load("oasis.oahu").metric()
    scores = np.delete(metric.scores(ITEMS[5:6], ITEMS)[0], 5)
    assert [match["distance"] for match in one["matches"]] == [None] * 3
    similar = [match["similarity"] for match in one["matches"]]
    np.testing.assert_allclose(similar, np.sort(scores)[::-1][:3], rtol=1e-5)
    assert "similarity" in search(*F, "--query", "d5", model="oasis.oahu").stdout


# -- tables ----------------------------------------------------------------------------------------------


def test_the_table_of_one_query_names_it(folder: Path) -> None:
    result = search(*F, "--query", "d5", "--k", "2")
    assert result.exit_code == 0
    assert f"most like d5 ({CLASSES[5]})" in result.stdout
    rows = [line.split() for line in result.stdout.splitlines() if line.lstrip()[:1].isdigit()]
    matches = retriever().similar_to("d5", k=2)
    expected = [[match.key, str(CLASSES[IDS.index(str(match.key))]), f"{match.distance:.4f}"] for match in matches]
    assert [row[1:4] for row in rows] == expected
    assert [row[4:] for row in rows] == [[one.space for one in match.votes] for match in matches]


def test_the_table_shows_as_many_queries_as_asked(folder: Path) -> None:
    result = search(*F, "--queries", "queries.npz", "--limit", "2", "--k", "3")
    assert "q1 " in result.stdout
    assert "q2 " not in result.stdout
    assert "2 of 30 queries are shown" in result.stdout


# -- sheets ----------------------------------------------------------------------------------------------


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a sheet is drawn of."""
    given: list[Any] = []
    draw = oahu.plots.contact_sheet

    def record(*arguments: Any) -> Any:
        given.extend(arguments)
        return draw(*arguments)

    monkeypatch.setattr(oahu.plots, "contact_sheet", record)
    return given


def test_a_sheet_shows_what_was_asked_and_found(folder: Path, tmp_path: Path, drawn: list[Any]) -> None:
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


def test_a_sheet_of_items_without_labels_has_no_right_and_wrong(
    folder: Path, tmp_path: Path, drawn: list[Any]
) -> None:
    sheet = str(tmp_path / "sheet.svg")
    result = search("--features", "unlabelled.npz", "--query", "d5", "--k", "2", "--sheet", sheet)
    assert result.exit_code == 0
    assert drawn[3] == ["d5"]
    assert drawn[4] is None


def test_of_a_long_key_a_sheet_shows_the_end(folder: Path, tmp_path: Path, drawn: list[Any]) -> None:
    np.savez(
        tmp_path / "long.npz", X=ITEMS[:2], ids=np.array([f"/archive/of/digits/{row}.png" for row in range(2)])
    )
    asked = ("--features", str(tmp_path / "long.npz"), "--query", "/archive/of/digits/0.png")
    assert search(*asked, "--sheet", str(tmp_path / "sheet.png")).exit_code == 0
    assert drawn[3] == ["…ive/of/digits/0.png"]


def test_a_kept_index_can_be_drawn(folder: Path, tmp_path: Path, drawn: list[Any]) -> None:
    retriever().save(tmp_path / "index.oahu")
    sheet = str(tmp_path / "sheet.png")
    assert search("--query", "d5", "--sheet", sheet, model=str(tmp_path / "index.oahu")).exit_code == 0
    np.testing.assert_allclose(drawn[0][0], ITEMS[5].reshape(8, 8), atol=1e-6)


# -- errors ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def broken(made: Path) -> Path:
    """The folder, with files that are wrong, each in its own way."""
    holed = QUERIES.copy()
    holed[3, 5] = np.inf
    np.save(made / "holed.npy", holed)
    np.save(made / "narrow.npy", QUERIES[:, :9])
    np.savez(made / "words.npz", X=QUERIES, y=np.array(["one"] * 30))
    np.save(made / "short.npy", CLASSES[:7])
    Retriever(oahu.EuclideanMetric(64)).add(IDS, ITEMS).save(made / "index.oahu")
    return made


@pytest.mark.parametrize(
    ("model", "arguments", "said"),
    [
        ("oahu.oahu", F, "--query ID or --queries FILE"),
        ("oahu.oahu", ("--query", "d5"), "oahu.oahu holds a OAHU, and no items"),
        ("oahu.oahu", (*F, "--query", "nobody"), "items.npz: There is no item 'nobody'"),
        ("oahu.oahu", (*F, "--queries", "none.npy"), "none.npy"),
        ("oahu.oahu", (*F, "--queries", "holed.npy"), "holed.npy: "),
        ("oahu.oahu", (*F, "--queries", "narrow.npy"), "narrow.npy has 9 features an item"),
        ("oahu.oahu", (*F, "--queries", "words.npz"), "words.npz are strings"),
        ("oahu.oahu", (*F, "--query", "d5", "--labels", "short.npy"), "short.npy has 7 labels"),
        ("oahu.oahu", ("--features", "holed.npy", "--query", "5"), "holed.npy: "),
        ("oahu.oahu", (*F, "--query", "d5", "--shape", "8x8"), "--sheet FILE"),
        ("oahu.oahu", (*F, "--query", "d5", "--sheet", "a.png", "--shape", "8"), "such as 8x8"),
        ("oahu.oahu", (*F, "--query", "d5", "--sheet", "a.png", "--shape", "8x9"), "(8, 9) has 72 values"),
        ("oahu.oahu", (*F, "--query", "d5", "--sheet", "a.xyz"), "a.xyz cannot be drawn"),
        ("oahu.oahu", (*F, "--query", "d5", "--save", "no/where.oahu"), "There is no folder"),
        ("oahu.oahu", (*F, "--save", "b.oahu", "--sheet", "a.png"), "A sheet shows what was found"),
        ("index.oahu", (*F, "--query", "d5"), "leave --features out"),
        ("index.oahu", ("--query", "d5", "--combine", "sum"), "leave --combine out"),
        ("index.oahu", ("--query", "d5", "--approximate"), "leave --approximate out"),
        ("index.oahu", ("--query", "d5", "--labels", "short.npy"), "short.npy has 7 labels"),
        ("index.oahu", ("--query", "nobody"), "index.oahu: There is no item 'nobody'"),
    ],
)
def test_what_is_wrong_is_said(
    broken: Path, monkeypatch: pytest.MonkeyPatch, model: str, arguments: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(broken)
    result = search(*arguments, model=model)
    assert result.exit_code == 1
    assert said in result.stderr
    assert result.stdout == ""


def test_a_vote_that_there_is_not_is_a_wrong_use(folder: Path) -> None:
    assert search(*F, "--query", "d5", "--vote", "loudest").exit_code == 2
