"""A table that is neutral until it is written as markdown, LaTeX or HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from math import isfinite, isnan
from typing import Final

from oahu.evaluation.report.groups import setting
from oahu.evaluation.statistics import Summary

__all__ = ["NOTHING", "Entry", "Table", "number", "p_value", "plus_minus"]

NOTHING: Final = setting(None)
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
_NO_WIDER: Final = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{"


@dataclass(frozen=True)
class Entry:
    """What stands in one place of a table; ``mark`` is one of significance, behind it."""

    text: str
    bold: bool = False
    mark: str = ""

    @property
    def is_number(self) -> bool:
        return bool(re.match(r"[<-]?\d", self.text)) or self.text in (NOTHING, "failed", "not run")


@dataclass(frozen=True)
class Table:
    """A title, a header, rows of as many entries, and what one should know to read them.

    Attributes
    ----------
    notes : tuple of str
        A sentence each; failures and what was not run are among them.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Which columns hold numbers only; they stand to the right."""
        columns = zip(*self.rows, strict=True)
        return tuple(all(entry.is_number for entry in column) for column in columns) or (False,) * len(self.header)

    def to_markdown(self) -> str:
        """A table as GitHub shows it, under a heading."""
        rule = ["---:" if number else "---" for number in self.numeric]
        lines = [[_markdown(name) for name in self.header], rule]
        for row in self.rows:
            lines.append([_in_markdown(entry) for entry in row])
        body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return "\n\n".join([f"### {_markdown(self.title)}", body, *map(_markdown, self.notes)]) + "\n"

    def to_latex(self) -> str:
        """A floating table, no wider than the text, for a document with the packages booktabs and graphicx."""
        kinds = "".join("r" if number else "l" for number in self.numeric)
        header = " & ".join(map(_latex, self.header))
        rows = [" & ".join(_in_latex(entry) for entry in row) + r" \\" for row in self.rows]
        lines = [r"\begin{table}[htbp]", r"\centering\small", rf"\caption{{{_latex(self.title)}}}"]
        lines += [rf"{_NO_WIDER}\begin{{tabular}}{{{kinds}}}", r"\toprule", rf"{header} \\", r"\midrule", *rows]
        lines += [r"\bottomrule", r"\end{tabular}}"]
        lines += [rf"\par\smallskip{{\footnotesize {_latex(note)}\par}}" for note in self.notes]
        return "\n".join([*lines, r"\end{table}", ""])

    def to_html(self) -> str:
        """A table that scrolls inside its own box, and its notes below."""
        names = [f'<th scope="col"{_align(right)}>{escape(name)}</th>' for name, right in self._columns()]
        rows = "".join(f"<tr>{''.join(self._cells(row))}</tr>\n" for row in self.rows)
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        return (
            f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(self.title)}">\n<table>\n'
            f"<caption>{escape(self.title)}</caption>\n<thead><tr>{''.join(names)}</tr></thead>\n"
            f"<tbody>\n{rows}</tbody>\n</table>\n</div>\n" + (f'<ul class="notes">{notes}</ul>\n' if notes else "")
        )

    def _columns(self) -> Iterable[tuple[str, bool]]:
        return zip(self.header, self.numeric, strict=True)

    def _cells(self, row: Sequence[Entry]) -> Iterable[str]:
        marked = [any(entry.mark for entry in column) for column in zip(*self.rows, strict=True)]
        for column, (entry, right) in enumerate(zip(row, self.numeric, strict=True)):
            text = f"<strong>{escape(entry.text)}</strong>" if entry.bold else escape(entry.text)
            if marked[column]:  # every entry of the column has room for a mark: digits stay below digits
                text += f' <span class="mark">{escape(entry.mark)}</span>'
            yield f'<th scope="row">{text}</th>' if column == 0 else f"<td{_align(right)}>{text}</td>"


def _align(right: bool) -> str:
    return ' class="number"' if right else ""


def _markdown(text: str) -> str:
    plain = escape(" ".join(text.split()), quote=False)
    return re.sub(r"([\\`*_\[\]|~#])", r"\\\1", plain)


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in " ".join(text.split()))


def _in_markdown(entry: Entry) -> str:
    text = f"**{_markdown(entry.text)}**" if entry.bold else _markdown(entry.text)
    return f"{text} {entry.mark}".strip()


def _in_latex(entry: Entry) -> str:
    text = rf"\textbf{{{_latex(entry.text)}}}" if entry.bold else _latex(entry.text)
    return f"{text} {_latex(entry.mark)}".strip()


# -- numbers ---------------------------------------------------------------------------------------------


def number(value: float, digits: int = 3) -> str:
    return f"{value:,.{digits}f}" if isfinite(value) else NOTHING


def plus_minus(summary: Summary, digits: int = 3) -> str:
    """Mean ± standard deviation; the mean alone if there is one run, a dash if there is none."""
    if summary.n < 2:
        return number(summary.mean, digits)
    return f"{number(summary.mean, digits)} ± {number(summary.std, digits)}"


def p_value(p: float) -> str:
    if isnan(p):
        return NOTHING
    return "<0.001" if p < 0.001 else f"{p:.3f}"
