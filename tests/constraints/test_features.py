"""Tables of features: every id finds its row, and a file that is wrong says where."""

from __future__ import annotations

import pickle
import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from oahu.constraints import Features, read_features
from oahu.exceptions import InvalidInputError, StreamError

TABLES = hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=6))
IDS = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=8, unique=True)
NAMES = st.lists(st.text("ab7é ,\"'", min_size=1).filter(str.strip), min_size=2, max_size=8, unique=True)


def table_of(n_items: int) -> NDArray[np.float64]:
    return np.arange(2.0 * n_items).reshape(n_items, 2)


def quoted(cell: Any) -> str:
    return '"' + str(cell).replace('"', '""') + '"'


# -- what is read ----------------------------------------------------------------------------------------


@given(table=TABLES, suffix=st.sampled_from([".npy", ".npz", ".csv", ".tsv"]))
def test_the_table_is_the_one_in_the_file(table: NDArray[np.float64], suffix: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"items{suffix}"
        if suffix == ".npy":
            np.save(path, table)
        elif suffix == ".npz":
            np.savez(path, X=table, other=table[:, :1])
        else:
            lines = [[f"f{j}" for j in range(table.shape[1])], *([repr(v) for v in row] for row in table.tolist())]
            path.write_text("\n".join((", " if suffix == ".csv" else "\t").join(line) for line in lines) + "\n\n")
        features = read_features(path)
        assert features.rows is None
        np.testing.assert_array_equal(features.table, table)
        del features  # and with it the memory map, before its file


def test_an_npy_file_is_a_memory_map_for_reading(tmp_path: Path) -> None:
    np.save(tmp_path / "items.NPY.npy", table_of(3))
    table = read_features(tmp_path / "items.NPY.npy").table
    assert isinstance(table, np.memmap)
    assert not table.flags.writeable


@given(ids=IDS | NAMES, name=st.sampled_from(["ids", "keys"]), only=st.booleans())
def test_every_id_of_an_npz_file_finds_its_row(ids: list[Any], name: str, only: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "items.npz"
        arrays: dict[str, Any] = {
            "Z" if only else "X": table_of(len(ids)),
            name: np.array(ids),
            "length": np.ones(3),
        }
        np.savez(path, **arrays)
        features = read_features(path)
    assert [features.row(item) for item in ids] == list(range(len(ids)))
    assert [features.row(str(item)) for item in ids] == list(range(len(ids)))


@given(ids=IDS | NAMES, column=st.integers(0, 2), name=st.sampled_from(["id", " key "]))
def test_every_id_of_a_csv_file_finds_its_row(ids: list[Any], column: int, name: str) -> None:
    lines = [["a", "b"], *([str(v) for v in row] for row in table_of(len(ids)))]
    for line, item in zip(lines, [name, *ids], strict=True):
        line.insert(column, quoted(item))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "items.csv"
        path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(map(",".join, lines)).encode())
        features = read_features(path)
    assert [features.row(item) for item in ids] == list(range(len(ids)))
    np.testing.assert_array_equal(features.table, table_of(len(ids)))


def test_values_that_are_not_finite_are_left_to_the_learner(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("a,b\nnan,-inf\n")
    np.testing.assert_array_equal(read_features(tmp_path / "items.csv").table, [[np.nan, -np.inf]])


def test_the_columns_that_pandas_numbers_are_a_header(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("0,1\n0,1\n5,6\n")
    np.testing.assert_array_equal(read_features(tmp_path / "items.csv").table, [[0, 1], [5, 6]])


# -- ids -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("item", [2, "2", np.int8(2), np.uint64(2), np.str_("2")], ids=repr)
@pytest.mark.parametrize("rows", [None, {"tea": 0, 7: 1, 2: 2}], ids=["rows", "ids"])
def test_an_integer_is_the_same_id_in_every_type(item: Any, rows: Any) -> None:
    row = Features(table_of(3), rows).row(item)
    assert (row, type(row)) == (2, int)


ROWS = "which have rows 0 to 99."
FEW = "which have the ids 'tea', 1, 0."
MANY = "which have 4 ids such as 0, 1, 2."


@pytest.mark.parametrize(
    ("rows", "item", "known"),
    [
        *((None, item, ROWS) for item in [100, -1, "100", "tea", "01", 1.0, True, None, [1], np.int64(-1)]),
        *(({"tea": 0, 1: 1, 0: 2}, item, FEW) for item in [2, "Tea", "01", 1.0, True, False, None, [1], b"tea"]),
        ({0: 0, 1: 1, 2: 2, 3: 3}, 4, MANY),
    ],
)
def test_an_id_that_is_not_there_is_refused_with_what_is(rows: Any, item: Any, known: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        Features(table_of(100), rows).row(item)
    assert str(caught.value) == f"There is no item {item!r} in the features, {known}"


# -- what is refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv"])
def test_a_missing_file_is_just_that(suffix: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_features(tmp_path / f"items{suffix}")


@pytest.mark.parametrize("name", ["items.jsonl", "items", "items.parquet"])
def test_another_kind_of_file_is_refused(name: str) -> None:
    with pytest.raises(
        InvalidInputError, match=rf"must be in a \.npy, \.npz, \.csv or \.tsv file\. Got {name} instead"
    ):
        read_features(name)


class Boobytrap:
    """What must not come to life."""

    def __reduce__(self) -> Any:
        return pytest.fail, ("a pickle was loaded",)


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
@pytest.mark.parametrize("kind", ["empty", "text", "pickle", "objects", "cut"])
def test_a_file_that_holds_no_array_is_refused(kind: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"items{suffix}"
    array = np.array([[Boobytrap()]], dtype=object) if kind == "objects" else table_of(100)
    with path.open("wb") as file:
        np.save(file, array) if suffix == ".npy" else np.savez(file, X=array)
    whole = path.read_bytes()
    contents = {"empty": b"", "text": b"a,b\n1,2\n", "pickle": pickle.dumps(Boobytrap()), "cut": whole[:-500]}
    path.write_bytes(contents.get(kind, whole))
    with pytest.raises(InvalidInputError, match=rf"items\{suffix} cannot be read as a \{suffix} file of features"):
        read_features(path)


@pytest.mark.parametrize(
    ("save", "message"),
    [(np.savez, "Bad CRC-32"), (np.savez_compressed, "invalid block type")],
    ids=["stored", "compressed"],
)
def test_a_damaged_archive_is_refused(save: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "items.npz"
    save(path, X=table_of(100))
    data = bytearray(path.read_bytes())
    # After a header of 30 bytes come the name and more, whose lengths are at 26 and 28.
    start = 30 + sum(struct.unpack_from("<HH", data, 26))
    data[start if save is np.savez_compressed else start + 800] = 0b111  # no block of deflate is of type 3
    path.write_bytes(data)
    with pytest.raises(InvalidInputError, match=message):
        read_features(path)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones(3), r"must have shape \(n_items, n_features\), neither 0. Got \(3,\) instead"),
        (np.ones((3, 2, 1)), r"Got \(3, 2, 1\) instead"),
        (np.ones((3, 0)), r"Got \(3, 0\) instead"),
        (np.array([["a"]]), r"The features in .* must be real numbers. Got strings instead"),
        (np.ones((2, 2), complex), r"must be real numbers. Got Complex data not supported"),
        (np.ones((2, 2), [("a", float)]), r"must be real numbers. Got \[\('a', '<f8'\)\] instead"),
    ],
)
@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_an_array_that_is_no_table_of_numbers_is_refused(
    array: NDArray[Any], message: str, suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / f"items{suffix}"
    np.save(path, array) if suffix == ".npy" else np.savez(path, X=array)
    with pytest.raises(InvalidInputError, match=message):
        read_features(path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": table_of(2), "b": table_of(2)}, "must have an array 'X', or one array of two dimensions. Got 2 of"),
        (
            {"a": np.ones(2), "ids": np.arange(2)},
            "must have an array 'X', or one array of two dimensions. Got 0 of",
        ),
        ({"X": table_of(2), "ids": np.arange(3)}, "has 3 ids for 2 items: every item needs one"),
        (
            {"X": table_of(2), "ids": np.arange(2.0)},
            "must be integers or strings of shape (n_items,). Got float64 of",
        ),
        ({"X": table_of(2), "ids": np.ones((2, 1), int)}, "Got int64 of shape (2, 1) instead"),
        ({"X": table_of(2), "ids": np.array(["a", ""])}, "has a blank id for row 1"),
        ({"X": table_of(3), "ids": np.array([5, 7, 5])}, "has the id 5 twice: for row 0 and for row 2"),
        ({"X": table_of(2), "keys": np.array(["a", "a"])}, "has the id 'a' twice: for row 0 and for row 1"),
    ],
)
def test_an_archive_that_does_not_fit_together_is_refused(
    arrays: dict[str, Any], message: str, tmp_path: Path
) -> None:
    np.savez(tmp_path / "items.npz", **arrays)
    with pytest.raises(InvalidInputError) as caught:
        read_features(tmp_path / "items.npz")
    assert message in str(caught.value)


def test_an_array_in_place_of_an_archive_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "items.npz").open("wb") as file:
        np.save(file, table_of(2))
    with pytest.raises(InvalidInputError, match=r"items\.npz is not a \.npz archive"):
        read_features(tmp_path / "items.npz")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("1.5,2\n3,4\n", 1, "the first line must be a header with the names of the columns. Got numbers instead."),
        (",a\n0,1\n", 1, "every column needs a name: column 1 has none."),
        ("id,a,b\nx,1,2\n\ny,1,two\n", 4, "column 'b' must be a number. Got 'two' instead."),
        ("a,id,b\n,x,2\n", 2, "column 'a' must be a number. Got '' instead."),
        ("a,b\n1,2\n1\n", 3, "the line must have as many columns as the header."),
        ("a,b\n1,2,3\n", 2, "the line must have as many columns as the header."),
        ('a,b\n1,"2', 2, "unexpected end of data"),
        (b"a,b\n1,2\n1,\xff\n", 3, "not UTF-8 text ("),
    ],
)
def test_a_line_that_is_no_item_is_refused(text: str | bytes, line: int, message: str, tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(StreamError) as caught:
        read_features(path)
    assert str(caught.value).startswith(f"{path}, line {line}: {message}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Got (0, 0) instead"),
        ("a,b\n", "Got (0, 2) instead"),
        ("id\nx\n", "Got (0, 0) instead"),
        ("id,a\n7,1\nx,2\n7,3\n", "has the id '7' twice: for row 0 and for row 2"),
        ("id,a\n7,1\n ,2\n", "has a blank id for row 1"),
    ],
)
def test_a_csv_file_that_is_no_table_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text(text)
    with pytest.raises(InvalidInputError) as caught:
        read_features(tmp_path / "items.csv")
    assert message in str(caught.value)
