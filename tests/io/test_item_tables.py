"""Items from CSV and Parquet files with foreign columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from oahu.exceptions import InvalidInputError
from oahu.io.item_tables import read_item_table

CSV = """\
sku,title,price,emb_1,stock,emb_0,code
a-1,"Tea, green",3.5,1,7,2.5,007
a-2,Coffee,,-1e-3,,0,008
"""


def write(folder: Path, text: str, name: str = "items.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_csv_columns_are_mapped(tmp_path: Path) -> None:
    path = write(tmp_path, CSV)
    table = read_item_table(path, key="sku", vector="emb_*", payload=["title", "price", "stock", "code"])
    assert table.keys == ["a-1", "a-2"]
    assert table.vectors is not None
    assert table.vectors.tolist() == [[1, 2.5], [-0.001, 0]]  # in the order of the file
    assert table.payloads == [
        {"title": "Tea, green", "price": 3.5, "stock": 7, "code": "007"},
        {"title": "Coffee", "code": "008"},
    ]
    assert (table.texts, table.labels) == (None, None)


def test_texts_and_labels(tmp_path: Path) -> None:
    path = write(tmp_path, "id\ttext\tkind\n1\tgreen tea\ttea\n2\tred wine\t\n", "items.tsv")
    table = read_item_table(path, key="id", text="text", label="kind")
    assert (table.keys, table.texts, table.labels) == (["1", "2"], ["green tea", "red wine"], ["tea", None])
    assert (table.vectors, table.payloads) == (None, [{}, {}])


def test_csv_cells_with_lists(tmp_path: Path) -> None:
    path = write(tmp_path, 'id,v\nx,"[1, 2]"\ny,"[3, 4.5]"\n')
    table = read_item_table(path, key="id", vector="v")
    assert table.vectors is not None
    assert table.vectors.tolist() == [[1, 2], [3, 4.5]]


@pytest.mark.parametrize("lists", [True, False])
def test_parquet_columns_are_mapped(tmp_path: Path, lists: bool) -> None:
    rows = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    vectors: dict[str, Any] = {"emb": rows.tolist()} if lists else {f"emb_{at}": rows[:, at] for at in range(3)}
    columns = {
        "sku": [10, 11, 12, 13, 14],
        "title": [*"abcd", None],
        "price": [1.5, None, 2, 3, 4],
        **vectors,
    }
    parquet.write_table(pa.table(columns), tmp_path / "items.parquet")
    table = read_item_table(tmp_path / "items.parquet", key="sku", vector="emb*", payload=["title", "price"])
    assert table.keys == ["10", "11", "12", "13", "14"]
    assert table.vectors is not None
    assert (table.vectors.astype(np.float32) == rows).all()
    assert table.payloads[1] == {"title": "b"}
    assert table.payloads[4] == {"price": 4.0}


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (CSV, {"key": "id", "vector": "emb_*"}, r"no column 'id'. The columns are"),
        (CSV, {"key": "sku", "vector": "vec_*"}, r"no column 'vec_\*'"),
        (CSV, {"key": "sku", "vector": "emb_*", "payload": ["colour"]}, r"no column 'colour'"),
        (CSV, {"key": "sku"}, r"Exactly one of 'vector' and 'text'"),
        (CSV, {"key": "sku", "vector": "emb_*", "text": "title"}, r"Exactly one of 'vector' and 'text'"),
        (CSV, {"key": "sku", "vector": "title"}, r"column 'title', row 0: the cell must be a number"),
        (CSV, {"key": "sku", "vector": "price"}, r"column 'price', row 1: the cell must be a number"),
        (CSV, {"key": "sku", "text": "price"}, r"column 'price', row 1: the cell must not be empty"),
        ("a,b\nx,1\nx,2\n", {"key": "a", "vector": "b"}, r"the key 'x' occurs in rows 0 and 1"),
        ("a,b\nx\n", {"key": "a", "vector": "b"}, r"line 2: the line must have 2 columns"),
        ("a,a\nx,1\n", {"key": "a", "vector": "b"}, r"each column needs its own name"),
        ("a,b\nx,nan\n", {"key": "a", "vector": "b"}, r"vector in row 0 must be finite"),
        (
            'a,b\nx,"[1, 2]"\ny,[3]\n',
            {"key": "a", "vector": "b"},
            r"row 0 has 2 numbers and row 1 has 1|Row 0 has 2",
        ),
        ('a,b\nx,"[1, 2"\n', {"key": "a", "vector": "b"}, r"row 0: the cell must be a JSON list"),
        ("", {"key": "a", "vector": "b"}, r"no column 'a'"),
    ],
)
def test_invalid_files_are_rejected(tmp_path: Path, text: str, options: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        read_item_table(write(tmp_path, text), **options)
