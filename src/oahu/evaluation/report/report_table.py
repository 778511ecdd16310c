"""Table that can be written as Markdown, LaTeX or HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from math import isfinite, isnan
from typing import Final

from oahu.evaluation.report.experiments import format_setting
from oahu.evaluation.statistics import Summary

__all__ = ["EMPTY", "ReportTable", "TableCell", "format_number", "format_p_value", "format_summary"]

EMPTY: Final = format_setting(None)
_LATEX: Final = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "[": "{[}",
    "]": "{]}",
    "±": r"$\pm$",
    "•": r"$\bullet$",
    "∘": r"$\circ$",
    "√": r"$\surd$",
    "τ": r"$\tau$",
    "·": r"$\cdot$",
    "–": "--",  # noqa: RUF001
    "…": r"\dots{}",
}
_FIT_TO_TEXT: Final = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{"


@dataclass(frozen=True)
class TableCell:
    """One cell of a table. ``mark`` is the mark of a significance test. It is shown after the text."""

    text: str
    bold: bool = False
    mark: str = ""

    @property
    def is_number(self) -> bool:
        return bool(re.match(r"[<-]?\d", self.text)) or self.text in (EMPTY, "failed", "not run")


@dataclass(frozen=True)
class ReportTable:
    """Table with a title, a header, rows of cells, and notes below the rows.

    Attributes
    ----------
    notes : tuple of str
        Notes below the table.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def numeric(self) -> tuple[bool, ...]:
        """One value per column: True if the column contains only numbers. Such columns are right-aligned."""
        columns = zip(*self.rows, strict=True)
        return tuple(all(cell.is_number for cell in column) for column in columns) or (False,) * len(self.header)

    def to_markdown(self) -> str:
        """Return a heading and a table in GitHub Markdown."""
        rule = ["---:" if number else "---" for number in self.numeric]
        lines = [[_markdown(name) for name in self.header], rule]
        for row in self.rows:
            lines.append([_in_markdown(cell) for cell in row])
        body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return "\n\n".join([f"### {_markdown(self.title)}", body, *map(_markdown, self.notes)]) + "\n"

    def to_latex(self) -> str:
        """Return a LaTeX table, at most as wide as the text. It needs the packages booktabs and graphicx."""
        kinds = "".join("r" if number else "l" for number in self.numeric)
        header = " & ".join(map(_latex, self.header))
        rows = [" & ".join(_in_latex(cell) for cell in row) + r" \\" for row in self.rows]
        lines = [r"\begin{table}[htbp]", r"\centering\small", rf"\caption{{{_latex(self.title)}}}"]
        lines += [rf"{_FIT_TO_TEXT}\begin{{tabular}}{{{kinds}}}", r"\toprule", rf"{header} \\", r"\midrule", *rows]
        lines += [r"\bottomrule", r"\end{tabular}}"]
        lines += [rf"\par\smallskip{{\footnotesize {_latex(note)}\par}}" for note in self.notes]
        return "\n".join([*lines, r"\end{table}", ""])

    def to_html(self) -> str:
        """Return an HTML table in a scrollable box, with its notes below."""
        names = [f'<th scope="col"{_align(right)}>{escape(name)}</th>' for name, right in self._columns()]
        rows = "".join(f"<tr>{''.join(self._html_cells(row))}</tr>\n" for row in self.rows)
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        return (
            f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(self.title)}">\n<table>\n'
            f"<caption>{escape(self.title)}</caption>\n<thead><tr>{''.join(names)}</tr></thead>\n"
            f"<tbody>\n{rows}</tbody>\n</table>\n</div>\n" + (f'<ul class="notes">{notes}</ul>\n' if notes else "")
        )

    def _columns(self) -> Iterable[tuple[str, bool]]:
        return zip(self.header, self.numeric, strict=True)

    def _html_cells(self, row: Sequence[TableCell]) -> Iterable[str]:
        marked = [any(cell.mark for cell in column) for column in zip(*self.rows, strict=True)]
        for column, (cell, right) in enumerate(zip(row, self.numeric, strict=True)):
            text = f"<strong>{escape(cell.text)}</strong>" if cell.bold else escape(cell.text)
            if marked[column]:  # a place for the mark in every cell, so that digits stay aligned
                text += f' <span class="mark">{escape(cell.mark)}</span>'
            yield f'<th scope="row">{text}</th>' if column == 0 else f"<td{_align(right)}>{text}</td>"


def _align(right: bool) -> str:
    return ' class="number"' if right else ""


def _markdown(text: str) -> str:
    plain = escape(" ".join(text.split()), quote=False)
    return re.sub(r"([\\`*_\[\]|~#])", r"\\\1", plain)


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in " ".join(text.split()))


def _in_markdown(cell: TableCell) -> str:
    text = f"**{_markdown(cell.text)}**" if cell.bold else _markdown(cell.text)
    return f"{text} {cell.mark}".strip()


def _in_latex(cell: TableCell) -> str:
    text = rf"\textbf{{{_latex(cell.text)}}}" if cell.bold else _latex(cell.text)
    return f"{text} {_latex(cell.mark)}".strip()


# -- numbers ---------------------------------------------------------------------------------------------


def format_number(value: float, digits: int = 3) -> str:
    """Return a number as text with a fixed number of decimals, or a dash if the number is not finite."""
    return f"{value:,.{digits}f}" if isfinite(value) else EMPTY


def format_summary(summary: Summary, digits: int = 3) -> str:
    """Return "mean ± standard deviation". For one run, return only the mean. For no runs, return a dash."""
    if summary.n < 2:
        return format_number(summary.mean, digits)
    return f"{format_number(summary.mean, digits)} ± {format_number(summary.std, digits)}"


def format_p_value(p: float) -> str:
    """Return a p-value as text with three decimals, or a dash for NaN."""
    if isnan(p):
        return EMPTY
    return "<0.001" if p < 0.001 else f"{p:.3f}"
