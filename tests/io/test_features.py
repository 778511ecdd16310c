"""Feature tables and labels: all file formats, ids, and errors that locate the problem."""

from __future__ import annotations

import pickle
import struct
import sys
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from oahu.exceptions import InvalidInputError, StreamError
from oahu.io.features import FeatureTable, read_features, read_labels

PYARROW = int(pa.__version__.partition(".")[0])
TABLES = hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=6))
IDS = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=8, unique=True)
NAMES = st.lists(st.text("ab7é ,\"'", min_size=1).filter(str.strip), min_size=2, max_size=8, unique=True)


def table_of(n_items: int) -> NDArray[np.float64]:
    return np.arange(2.0 * n_items).reshape(n_items, 2)


def quoted(cell: Any) -> str:
    return '"' + str(cell).replace('"', '""') + '"'


class PickleTrap:
    """An object whose unpickling fails the test."""

    def __reduce__(self) -> Any:
        return pytest.fail, ("a pickle was loaded",)


def written(folder: Path, **columns: Any) -> Path:
    """Write a Parquet file of these columns; return its path."""
    path = folder / "items.parquet"
    pq.write_table(pa.table(columns), path)
    return path


# -- reading ---------------------------------------------------------------------------------------------


@given(table=TABLES, suffix=st.sampled_from([".npy", ".npz", ".csv", ".tsv", ".parquet"]))
def test_tables_round_trip(table: NDArray[np.float64], suffix: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"items{suffix}"
        if suffix == ".npy":
            np.save(path, table)
        elif suffix == ".npz":
            np.savez(path, X=table, other=table[:, :1])
        elif suffix == ".parquet":
            written(Path(folder), **{f"f{j}": column for j, column in enumerate(table.T)})
        else:
            lines = [[f"f{j}" for j in range(table.shape[1])], *([repr(v) for v in row] for row in table.tolist())]
            path.write_text("\n".join((", " if suffix == ".csv" else "\t").join(line) for line in lines) + "\n\n")
        features = read_features(path)
        assert features.rows is None
        assert features.labels is None
        np.testing.assert_array_equal(features.table, table)
        del features  # closes the memory map before its file is deleted


def test_an_npy_file_is_a_read_only_memory_map(tmp_path: Path) -> None:
    np.save(tmp_path / "items.NPY.npy", table_of(3))
    table = read_features(tmp_path / "items.NPY.npy").table
    assert isinstance(table, np.memmap)
    assert not table.flags.writeable


@given(ids=IDS | NAMES, name=st.sampled_from(["ids", "keys"]), only=st.booleans())
def test_ids_of_an_npz_file_map_to_rows(ids: list[Any], name: str, only: bool) -> None:
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
def test_ids_of_a_csv_file_map_to_rows(ids: list[Any], column: int, name: str) -> None:
    lines = [["a", "b"], *([str(v) for v in row] for row in table_of(len(ids)))]
    for line, item in zip(lines, [name, *ids], strict=True):
        line.insert(column, quoted(item))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "items.csv"
        path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(map(",".join, lines)).encode())
        features = read_features(path)
    assert [features.row(item) for item in ids] == list(range(len(ids)))
    np.testing.assert_array_equal(features.table, table_of(len(ids)))


def test_values_that_are_not_finite_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("a,b\nnan,-inf\n")
    np.testing.assert_array_equal(read_features(tmp_path / "items.csv").table, [[np.nan, -np.inf]])


def test_column_numbers_of_pandas_are_a_header(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("0,1\n0,1\n5,6\n")
    np.testing.assert_array_equal(read_features(tmp_path / "items.csv").table, [[0, 1], [5, 6]])


# -- all formats -----------------------------------------------------------------------------------------

WORDS = st.text("ab7é ,\"'", min_size=1).map(str.strip).filter(lambda text: text and not text.isdecimal())


@st.composite
def labelled(draw: st.DrawFn) -> tuple[NDArray[np.float64], list[Any], list[Any]]:
    """Return a table, its ids and its labels. Text that looks like an integer is excluded: CSV reads it as one."""
    table = draw(TABLES)
    values = st.sampled_from([st.integers(-(2**63), 2**63 - 1), WORDS])
    size = {"min_size": len(table), "max_size": len(table)}
    ids = draw(st.lists(draw(values), unique=True, **size))
    labels = draw(st.lists(draw(values), **size))
    return table, ids, labels


def save_csv(path: Path, table: NDArray[np.float64], ids: list[Any], labels: list[Any]) -> None:
    lines = [["id", *(f"f{j}" for j in range(table.shape[1])), "label"]]
    lines += [
        [quoted(item), *map(repr, row), quoted(label)]
        for item, row, label in zip(ids, table.tolist(), labels, strict=True)
    ]
    path.write_text("\n".join(map(",".join, lines)))


@given(labelled())
def test_all_formats_round_trip(
    contents: tuple[NDArray[np.float64], list[Any], list[Any]],
) -> None:
    table, ids, labels = contents
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.savez(folder / "items.npz", X=table, y=np.array(labels), ids=np.array(ids))
        save_csv(folder / "items.csv", table, ids, labels)
        written(folder, label=labels, **{f"f{j}": column for j, column in enumerate(table.T)}, id=ids)
        (folder / "lists").mkdir()
        written(folder / "lists", key=ids, embedding=table.tolist(), label=labels)
        for path in ("items.npz", "items.csv", "items.parquet", "lists/items.parquet"):
            features = read_features(folder / path)
            np.testing.assert_array_equal(features.table, table, err_msg=path)
            assert features.ids == ids, path
            assert features.labels is not None
            assert features.labels.tolist() == labels, path


# -- Parquet ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float32()), pa.large_list(pa.float32()), pa.list_(pa.float32(), 2)], ids=str
)
def test_a_column_of_lists_keeps_its_type(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "items.parquet"
    vectors = table_of(10).astype(np.float32)
    pq.write_table(pa.table({"v": pa.array(vectors.tolist(), kind)}), path, row_group_size=3)
    table = read_features(path).table
    assert table.dtype == np.float32
    np.testing.assert_array_equal(table, vectors)


@pytest.mark.parametrize(
    ("columns", "dtype"),
    [
        ({"a": pa.array([1, 2], pa.int8()), "b": pa.array([3, 4], pa.int64())}, np.int64),
        ({"a": pa.array([1, 2], pa.float32()), "b": pa.array([3, 4], pa.float32())}, np.float32),
        ({"a": pa.array([1, 2], pa.int64()), "b": pa.array([3, 4], pa.float32())}, np.float64),
        ({"a": [Decimal("1"), Decimal("2")], "b": [Decimal("3"), Decimal("4")]}, np.float64),
    ],
    ids=["integers", "floats", "both", "decimals"],
)
def test_columns_of_numbers_get_a_common_type(columns: dict[str, Any], dtype: Any, tmp_path: Path) -> None:
    table = read_features(written(tmp_path, **columns)).table
    assert table.dtype == dtype
    np.testing.assert_array_equal(table, [[1, 3], [2, 4]])


def test_a_column_of_booleans_is_a_feature(tmp_path: Path) -> None:
    path = written(tmp_path, a=[0.5, 2.0], b=[True, False])
    np.testing.assert_array_equal(read_features(path).table, [[0.5, 1], [2, 0]])


# pyarrow writes string views to files since release 21.
TEXT_TYPES = [pa.string(), pa.large_string(), *([pa.string_view()] if PYARROW >= 21 else [])]


@pytest.mark.parametrize("kind", TEXT_TYPES, ids=str)
def test_all_text_types_are_accepted(kind: Any, tmp_path: Path) -> None:
    names = pa.array(["tea", "milk"], kind)
    features = read_features(written(tmp_path, id=names, a=[1, 2], label=names))
    assert features.labels is not None
    assert features.ids == features.labels.tolist() == ["tea", "milk"]


def test_categories_are_decoded(tmp_path: Path) -> None:
    names = pa.array(["tea", "milk", "tea"])
    features = read_features(written(tmp_path, a=[1, 2, 3], label=names.dictionary_encode()))
    assert features.labels is not None
    assert features.labels.tolist() == ["tea", "milk", "tea"]


def test_values_in_parquet_that_are_not_finite_are_accepted(tmp_path: Path) -> None:
    path = written(tmp_path, a=pa.array([np.nan, -np.inf]))
    np.testing.assert_array_equal(read_features(path).table, [[np.nan], [-np.inf]])


def test_labels_from_parquet_are_writable(tmp_path: Path) -> None:
    labels = read_features(written(tmp_path, a=[1.0, 2.0], label=[3, 4])).labels
    assert labels is not None
    labels[0] = 5
    assert labels.tolist() == [5, 4]


NOT_NUMBERS = "must contain numbers or lists of numbers (only 'id', 'key' and 'label' may be text). Got"
LISTS = pa.list_(pa.float64())
FIXED = pa.list_(pa.float64(), 2)
# Before release 26, pyarrow reads no null in a column of lists of one length. Its error has no row.
NULL_LIST = (
    ", column 'a': row 1 is null. Each item needs a list of"
    if PYARROW >= 26
    else ": Expected all lists to be of size=2 but index 2 had size=0."
)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": [1.0, 2.0], "b": ["x", "y"]}, f", column 'b' {NOT_NUMBERS} string instead."),
        ({"a": pa.array([0, 1], pa.timestamp("s"))}, f", column 'a' {NOT_NUMBERS} timestamp["),
        ({"a": [None, None]}, f", column 'a' {NOT_NUMBERS} null instead."),
        ({"a": [{"x": 1}, {"x": 2}]}, f", column 'a' {NOT_NUMBERS} struct<x: int64> instead."),
        ({"a": [1, 2], "b": [1.0, None]}, ", column 'b': row 1 is null. Each item needs a number."),
        ({"a": [1, 2], "id": ["x", None]}, ", column 'id': row 1 is null. Each item needs an id."),
        ({"a": [1, 2], "label": [None, 3]}, ", column 'label': row 0 is null. Each item needs a label."),
        ({"a": [1, 2], "key": [1.0, 2.0]}, ", column 'key' must contain integers or strings. Got double instead."),
        ({"a": [1, 2], "label": [b"x", b"y"]}, ", column 'label' must contain integers or strings. Got binary"),
        ({"a": [1, 2], "label": [[1], [2]]}, ", column 'label' must contain integers or strings. Got list<"),
        ({"a": [[1, 2], [3]]}, ", column 'a': all lists must have the same length. Row 0 has 2 entries and row 1"),
        ({"a": [[1, 2], None]}, ", column 'a': row 1 is null. Each item needs a list of numbers."),
        ({"a": pa.array([[1, 2], None], FIXED)}, NULL_LIST),
        ({"a": [[1, 2], [3, None]]}, ", column 'a': row 1 has a null at position 1. Each entry of a list must be"),
        ({"a": pa.array([[1, 2], [None, 3]], FIXED)}, ", column 'a': row 1 has a null at position 0."),
        ({"a": [["x"], ["y"]]}, ", column 'a' must contain lists of numbers. Got list<"),
        ({"a": [[[1]], [[2]]]}, ", column 'a' must contain lists of numbers. Got list<"),
        (
            {"a": [[1], [2]], "b": [3, 4], "id": [5, 6]},
            ", column 'a' contains lists, so it must be the only column",
        ),
        ({"b": [3, 4], "a": [[1], [2]]}, "features, besides 'id' or 'key' and 'label'. Got 'b' in addition."),
        ({"a": [[1], [2]], "b": [[3], [4]]}, ", column 'a' contains lists, so it must be the only column"),
        ({"a": [1, 2], "__index_level_0__": [0, 1]}, ", column '__index_level_0__' is the index of a pandas table"),
        ({"a": [1, 2], "id": ["x", "x"]}, " has the id 'x' twice, in rows 0 and 1"),
        ({"a": [1, 2], "label": [1.0, 0.5]}, " must be integers or strings. Got 0.5 in row 1 instead."),
        (
            {"a": pa.array([[], []], LISTS)},
            " must have shape (n_items, n_features) and not be empty. Got shape (2, 0) instead.",
        ),
        (
            {"a": pa.array([], LISTS)},
            " must have shape (n_items, n_features) and not be empty. Got shape (0, 0) instead.",
        ),
        (
            {"a": pa.array([], pa.int8())},
            " must have shape (n_items, n_features) and not be empty. Got shape (0, 1) instead.",
        ),
        (
            {"id": [1, 2], "label": [1, 2]},
            " must have shape (n_items, n_features) and not be empty. Got shape (0, 0) instead.",
        ),
    ],
)
def test_an_invalid_parquet_table_is_rejected(columns: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = written(tmp_path, **columns)
    with pytest.raises(InvalidInputError) as caught:
        read_features(path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


def test_duplicate_columns_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "items.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["label", "label"]), path)
    with pytest.raises(
        InvalidInputError, match=r"items\.parquet has 2 columns named 'label'\. Column names must be unique"
    ):
        read_features(path)


@pytest.mark.parametrize("kind", ["empty", "text", "cut", "damaged"])
def test_a_damaged_parquet_file_is_rejected(kind: str, tmp_path: Path) -> None:
    path = written(tmp_path, a=np.arange(1000.0))
    whole = path.read_bytes()
    damaged = whole[:4] + b"\xff" * 100 + whole[104:]  # damages the first page; the index is at the end
    path.write_bytes({"empty": b"", "text": b"a,b\n1,2\n", "cut": whole[:-20], "damaged": damaged}[kind])
    with pytest.raises(InvalidInputError, match=r"^Cannot read features from .*items\.parquet: "):
        read_features(path)


def test_without_pyarrow_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, a=[1.0])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        ImportError, match=r"^Parquet files need pyarrow\. Install it with: pip install 'oahu\[parquet\]'$"
    ):
        read_features(path)


# -- labels ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["y", "labels"])
@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (np.array([3, -1], np.int16), [3, -1]),
        (np.array([2**64 - 1, 0], np.uint64), [2**64 - 1, 0]),
        (np.array([True, False]), [1, 0]),
        (np.array([2.0, -0.0], np.float16), [2, 0]),
        (np.array(["7", " tea "]), ["7", " tea "]),
    ],
    ids=["integers", "unsigned", "booleans", "floats", "strings"],
)
def test_the_labels_of_an_npz_file_are_integers_or_strings(
    labels: NDArray[Any], expected: list[Any], name: str, tmp_path: Path
) -> None:
    arrays: dict[str, Any] = {"Z": table_of(2), name: labels}
    np.savez(tmp_path / "items.npz", **arrays)
    features = read_features(tmp_path / "items.npz")
    np.save(tmp_path / "labels.npy", labels)
    for read in (features.labels, read_labels(tmp_path / "labels.npy")):
        assert read is not None
        assert read.dtype.kind in "iuU"
        assert read.tolist() == expected
    np.testing.assert_array_equal(features.table, table_of(2))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            np.ones((2, 1), int),
            "must be integers or strings of shape (n_items,). Got int64 of shape (2, 1) instead.",
        ),
        (np.array(5), "must be integers or strings of shape (n_items,). Got int64 of shape () instead."),
        (np.array([b"a", b"b"]), "must be integers or strings of shape (n_items,). Got |S1 of shape (2,) instead."),
        (
            np.array([1j, 2]),
            "must be integers or strings of shape (n_items,). Got complex128 of shape (2,) instead.",
        ),
        (np.array([1, 2.5]), "must be integers or strings. Got 2.5 in row 1 instead."),
        (np.array([np.nan, 1]), "must be integers or strings. Got nan in row 0 instead."),
        (np.array([1, -np.inf]), "must be integers or strings. Got -inf in row 1 instead."),
        (np.array([1, 2.0**63]), "must be integers or strings. Got 9.223372036854776e+18 in row 1 instead."),
        (np.array(["a", " "]), "has a blank label in row 1."),
    ],
)
def test_an_invalid_array_of_labels_is_rejected(labels: NDArray[Any], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "items.npz", X=table_of(2), y=labels)
    np.save(tmp_path / "labels.npy", labels)
    for read, name in ((read_features, "items.npz"), (read_labels, "labels.npy")):
        with pytest.raises(InvalidInputError) as caught:
            read(tmp_path / name)
        assert name in str(caught.value)
        assert message in str(caught.value)


TEXTS = [
    (["3", "-1", "0"], [3, -1, 0]),
    ([" 3", "-1 ", "0"], [3, -1, 0]),
    (["3", "007", "0"], ["3", "007", "0"]),
    (["3", "1.0", "tea"], ["3", "1.0", "tea"]),
    (["1", "-1", "9223372036854775808"], ["1", "-1", "9223372036854775808"]),
    ([" green tea", "é", "x "], ["green tea", "é", "x"]),
]


@pytest.mark.parametrize(("texts", "expected"), TEXTS)
@pytest.mark.parametrize("name", ["labels.txt", "labels.csv", "header.csv", "items.csv", "items.tsv"])
def test_labels_in_text_are_integers_if_all_of_them_are(
    name: str, texts: list[str], expected: list[Any], tmp_path: Path
) -> None:
    path = tmp_path / name
    if name.startswith("items"):
        tab = "\t" if name == "items.tsv" else ","
        path.write_text("".join(f"{line}\n" for line in [f"a{tab} label", *(f"1{tab}{text}" for text in texts)]))
        features = read_features(path)
        labels = features.labels
        np.testing.assert_array_equal(features.table, [[1], [1], [1]])
    else:
        lines = [" label ", *texts] if name == "header.csv" else texts
        path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode() + b"\r\n \r\n")
        labels = read_labels(path)
    assert labels is not None
    assert labels.tolist() == expected


def test_a_label_in_text_may_have_commas_and_quotes(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text('label\ntench, "Tinca"\n')
    assert read_labels(tmp_path / "labels.txt").tolist() == ["label", 'tench, "Tinca"']
    (tmp_path / "labels.csv").write_text('label\n"tench, ""Tinca"""\n')
    assert read_labels(tmp_path / "labels.csv").tolist() == ['tench, "Tinca"']


@pytest.mark.parametrize(
    ("name", "text", "line", "message"),
    [
        ("labels.txt", "a\n\nb\n", 2, "a label must not be blank."),
        ("labels.csv", "label\na\n \nb\n", 3, "a label must not be blank."),
        ("labels.csv", 'a\n""\n', 2, "a label must not be blank."),
        ("labels.csv", "a\nb,c\n", 2, "the line must contain one label. Got 2 columns instead."),
        ("labels.csv", 'a\nb\n"c\n', 3, "unexpected end of data"),
        ("labels.txt", b"a\nb\n\xff\n", 3, "the line is not UTF-8 text ("),
        ("items.csv", "a,label\n1,x\n2, \n", 3, "a label must not be blank."),
        ("items.csv", "label,a,label\n1,2,3\n", 1, "there must be one column 'label'. Got 2 instead."),
    ],
)
def test_an_invalid_line_of_labels_is_rejected(
    name: str, text: str | bytes, line: int, message: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(StreamError) as caught:
        read_features(path) if name == "items.csv" else read_labels(path)
    assert str(caught.value).startswith(f"{path}, line {line}: {message}")


@pytest.mark.parametrize(("name", "text"), [("labels.txt", " \n\n"), ("labels.csv", "label\n")])
def test_a_file_without_labels_is_rejected(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidInputError, match=f"{name} contains no labels"):
        read_labels(tmp_path / name)


def test_an_array_without_labels_is_rejected(tmp_path: Path) -> None:
    np.save(tmp_path / "labels.npy", np.array([], int))
    with pytest.raises(InvalidInputError, match=r"labels\.npy contains no labels"):
        read_labels(tmp_path / "labels.npy")


def test_other_files_of_labels_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"must be in a \.npy, \.txt or \.csv file. Got y\.npz instead"):
        read_labels("y.npz")
    (tmp_path / "y.npy").write_bytes(pickle.dumps(PickleTrap()))
    with pytest.raises(InvalidInputError, match=r"^Cannot read labels from .*y\.npy: "):
        read_labels(tmp_path / "y.npy")


@pytest.mark.parametrize("suffix", [".npy", ".txt", ".csv"])
def test_a_missing_file_of_labels_raises_file_not_found(suffix: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_labels(tmp_path / f"labels{suffix}")


# -- ids -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("item", [2, "2", np.int8(2), np.uint64(2), np.str_("2")], ids=repr)
@pytest.mark.parametrize("rows", [None, {"tea": 0, 7: 1, 2: 2}], ids=["rows", "ids"])
def test_an_integer_is_the_same_id_in_every_type(item: Any, rows: Any) -> None:
    row = FeatureTable(table_of(3), rows).row(item)
    assert (row, type(row)) == (2, int)


@given(st.permutations(range(5)))
def test_ids_are_in_the_order_of_the_table(rows: list[int]) -> None:
    features = FeatureTable(table_of(5), dict(zip("abcde", rows, strict=True)))
    assert [features.row(key) for key in features.ids] == [0, 1, 2, 3, 4]


def test_without_ids_the_ids_are_the_row_numbers() -> None:
    assert FeatureTable(table_of(3)).ids == [0, 1, 2]


ROWS = "It has rows 0 to 99."
FEW = "It has the ids 'tea', 1, 0."
MANY = "It has 4 ids such as 0, 1, 2."


@pytest.mark.parametrize(
    ("rows", "item", "known"),
    [
        *((None, item, ROWS) for item in [100, -1, "100", "tea", "01", 1.0, True, None, [1], np.int64(-1)]),
        *(({"tea": 0, 1: 1, 0: 2}, item, FEW) for item in [2, "Tea", "01", 1.0, True, False, None, [1], b"tea"]),
        ({0: 0, 1: 1, 2: 2, 3: 3}, 4, MANY),
    ],
)
def test_an_unknown_id_is_rejected_with_examples_of_known_ids(rows: Any, item: Any, known: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        FeatureTable(table_of(100), rows).row(item)
    assert str(caught.value) == f"The feature table has no item {item!r}. {known}"


# -- invalid files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".parquet"])
def test_a_missing_file_raises_file_not_found(suffix: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_features(tmp_path / f"items{suffix}")


@pytest.mark.parametrize("name", ["items.jsonl", "items", "items.txt"])
def test_another_kind_of_file_is_rejected(name: str) -> None:
    with pytest.raises(
        InvalidInputError, match=rf"must be in a \.npy, \.npz, \.csv, \.tsv or \.parquet file\. Got {name} instead"
    ):
        read_features(name)


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
@pytest.mark.parametrize("kind", ["empty", "text", "pickle", "cut"])
def test_a_file_without_an_array_is_rejected(kind: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"items{suffix}"
    with path.open("wb") as file:
        np.save(file, table_of(100)) if suffix == ".npy" else np.savez(file, X=table_of(100))
    whole = path.read_bytes()
    contents = {"empty": b"", "text": b"a,b\n1,2\n", "pickle": pickle.dumps(PickleTrap()), "cut": whole[:-500]}
    path.write_bytes(contents.get(kind, whole))
    with pytest.raises(InvalidInputError, match=rf"^Cannot read features from .*items\{suffix}: "):
        read_features(path)


@pytest.mark.parametrize(
    ("name", "convert"), [("ids", "str"), ("keys", "str"), ("y", "str"), ("labels", "str"), ("X", "float")]
)
def test_an_object_array_in_an_archive_is_rejected_with_the_conversion(
    name: str, convert: str, tmp_path: Path
) -> None:
    arrays: dict[str, Any] = {"X": table_of(1), name: np.array([PickleTrap()], dtype=object)}
    np.savez(tmp_path / "items.npz", **arrays)
    with pytest.raises(InvalidInputError) as caught:
        read_features(tmp_path / "items.npz")
    assert f"The array {name!r} in {tmp_path / 'items.npz'} contains Python objects" in str(caught.value)
    assert f"Convert the array with {name}.astype({convert}) before saving." in str(caught.value)


def test_an_object_array_in_a_file_is_rejected_with_the_conversion(tmp_path: Path) -> None:
    np.save(tmp_path / "items.npy", np.array([[PickleTrap()]], dtype=object))
    with pytest.raises(InvalidInputError, match=r"items\.npy contains Python objects .* X\.astype\(float\)"):
        read_features(tmp_path / "items.npy")
    with pytest.raises(InvalidInputError, match=r"items\.npy contains Python objects .* labels\.astype\(str\)"):
        read_labels(tmp_path / "items.npy")


@pytest.mark.parametrize(
    ("save", "message"),
    [(np.savez, "Bad CRC-32"), (np.savez_compressed, "invalid block type")],
    ids=["stored", "compressed"],
)
def test_a_damaged_archive_is_rejected(save: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "items.npz"
    save(path, X=table_of(100))
    data = bytearray(path.read_bytes())
    # A header of 30 bytes is followed by two fields whose lengths are at 26 and 28.
    start = 30 + sum(struct.unpack_from("<HH", data, 26))
    data[start if save is np.savez_compressed else start + 800] = 0b111  # no block of deflate is of type 3
    path.write_bytes(data)
    with pytest.raises(InvalidInputError, match=message):
        read_features(path)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones(3), r"must have shape \(n_items, n_features\) and not be empty. Got shape \(3,\) instead"),
        (np.ones((3, 2, 1)), r"Got shape \(3, 2, 1\) instead"),
        (np.ones((3, 0)), r"Got shape \(3, 0\) instead"),
        (np.array([["a"]]), r"The features in .* must be real numbers. Got strings instead"),
        (np.ones((2, 2), complex), r"must be real numbers. Got Complex data not supported"),
        (np.ones((2, 2), [("a", float)]), r"must be real numbers. Got \[\('a', '<f8'\)\] instead"),
    ],
)
@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_an_invalid_array_is_rejected(array: NDArray[Any], message: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"items{suffix}"
    np.save(path, array) if suffix == ".npy" else np.savez(path, X=array)
    with pytest.raises(InvalidInputError, match=message):
        read_features(path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"a": table_of(2), "b": table_of(2)},
            "must contain an array 'X', or exactly one two-dimensional array. Got 2 instead",
        ),
        (
            {"a": np.ones(2), "ids": np.arange(2)},
            "must contain an array 'X', or exactly one two-dimensional array. Got 0 instead",
        ),
        ({"X": table_of(2), "ids": np.arange(3)}, "has 3 ids, but 2 items. Each item needs one id"),
        ({"X": table_of(2), "y": np.arange(3)}, "has 3 labels, but 2 items. Each item needs one label"),
        ({"y": np.arange(2)}, "must contain an array 'X', or exactly one two-dimensional array. Got 0 instead"),
        (
            {"X": table_of(2), "ids": np.arange(2.0)},
            "must be integers or strings of shape (n_items,). Got float64 of",
        ),
        ({"X": table_of(2), "ids": np.ones((2, 1), int)}, "Got int64 of shape (2, 1) instead"),
        ({"X": table_of(2), "ids": np.array(["a", ""])}, "has a blank id in row 1"),
        ({"X": table_of(3), "ids": np.array([5, 7, 5])}, "has the id 5 twice, in rows 0 and 2"),
        ({"X": table_of(2), "keys": np.array(["a", "a"])}, "has the id 'a' twice, in rows 0 and 1"),
    ],
)
def test_an_inconsistent_archive_is_rejected(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "items.npz", **arrays)
    with pytest.raises(InvalidInputError) as caught:
        read_features(tmp_path / "items.npz")
    assert message in str(caught.value)


def test_an_array_instead_of_an_archive_is_rejected(tmp_path: Path) -> None:
    with (tmp_path / "items.npz").open("wb") as file:
        np.save(file, table_of(2))
    with pytest.raises(InvalidInputError, match=r"items\.npz is not a \.npz archive"):
        read_features(tmp_path / "items.npz")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("1.5,2\n3,4\n", 1, "the first line must be a header with column names. Got numbers instead."),
        (",a\n0,1\n", 1, "each column needs a name. Column 1 has none."),
        ("id,a,b\nx,1,2\n\ny,1,two\n", 4, "column 'b' must contain numbers. Got 'two' instead."),
        ("a,id,b\n,x,2\n", 2, "column 'a' must contain numbers. Got '' instead."),
        ("a,b\n1,2\n1\n", 3, "the line must have 2 columns, like the header. Got 1."),
        ("a,b\n1,2,3\n", 2, "the line must have 2 columns, like the header. Got 3."),
        ('a,b\n1,"2', 2, "unexpected end of data"),
        (b"a,b\n1,2\n1,\xff\n", 3, "the line is not UTF-8 text ("),
    ],
)
def test_an_invalid_line_is_rejected(text: str | bytes, line: int, message: str, tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(StreamError) as caught:
        read_features(path)
    assert str(caught.value).startswith(f"{path}, line {line}: {message}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Got shape (0, 0) instead"),
        ("a,b\n", "Got shape (0, 2) instead"),
        ("id\nx\n", "Got shape (0, 0) instead"),
        ("id,a\n7,1\nx,2\n7,3\n", "has the id '7' twice, in rows 0 and 2"),
        ("id,a\n7,1\n ,2\n", "has a blank id in row 1"),
    ],
)
def test_an_invalid_csv_table_is_rejected(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text(text)
    with pytest.raises(InvalidInputError) as caught:
        read_features(tmp_path / "items.csv")
    assert message in str(caught.value)
