"""Tests of report tables in Markdown, LaTeX and HTML."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from math import nan

from hypothesis import given
from hypothesis import strategies as st

from oahu.evaluation.report.report_table import (
    ReportTable,
    TableCell,
    format_number,
    format_p_value,
    format_summary,
)
from oahu.evaluation.statistics import Summary

DASH = format_number(nan)


class Tags(HTMLParser):
    """Tracks open tags and the text of cells."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")
            assert tag == "td" or dict(attrs)["scope"] in ("row", "col")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self.open):
            self.cells[-1] += data


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Z"]), min_size=1, max_size=12)
SMALL = ReportTable(
    "A <title>",
    ("a|b", "n"),
    ((TableCell("x_1"), TableCell("1.5", bold=True)), (TableCell("y"), TableCell("2.0", mark="•"))),
    ("50%",),
)


@given(TEXT, TEXT, TEXT)
def test_html_contains_the_texts(title: str, name: str, word: str) -> None:
    tags = Tags(ReportTable(title, (name,), ((TableCell(word),),), (word,)).to_html())
    assert tags.open == []
    assert tags.cells == [name, word]


@given(TEXT)
def test_latex_is_balanced_and_escaped(word: str) -> None:
    text = ReportTable(word, (word, word), ((TableCell(word), TableCell(word, bold=True)),), (word,)).to_latex()
    bare = re.sub(r"\\[&%$#_{}]", "", text)
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    assert text.count(r"\begin{") == text.count(r"\end{")
    assert not set("%#~^_") & set(bare)
    assert bare.count(" & ") == 2


@given(TEXT)
def test_markdown_preserves_the_columns(word: str) -> None:
    lines = ReportTable("t", (word, "b"), ((TableCell(word), TableCell(word)),)).to_markdown().splitlines()
    rows = [line for line in lines if line.startswith("| ")]
    assert [len(re.findall(r"(?<!\\)\|", re.sub(r"\\\\", "", row))) for row in rows] == [3, 3, 3]


def test_markdown_example() -> None:
    assert SMALL.to_markdown() == (
        "### A &lt;title&gt;\n\n| a\\|b | n |\n| --- | ---: |\n| x\\_1 | **1.5** |\n| y | 2.0 • |\n\n50%\n"
    )


def test_latex_example() -> None:
    lines = SMALL.to_latex().splitlines()
    assert lines[2] == r"\caption{A \textless{}title\textgreater{}}"
    assert lines[3].endswith(r"\begin{tabular}{lr}")
    assert lines[5:9] == [r"a\textbar{}b & n \\", r"\midrule", r"x\_1 & \textbf{1.5} \\", r"y & 2.0 $\bullet$ \\"]
    assert lines[11] == r"\par\smallskip{\footnotesize 50\%\par}"


def test_table_without_rows() -> None:
    empty = ReportTable("none", ("a", "b"), ())
    assert Tags(empty.to_html()).cells == ["a", "b"]
    assert r"\begin{tabular}{ll}" in empty.to_latex()


def test_number_format() -> None:
    assert format_summary(Summary(0.12345, 0.0067, 10)) == "0.123 ± 0.007"
    assert format_summary(Summary(0.5, nan, 1)) == "0.500"
    assert format_summary(Summary(nan, nan, 0)) == DASH
    assert [format_p_value(p) for p in (0.0004, 0.0123, nan)] == ["<0.001", "0.012", DASH]
