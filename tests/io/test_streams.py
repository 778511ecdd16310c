"""Streams of constraints: round trips, line numbers and errors."""

from __future__ import annotations

import io
import os
import pickle
import queue
import struct
import sys
import tempfile
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oahu.constraints import Click, Pair, Triplet
from oahu.exceptions import InvalidInputError, StreamError
from oahu.io import streams
from oahu.io.streams import StreamLine, as_id, read_stream, write_stream

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(codec="utf-8"), min_size=1).filter(lambda text: not text.isspace())
# Ids that CSV preserves: it reads the text of an integer as that integer, and rejects line breaks.
CSV_TEXTS = TEXTS.filter(lambda text: not {"\n", "\r"} & set(text) and isinstance(as_id(text), str))


def constraints_of(items: st.SearchStrategy[Any], kind: type = object) -> st.SearchStrategy[Any]:
    kinds = [st.builds(Triplet, items, items, items), st.builds(Pair, items, items, st.booleans())]
    return st.one_of(kinds) if kind is object else kinds[[Triplet, Pair].index(kind)]


def features_of(width: int) -> st.SearchStrategy[list[float]]:
    return st.lists(NUMBERS, min_size=width, max_size=width)


@st.composite
def clicks_of(
    draw: st.DrawFn, items: st.SearchStrategy[Any], queries: st.SearchStrategy[Any] | None = None
) -> Click:
    """A click of distinct items. By default, the query is drawn from the items."""
    n = draw(st.integers(2, 7))
    query, *rest = draw(st.lists(items, min_size=n, max_size=n, unique_by=repr))
    if queries is not None:
        query = draw(queries)
    stops = sorted(draw(st.tuples(st.integers(0, len(rest)), st.integers(1, len(rest)))))
    parts = rest[: stops[0]], rest[stops[0] : stops[1]], rest[stops[1] :]
    return Click(query, *map(tuple, parts), weight=draw(st.floats(0, 1, exclude_min=True)))


WIDTHS = st.integers(1, 4)
ANY = st.lists(
    st.one_of(
        constraints_of(st.integers() | TEXTS),
        WIDTHS.flatmap(lambda width: constraints_of(features_of(width))),
        clicks_of(st.integers() | TEXTS),
        clicks_of(st.integers(), WIDTHS.flatmap(features_of)),
        WIDTHS.flatmap(lambda width: clicks_of(features_of(width))),
    )
)
CSV_ITEMS = CSV_TEXTS.filter(lambda text: "|" not in text)  # CSV_TEXTS that a list of ids preserves
ALIKE = st.one_of(
    [
        st.lists(constraints_of(items, kind))
        for kind in (Triplet, Pair)
        for items in (st.integers() | CSV_TEXTS, features_of(1), features_of(3))
    ]
    + [st.lists(clicks_of(st.integers() | CSV_ITEMS))]
)


def written(constraints: Any, format: Any) -> bytes:  # noqa: A002
    file = io.BytesIO()
    assert write_stream(file, constraints, format=format) == len(constraints)
    return file.getvalue()


def read(text: bytes | str, **options: Any) -> list[Pair | Triplet | Click]:
    data = text.encode() if isinstance(text, str) else text
    return [line.constraint for line in read_stream(io.BytesIO(data), **options)]


def bits(constraints: Any) -> list[Any]:
    """Return constraints with types, and with floats as bits so that -0.0 differs from 0.0."""

    def of(value: Any) -> Any:
        if isinstance(value, list):
            return [(type(number), struct.pack("d", number)) for number in value]
        if isinstance(value, tuple):
            return list(map(of, value))
        return type(value), value

    return [(type(constraint), *map(of, constraint)) for constraint in constraints]


# -- round trips -----------------------------------------------------------------------------------------


@given(constraints=ANY)
def test_json_lines_round_trip(constraints: list[Pair | Triplet | Click]) -> None:
    assert bits(read(written(constraints, "jsonl"), format="jsonl")) == bits(constraints)


@given(constraints=ALIKE, format=st.sampled_from(["csv", "tsv"]))
def test_csv_round_trip(constraints: list[Pair | Triplet | Click], format: str) -> None:  # noqa: A002
    assert bits(read(written(constraints, format), format=format)) == bits(constraints)


@given(constraints=ALIKE.filter(bool), suffix=st.sampled_from(["jsonl", "ndjson", "json", "csv", "tsv", "CSV"]))
def test_the_suffix_of_a_path_is_its_format(constraints: list[Pair | Triplet | Click], suffix: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"feedback.{suffix}"
        write_stream(path, constraints)
        assert path.read_bytes()[:1] == (b"{" if "j" in suffix else constraints[0]._fields[0][:1].encode())
        assert bits(line.constraint for line in read_stream(str(path))) == bits(constraints)


@given(constraints=ALIKE, format=st.sampled_from(["jsonl", "csv", "tsv"]))
def test_without_a_suffix_the_first_line_determines_the_format(
    constraints: list[Pair | Triplet | Click],
    format: Any,  # noqa: A002
) -> None:
    assert bits(read(b" \n" + written(constraints, format))) == bits(constraints)


@given(constraints=ALIKE, format=st.sampled_from(["jsonl", "csv"]))
def test_text_files_and_byte_files_are_equivalent(constraints: list[Pair | Triplet | Click], format: Any) -> None:  # noqa: A002
    file = io.StringIO()
    write_stream(file, constraints, format=format)
    assert file.getvalue().encode() == written(constraints, format)
    file.seek(0)
    assert list(read_stream(file)) == list(read_stream(io.BytesIO(written(constraints, format))))


@pytest.mark.parametrize("format", ["jsonl", "csv"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "longdouble", "int8", "uint64"])
def test_arrays_are_written_as_their_values(dtype: str, format: Any) -> None:  # noqa: A002
    a, b = np.array([[1, 3], [100, 7]]).astype(dtype) / np.array(1, dtype)
    expected = [[float(value) for value in item] for item in (a, b)]
    assert read(written([Pair(a, b, np.True_), Pair(a, tuple(b), np.int64(-1))], format)) == [
        Pair(*expected, True),
        Pair(*expected, False),
    ]


@pytest.mark.parametrize("format", ["jsonl", "csv"])
def test_numpy_ids_are_written_as_python_ids(format: Any) -> None:  # noqa: A002
    constraint = Triplet(np.int32(7), np.str_("tea"), np.uint8(9))
    assert bits(read(written([constraint], format))) == bits([Triplet(7, "tea", 9)])


@pytest.mark.parametrize("format", ["jsonl", "csv"])
def test_standard_output_keeps_the_order_with_prints(format: Any, tmp_path: Path, monkeypatch: Any) -> None:  # noqa: A002
    with (tmp_path / "out").open("w", encoding="latin-1") as out:
        monkeypatch.setattr(sys, "stdout", out)
        out.write("before\n")
        assert write_stream("-", [Pair("a", "é", True)], format=format) == 1
        assert (tmp_path / "out").read_bytes() == b"before\n" + written([Pair("a", "é", True)], format)


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'["\xc3\xa9", 2, 3]\n?'), encoding="latin-1"))
    lines = read_stream("-")
    assert next(lines).constraint == Triplet("é", 2, 3)
    with pytest.raises(StreamError, match=r"^standard input, line 2: invalid JSON"):
        next(lines)


# -- forms -----------------------------------------------------------------------------------------------

FORMS = [
    ('{"negative": 3, "anchor": 1, "positive": 2, "at": NOW, "same": 0}', Triplet(1, 2, 3)),
    ('{"first": "a", "second": "b", "same": true, "anchor": null}', Pair("a", "b", True)),
    ('{"first": "a", "second": "b", "same": -1}', Pair("a", "b", False)),
    ('{"first": "a", "second": "b", "same": 1}', Pair("a", "b", True)),
    ('["7", 7, "007"]', Triplet("7", 7, "007")),
    ("[1, 2, 3]", Triplet(1, 2, 3)),
    (" [1, 2, true] ", Pair(1, 2, True)),
    ("[[1], [2.5], false]", Pair([1.0], [2.5], False)),
    ("[[1, 2], [3, 4], [5, 6]]", Triplet([1.0, 2.0], [3.0, 4.0], [5.0, 6.0])),
    ("anchor,positive,negative\n7,007,tea", Triplet(7, "007", "tea")),
    ("anchor,positive,negative\n-7,-0,+7", Triplet(-7, "-0", "+7")),
    ("anchor,positive,negative\na, 7,1.0", Triplet("a", " 7", "1.0")),
    ('negative,at, anchor ,positive\n3,"a,b",1,"say ""2"""', Triplet(1, 'say "2"', 3)),
    ("second\tfirst\tsame\nb\ta,c\tTRUE", Pair("a,c", "b", True)),
    ("first,second,same\na,b, False", Pair("a", "b", False)),
    ("first,second,same\na,b,+1", Pair("a", "b", True)),
    ("first,second,same\na,b,1", Pair("a", "b", True)),
    ("first,second,same\na,b,-1", Pair("a", "b", False)),
    ("second.1,same,first.0,first.1,second.0\n4,1,1,2e0,3", Pair([1.0, 2.0], [3.0, 4.0], True)),
    ("anchor.0,positive.0,negative.0,note\n1,2,3,_", Triplet([1.0], [2.0], [3.0])),
]


@pytest.mark.parametrize(("text", "expected"), FORMS)
def test_every_form_is_read(text: str, expected: Pair | Triplet) -> None:
    assert bits(read(text.replace("NOW", '{"s": [1.5, null]}'))) == bits([expected])


def test_in_csv_the_text_of_an_integer_is_that_integer() -> None:
    assert read(written([Pair("7", "8", True)], "csv")) == [Pair(7, 8, True)]


@given(st.integers() | TEXTS)
def test_an_id_is_an_integer_if_python_writes_it_that_way(item: int | str) -> None:
    try:
        expected = int(item) if str(int(item)) == str(item) else item
    except ValueError:
        expected = item
    assert as_id(str(item)) == expected


def test_an_integer_with_too_many_digits_is_text() -> None:
    assert as_id("1" * 5000) == "1" * 5000


def test_an_empty_stream_has_no_lines() -> None:
    assert [read(text) for text in ("", "\n \r\n", "anchor,positive,negative\n")] == [[], [], []]


# -- lines -----------------------------------------------------------------------------------------------


@given(
    blanks=st.lists(st.integers(0, 3), min_size=1),
    end=st.sampled_from(["\n", "\r\n"]),
    bom=st.booleans(),
    header=st.booleans(),
    last_ends=st.booleans(),
)
def test_lines_have_their_numbers_and_their_bytes(
    blanks: list[int], end: str, bom: bool, header: bool, last_ends: bool
) -> None:
    texts = [f"é{i},2,3" if header else f'["é{i}", 2, 3]' for i in range(len(blanks))]
    physical = ["anchor,positive,negative"] if header else []
    expected = []
    for i, (text, blank) in enumerate(zip(texts, blanks, strict=True)):
        physical += [" " * k for k in range(blank)] + [text]
        expected.append(StreamLine(len(physical), Triplet(f"é{i}", 2, 3), text.encode()))
    data = b"\xef\xbb\xbf" * bom + end.join(physical).encode() + end.encode() * last_ends
    assert list(read_stream(io.BytesIO(data))) == expected


@given(blanks=st.lists(st.integers(0, 2), max_size=5), bom=st.booleans(), header=st.booleans())
def test_an_error_has_the_number_of_its_line(blanks: list[int], bom: bool, header: bool) -> None:
    good = b"1,2,3\n" if header else b"[1, 2, 3]\n"
    data = b"\xef\xbb\xbf" * bom + b"anchor,positive,negative\n" * header
    data += b"".join(b"\n" * blank + good for blank in blanks)
    with pytest.raises(StreamError) as caught:
        list(read_stream(io.BytesIO(data + b"1,2"), format="csv" if header else "jsonl"))
    assert caught.value.line == data.count(b"\n") + 1


@pytest.mark.parametrize("kind", ["bytes", "text", "-"])
def test_a_line_is_yielded_as_soon_as_it_has_arrived(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    arrived: queue.Queue[StreamLine] = queue.Queue()
    with os.fdopen(reading, "r" if kind == "text" else "rb") as file:
        if kind == "-":
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))

        def listen() -> None:
            for line in read_stream("-" if kind == "-" else file):
                arrived.put(line)

        listener = threading.Thread(target=listen)
        listener.start()
        try:
            for number in (1, 2, 3):  # the next line is sent only after this one was yielded
                os.write(writing, b"[1, 2, %d]\n" % number)
                assert arrived.get(timeout=30).constraint == Triplet(1, 2, number)
        finally:
            os.close(writing)
            listener.join()


class Generated:
    """A file of n generated lines."""

    def __init__(self, line: bytes, n: int) -> None:
        self.line, self.left = line, n

    def readline(self, size: int = -1) -> bytes:
        self.left -= 1
        return self.line % self.left if self.left >= 0 else b""


def test_memory_does_not_grow_with_the_stream() -> None:
    # Tracing is slow. A list of 50,000 lines would already be twenty times the bound.
    stream = read_stream(Generated(b'{"anchor": %d, "positive": "a", "negative": "b"}\n', 50_000))  # type: ignore[arg-type]
    next(stream)
    tracemalloc.start()
    try:
        count = sum(1 for _ in stream)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 49_999
    assert peak < 200 * 2**10


@pytest.mark.parametrize("kind", [io.BytesIO, lambda data: io.StringIO(data.decode())], ids=["bytes", "text"])
def test_a_line_that_is_too_long_is_rejected_without_reading_it_whole(kind: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(streams, "_MAX_LINE", 100)
    file = kind(b'["a", "b", "c"]'.ljust(99) + b'\n["' + b"a" * 1000 + b'", 2, 3]\n')
    lines = read_stream(file)
    assert next(lines).number == 1
    with pytest.raises(StreamError, match="line 2: the line is longer than 100 bytes"):
        next(lines)
    assert file.tell() == 201


def test_a_path_is_closed_when_reading_stops_early(tmp_path: Path) -> None:
    path = tmp_path / "feedback"
    path.write_text("[1, 2, 3]\n[4, 5, 6]\n")
    before = len(os.listdir("/dev/fd"))  # noqa: PTH208
    lines: Any = read_stream(path)
    next(lines)
    assert len(os.listdir("/dev/fd")) == before + 1  # noqa: PTH208
    lines.close()
    assert len(os.listdir("/dev/fd")) == before  # noqa: PTH208


def test_an_open_file_is_left_open() -> None:
    file = io.BytesIO(b"[1, 2, 3]\n")
    assert len(list(read_stream(file))) == 1
    write_stream(file, [Pair(1, 2, True)])
    assert not file.closed


# -- invalid streams -------------------------------------------------------------------------------------

NEEDED = (
    "'anchor', 'positive' and 'negative' for a triplet, 'first', 'second' and 'same' for a pair, or 'query' and "
    "'positives' or 'negatives' for a click"
)
ID = "an id (an integer or a string that is not blank)"
LIST = (
    "a constraint must be an object, or a list [anchor, positive, negative] or [first, second, true or false]. Got "
)
REJECTED_JSON = [
    ('{"anchor": 1', "invalid JSON (Expecting ',' delimiter, column 13). Each line must contain one constraint."),
    ("[1, 2, 3] [4, 5, 6]", "invalid JSON (Extra data, column 11). Each line must contain one constraint."),
    ("[[NaN], [1], [2]]", "invalid JSON (NaN is not a finite number)."),
    ("[[1], [-Infinity], [2]]", "invalid JSON (-Infinity is not a finite number)."),
    ("[" * 100_000, "invalid JSON (maximum recursion depth exceeded"),
    ("[" + "1" * 5000 + ", 2, 3]", "invalid JSON (Exceeds the limit"),
    (
        '{"anchor": 1, "postive": 2, "negative": 3}',
        f"an object must have the fields {NEEDED}. Got ['anchor', 'postive', 'negative'] instead.",
    ),
    ('{"first": 1, "second": 2}', f"an object must have the fields {NEEDED}. Got ['first', 'second'] instead."),
    ("{}", f"an object must have the fields {NEEDED}. Got [] instead."),
    ("[1, 2]", f"{LIST}[1, 2] instead."),
    ("[1, 2, 3, 4]", f"{LIST}[1, 2, 3, 4] instead."),
    ('"tea"', f"{LIST}'tea' instead."),
    ("[1.0, 2, 3]", f"'anchor' must be {ID} or a list of numbers. Got 1.0 instead."),
    ("[null, 2, 3]", f"'anchor' must be {ID} or a list of numbers. Got None instead."),
    ('["", 2, true]', f"'first' must be {ID} or a list of numbers. Got '' instead."),
    ('[1, " ", 3]', f"'positive' must be {ID}, like the first item. Got ' ' instead."),
    ("[1, true, 3]", f"'positive' must be {ID}, like the first item. Got True instead."),
    ("[1, 2, [3]]", f"'negative' must be {ID}, like the first item. Got [3] instead."),
    ("[[1], [2], 3]", "'negative' must be a list of numbers, like the first item. Got 3 instead."),
    ("[[1], 2, true]", "'second' must be a list of numbers, like the first item. Got 2 instead."),
    ("[[1, 2], [3], [4, 5]]", "'positive' must have 2 features, like the first item. Got 1 instead."),
    ("[[], [], []]", "'anchor' must have at least 1 feature. Got 0 instead."),
    ("[[1, 2], [3, 4], [5, true]]", "feature 1 of 'negative' must be a finite number. Got True instead."),
    ('[[1], ["2"], false]', "feature 0 of 'second' must be a finite number. Got '2' instead."),
    ("[[1], [[2]], false]", "feature 0 of 'second' must be a finite number. Got [2] instead."),
    ("[[1, 1e999], [2, 3], false]", "feature 1 of 'first' must be a finite number. Got inf instead."),
    (
        f"[[1, 1{'0' * 309}], [2, 3], false]",
        f"feature 1 of 'first' must be a finite number. Got 1{'0' * 37}...{'0' * 39} instead.",
    ),
    (
        '{"first": 1, "second": 2, "same": "maybe"}',
        "'same' must be true or false, or 1 or -1. Got 'maybe' instead.",
    ),
    (
        '{"first": 1, "second": 2, "same": 0}',
        "'same' must be true or false, or 1 or -1. Got 0 instead. The value 0 is ambiguous. Write -1 or false.",
    ),
    ('{"query": 1}', f"an object must have the fields {NEEDED}. Got ['query'] instead."),
    ('{"query": 1, "shown": [2]}', f"an object must have the fields {NEEDED}. Got ['query', 'shown'] instead."),
    ('{"query": 1, "positives": []}', "the click must have at least one positive or one negative. Got neither."),
    ('{"query": 1, "positives": 2}', "'positives' must be a list of items. Got 2 instead."),
    ('{"query": 1, "positives": "ab"}', "'positives' must be a list of items. Got 'ab' instead."),
    ('{"query": 1, "positives": [2], "shown": null}', "'shown' must be a list of items. Got None instead."),
    ('{"query": true, "positives": [2]}', f"'query' must be {ID} or a list of numbers. Got True instead."),
    ('{"query": 1, "negatives": [2, ""]}', f"'2nd negative' must be {ID}, like the first item. Got '' instead."),
    ('{"query": [1], "positives": [[2]], "negatives": [3]}', "'1st negative' must be a list of numbers, like the"),
    (
        '{"query": [1], "positives": [[2, 3]]}',
        "'1st positive' must have 1 features, like the first item. Got 2 inst",
    ),
    ('{"query": [], "positives": [1]}', "'query' must have at least 1 feature. Got 0 instead."),
    ('{"query": [1, "2"], "positives": [1]}', "feature 1 of 'query' must be a finite number. Got '2' instead."),
    ('{"query": [1], "positives": [3], "negatives": [[2]]}', f"'1st negative' must be {ID}, like the first item."),
    (
        '{"query": 1, "positives": [2], "negatives": [1]}',
        "the click: the item 1 occurs twice, as the query and as the 1st negative. An item must not occur twice in",
    ),
    (
        '{"query": 1, "positives": [2], "weight": 2}',
        "the click: 'weight' must be a number in (0, 1]. Got 2 instead.",
    ),
    (
        '{"query": 1, "positives": [2], "weight": null}',
        "the click: 'weight' must be a number in (0, 1]. Got None instead.",
    ),
    ('{"first": 1, "second": 2, "same": 2}', "'same' must be true or false, or 1 or -1. Got 2 instead."),
    ('{"first": 1, "second": 2, "same": null}', "'same' must be true or false, or 1 or -1. Got None instead."),
    ('{"first": 1, "second": 2, "same": [1]}', "'same' must be true or false, or 1 or -1. Got [1] instead."),
    (b'["\xff", 2, 3]', "the line is not UTF-8 text (0xff at byte 3)."),
]
HEADER = (
    f"the first line must be a header with the columns {NEEDED}. If items are given by feature values, the "
    "columns of an item are 'anchor.0', 'anchor.1' and so on. Got "
)
QUOTES = ". A field must not contain a line break. Use JSON Lines instead."
REJECTED_CSV = [
    ("1,2,3", 1, f"{HEADER}['1', '2', '3'] instead."),
    ("\xa0", 1, f"{HEADER}[''] instead."),
    ("anchor,positive\n1,2", 1, f"{HEADER}['anchor', 'positive'] instead."),
    ("first,second\n1,2", 1, f"{HEADER}['first', 'second'] instead."),
    ("first.0,second.0\n1,2", 1, f"{HEADER}['first.0', 'second.0'] instead."),
    (
        "anchor,anchor,positive,negative",
        1,
        "the header must contain the column 'anchor' once. Got 2 such columns instead.",
    ),
    ("first,second,same,same", 1, "the header must contain the column 'same' once. Got 2 such columns instead."),
    (
        "anchor.0,anchor.1,positive.0,negative.0",
        1,
        "the header must contain the column 'positive.1' once. Got 0 such columns instead.",
    ),
    (
        "first.0,first.2,second.0,second.1,same",
        1,
        "the header must contain the column 'first.1' once. Got 0 such columns instead.",
    ),
    ("anchor,positive,negative\n1,2", 2, "the line must have 3 columns, like the header. Got 2."),
    ("anchor,positive,negative\n1,2,3,4", 2, "the line must have 3 columns, like the header. Got 4."),
    ("anchor,positive,negative\n1,,3", 2, f"'positive' must be {ID}, like the first item. Got '' instead."),
    ('anchor,positive,negative\n1,2,"a\nb"', 2, f"invalid CSV (unexpected end of data){QUOTES}"),
    ('anchor,positive,negative\n1,2,"a"b', 2, f"invalid CSV (',' expected after '\"'){QUOTES}"),
    ("anchor,positive,negative\r1,2,3", 1, "invalid CSV (new-line character seen in unquoted field"),
    ("first,second,same\n1,2,maybe", 2, "'same' must be true or false, or 1 or -1. Got 'maybe' instead."),
    (
        "first,second,same\n1,2,0",
        2,
        "'same' must be true or false, or 1 or -1. Got 0 instead. The value 0 is ambiguous. Write -1 or false.",
    ),
    ("first.0,second.0,same\n1,x,true", 2, "'second.0' must be a number. Got 'x' instead."),
    ("first.0,second.0,same\n,2,true", 2, "'first.0' must be a number. Got '' instead."),
    ("first.0,second.0,same\n1,nan,true", 2, "feature 0 of 'second' must be a finite number. Got nan instead."),
    (
        "query,positives,positives",
        1,
        "the header must contain the column 'positives' once. Got 2 such columns inst",
    ),
    ("query,shown\n1,2", 1, f"{HEADER}['query', 'shown'] instead."),
    ("query,positives\n1,", 2, "the click must have at least one positive or one negative. Got neither."),
    ("query,positives\n,1", 2, f"'query' must be {ID} or a list of numbers. Got '' instead."),
    ("query,positives\n1,a||b", 2, f"'2nd positive' must be {ID}, like the first item. Got '' instead."),
    ("query,positives\n1,|", 2, f"'1st positive' must be {ID}, like the first item. Got '' instead."),
    ("query,positives,weight\n1,2,heavy", 2, "'weight' must be a number. Got 'heavy' instead."),
    ("query,positives,weight\n1,2,nan", 2, "the click: 'weight' must be a number in (0, 1]. Got nan instead."),
    ("query,positives\n1,2 3 2", 2, "the click: the item 2 occurs twice, as the 1st positive and as the 3rd"),
    (b"anchor,positive,negative\n1,2,\xe9", 2, "the line is not UTF-8 text (0xe9 at byte 5)."),
]


@pytest.mark.parametrize(("text", "message"), REJECTED_JSON, ids=range(len(REJECTED_JSON)))
def test_invalid_json_is_rejected(text: str | bytes, message: str) -> None:
    with pytest.raises(StreamError) as caught:
        read(text, format="jsonl")
    assert str(caught.value).startswith(f"the stream, line 1: {message}")


@pytest.mark.parametrize(("text", "line", "message"), REJECTED_CSV, ids=range(len(REJECTED_CSV)))
def test_invalid_csv_is_rejected(text: str | bytes, line: int, message: str) -> None:
    with pytest.raises(StreamError) as caught:
        read(text)
    assert str(caught.value).startswith(f"the stream, line {line}: {message}")


def test_a_text_file_of_another_encoding_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "feedback.txt"
    path.write_bytes(b'["\xff", 2, 3]\n')
    with (
        path.open(encoding="utf-8") as file,
        pytest.raises(StreamError, match=r"feedback\.txt, line 1: the line is not UTF-8"),
    ):
        next(read_stream(file))


def test_an_error_names_its_file_and_line_and_can_be_pickled(tmp_path: Path) -> None:
    path = tmp_path / "feedback.jsonl"
    path.write_text("\n[1, 2]\n")
    with pytest.raises(StreamError) as caught:
        list(read_stream(path))
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert (type(error), error.source, error.line) == (StreamError, str(path), 2)
        assert str(error) == f"{path}, line 2: {LIST}[1, 2] instead."


@pytest.mark.parametrize("call", [read_stream, lambda target, **options: write_stream(target, [], **options)])
def test_invalid_formats_and_files_are_rejected_immediately(call: Any) -> None:
    with pytest.raises(
        InvalidInputError, match=r"The 'format' parameter must be 'jsonl', 'csv' or 'tsv'. Got 'xml' instead"
    ):
        call("feedback.jsonl", format="xml")
    with pytest.raises(InvalidInputError, match=r"A stream must be a path, '-' or an open file. Got 7 instead"):
        call(7)


REJECTED_WRITES: list[tuple[Any, Any, str]] = [
    ("jsonl", (1, 2, 3), "the constraint must be a Pair, a Triplet or a Click. Got (1, 2, 3) instead."),
    ("jsonl", Pair(1, 2, None), "'same' must be true or false, or 1 or -1. Got None instead."),
    ("jsonl", Pair(1, 2, np.array([1, 0])), "'same' must be true or false, or 1 or -1. Got [1, 0] instead."),  # type: ignore[arg-type]
    ("jsonl", Pair(1.5, 2, True), f"'first' must be {ID} or a list of numbers. Got 1.5 instead."),
    (
        "jsonl",
        Pair(np.eye(2), np.eye(2), True),
        "feature 0 of 'first' must be a finite number. Got [1.0, 0.0] instead.",
    ),
    ("jsonl", Triplet([1.0], [np.nan], [2.0]), "feature 0 of 'positive' must be a finite number. Got nan instead."),
    ("jsonl", Triplet([1.0], [True], [2.0]), "feature 0 of 'positive' must be a finite number. Got True instead."),
    (
        "csv",
        Pair("a\nb", 2, True),
        "an id in CSV must not contain a line break. Got 'a\\nb' instead. Use JSON Lines.",
    ),
    (
        "csv",
        Pair("a\rb", 2, True),
        "an id in CSV must not contain a line break. Got 'a\\rb' instead. Use JSON Lines.",
    ),
    ("csv", Pair("\ud800", 2, True), "'utf-8' codec can't encode"),
    (
        "csv",
        Triplet(1, 2, 3),
        "all constraints in a CSV file must have the same columns, ['first', 'second', 'same']. "
        "Got ['anchor', 'positive', 'negative'] instead. Use JSON Lines.",
    ),
    (
        "csv",
        Pair([1.0], [2.0], True),
        "all constraints in a CSV file must have the same columns, ['first', 'second', 'same']. "
        "Got ['first.0', 'second.0', 'same'] instead. Use JSON Lines.",
    ),
    ("jsonl", Click(1), "the click must have at least one positive or one negative. Got neither."),
    (
        "jsonl",
        Click(1, [2], [2]),
        "the click: the item 2 occurs twice, as the 1st positive and as the 1st negative.",
    ),
    ("jsonl", Click(1, [2.5]), f"'1st positive' must be {ID}, like the first item. Got 2.5 instead."),
    ("jsonl", Click(1, {2}), "'positives' must be a list of items. Got {2} instead."),  # type: ignore[arg-type]
    (
        "csv",
        Click(1, ["a|b"]),
        "an id in 'positives' of a click in CSV must not contain '|'. Got 'a|b' instead. Use",
    ),
    ("csv", Click(1, [2], ["a\nb"]), "an id in CSV must not contain a line break."),
    ("csv", Click([0.5], [[1.0]]), "a click with feature values cannot be written to CSV. Use JSON Lines."),
    ("csv", Click([0.5], [1]), "a click with feature values cannot be written to CSV. Use JSON Lines."),
    (
        "csv",
        Click(1, [2]),
        "all constraints in a CSV file must have the same columns, ['first', 'second', 'same'].",
    ),
]


@pytest.mark.parametrize(("format", "wrong", "message"), REJECTED_WRITES, ids=range(len(REJECTED_WRITES)))
def test_a_constraint_is_validated_before_it_is_written(format: Any, wrong: Any, message: str) -> None:  # noqa: A002
    good = [Pair(1, 2, True), Pair("a", "b", False)]
    file = io.BytesIO()
    with pytest.raises(InvalidInputError) as caught:
        write_stream(file, [*good, wrong], format=format)
    assert str(caught.value).startswith(f"Constraint 3 (counted from 1): {message}")
    assert file.getvalue() == written(good, format)


def test_a_click_in_json_lines() -> None:
    line = '{"query": "q1", "positives": ["a"], "negatives": ["b", "c"], "shown": ["d"], "weight": 0.5}\n'
    click = Click("q1", ("a",), ("b", "c"), ("d",), 0.5)
    assert read(line) == [click]
    assert written([click], "jsonl").decode() == line
    assert written([Click(1, np.array([2, 3]))], "jsonl") == b'{"query": 1, "positives": [2, 3]}\n'
    assert read('{"query": [1, 2], "negatives": [3]}') == [Click([1.0, 2.0], (), (3,))]


def test_an_object_with_the_fields_of_a_triplet_or_a_pair_is_not_a_click() -> None:
    click = '"query": 1, "positives": [2]'
    assert read(f'{{{click}, "anchor": 3, "positive": 4, "negative": 5}}') == [Triplet(3, 4, 5)]
    assert read(f'{{{click}, "first": 3, "second": 4, "same": true}}') == [Pair(3, 4, True)]
    assert read("query,positives,anchor,positive,negative\n1,2,3,4,5") == [Triplet(3, 4, 5)]
    assert read("query,positives,first,second,same\n1,2,3,4,true") == [Pair(3, 4, True)]


@pytest.mark.parametrize(
    ("cell", "ids"),
    [
        ("4 8", (4, 8)),
        (" 4  8 ", (4, 8)),
        ("tea", ("tea",)),
        ("green tea|", ("green tea",)),
        ("green tea|milk", ("green tea", "milk")),
        (" tea|7", (" tea", 7)),
        ("a\tb", ("a\tb",)),
    ],
)
def test_a_cell_of_a_click_has_several_ids(cell: str, ids: tuple[Any, ...]) -> None:
    assert read(f"query,positives\nq,{cell}", format="csv") == [Click("q", ids)]


def test_clicks_in_csv_may_leave_out_columns_and_cells() -> None:
    assert read("weight,negatives,query\n0.5,1 2,q\n,3,q") == [
        Click("q", (), (1, 2), (), 0.5),
        Click("q", (), (3,)),
    ]
    assert written([Click("q", [1, "a b"], [3])], "csv").decode() == (
        "query,positives,negatives,shown,weight\nq,1|a b,3,,1.0\n"
    )


def test_constraints_are_written_one_by_one() -> None:
    file = io.BytesIO()

    def coming() -> Iterator[Pair]:
        for number in range(3):
            assert file.getvalue().count(b"\n") == number
            yield Pair(number, 2, True)

    assert write_stream(file, coming()) == 3
