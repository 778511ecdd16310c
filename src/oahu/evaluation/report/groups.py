"""Results put together: what is compared with what, and which runs belong to one row of a table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import nan
from typing import Any, Final

from oahu.evaluation.cells import Cell, Outcome, Record
from oahu.evaluation.protocols.methods import PAPER_METHODS
from oahu.evaluation.statistics import Better, Comparison, Summary, compare

__all__ = ["METHODS", "PROTOCOLS", "UNLEARNED", "Group", "Row", "groups", "in_order", "setting"]

PROTOCOLS: Final = ("classification", "constraints", "verification", "retrieval", "sensitivity", "regret")
METHODS: Final = PAPER_METHODS
UNLEARNED: Final = ("Euclidean", "Cosine")

_OURS: Final = "OAHU"
_APART: Final = {"verification": "people", "sensitivity": "vary"}  # another experiment, not another row


@dataclass(frozen=True)
class Row:
    """The runs of one method.

    Attributes
    ----------
    label : str
        The method, and what sets this row apart if the method has several.
    outcomes, failed : tuple of Outcome
        Those with scores and those without, by run.
    """

    label: str
    method: str
    outcomes: tuple[Outcome, ...]
    failed: tuple[Outcome, ...] = ()

    @property
    def places(self) -> list[float]:
        """Where along a sweep there are results: numbers of constraints, or values of a parameter."""
        found = {_place(outcome.cell) for outcome in self.outcomes}
        return sorted(place for place in found if place is not None)

    def at(self, place: float | None) -> list[Outcome]:
        """The runs at one place of a sweep: all without one, and all where nothing was learned."""
        everywhere = place is None or (self.learned_nothing and len(self.places) == 1)
        return [outcome for outcome in self.outcomes if everywhere or _place(outcome.cell) == place]

    @property
    def learned_nothing(self) -> bool:
        return not any("n_seen" in outcome.facts for outcome in self.outcomes)

    def values(self, score: str, place: float | None = None) -> list[float]:
        """A score for each run; NaN where a run does not have it."""
        return [_number(outcome.scores.get(score)) for outcome in self.at(place)]

    def summary(self, score: str, place: float | None = None) -> Summary:
        return Summary.of(self.values(score, place))

    def seconds(self, part: str) -> list[float]:
        return [_number(outcome.seconds.get(part)) for outcome in self.outcomes]

    def curves(self, name: str) -> list[Mapping[str, Any]]:
        return [outcome.curves[name] for outcome in self.outcomes if outcome.curves.get(name)]


@dataclass(frozen=True)
class Group:
    """Rows that are compared with each other: one protocol on one data set.

    Attributes
    ----------
    title : str
        The data set, whether parameters were tuned, and what else sets the group apart.
    slug : str
        The same, fit for a file's name.
    rows : tuple of Row
        OAHU first, then the others of the paper, then the rest.
    absent : tuple of str
        Methods that have results by this protocol elsewhere and none here.
    """

    protocol: str
    dataset: str
    tuned: bool
    apart: tuple[tuple[str, str], ...]
    title: str
    slug: str
    rows: tuple[Row, ...]
    absent: tuple[str, ...]

    @property
    def name(self) -> str:
        """The title as part of a sentence."""
        words = ["tuned" if self.tuned else "untuned", *(f"{name}: {value}" for name, value in self.apart)]
        return f"{self.dataset} ({', '.join(words)})"

    @property
    def ours(self) -> Row | None:
        """The row that the others are compared with."""
        return self.row(_OURS)

    def row(self, method: str) -> Row | None:
        """The first row of a method that has results."""
        return next((row for row in self.rows if row.method == method and row.outcomes), None)

    def ranked(self, score: str, better: Better) -> list[Row]:
        """The rows that have a score, best first."""
        rows = [row for row in self.rows if row.summary(score).n]
        return sorted(rows, key=lambda row: row.summary(score).mean * (1 if better == "lower" else -1))

    @property
    def places(self) -> list[float]:
        return sorted({place for row in self.rows for place in row.places})

    @property
    def failed(self) -> list[Outcome]:
        return [outcome for row in self.rows for outcome in row.failed]

    def against(
        self, row: Row, score: str, better: Better, paired: bool = False, place: float | None = None
    ) -> Comparison | None:
        """OAHU against a row; None for OAHU itself, and where either has no results."""
        ours = self.ours
        if ours is None or row is ours or not row.at(place) or not ours.at(place):
            return None
        if not paired:
            return compare(ours.values(score, place), row.values(score, place), better=better)
        one, other = _by_run(ours, score, place), _by_run(row, score, place)
        runs = sorted(one.keys() & other.keys())
        return compare([one[run] for run in runs], [other[run] for run in runs], better=better, paired=True)


def groups(record: Record, protocol: str) -> list[Group]:
    """What was measured by a protocol, in the order of the data sets, tuned before untuned."""
    cells: dict[tuple[str, bool, tuple[tuple[str, str], ...]], list[Outcome]] = {}
    for outcome in record.outcomes:
        if outcome.cell.stage == "result" and outcome.cell.protocol == protocol:
            cells.setdefault(_identity(outcome.cell), []).append(outcome)
    datasets = list(dict.fromkeys([*record.datasets, *(name for name, _, _ in cells)]))
    keys = sorted(cells, key=lambda key: (datasets.index(key[0]), not key[1], key[2]))
    methods = in_order({outcome.cell.method: None for found in cells.values() for outcome in found})
    slugs: set[str] = set()
    return [_group(protocol, key, cells[key], methods, slugs) for key in keys]


def _group(protocol: str, key: Any, outcomes: list[Outcome], methods: list[str], slugs: set[str]) -> Group:
    dataset, tuned, apart = key
    words = [dataset, "tuned" if tuned else "untuned", *(f"{name}: {value}" for name, value in apart)]
    slug = _slug(f"{protocol} {' '.join(words)}")
    while slug in slugs:
        slug += "-too"
    slugs.add(slug)
    present = {outcome.cell.method for outcome in outcomes}
    rows = [row for method in methods if method in present for row in _rows(method, outcomes)]
    absent = tuple(method for method in methods if method not in present)
    return Group(protocol, dataset, tuned, apart, " · ".join(words), slug, tuple(rows), absent)


def _rows(method: str, outcomes: list[Outcome]) -> list[Row]:
    """One row, or one for each way the method was set if a run was measured in several."""
    own = sorted((o for o in outcomes if o.cell.method == method), key=lambda o: o.cell.run)
    runs = [(outcome.cell.run, _place(outcome.cell)) for outcome in own]
    if len(set(runs)) == len(runs):
        return [_row(method, method, own)]
    settings = [_flat(outcome.cell) for outcome in own]
    names = sorted({name for each in settings for name in each})
    differ = [name for name in names if len({json.dumps(each.get(name)) for each in settings}) > 1]
    parts: dict[str, list[Outcome]] = {}
    for outcome, each in zip(own, settings, strict=True):
        words = ", ".join(f"{name} {setting(each.get(name))}" for name in differ)
        parts.setdefault(f"{method} ({words})" if words else method, []).append(outcome)
    return [_row(label, method, part) for label, part in parts.items()]


def _row(label: str, method: str, outcomes: list[Outcome]) -> Row:
    measured = tuple(outcome for outcome in outcomes if outcome.error is None)
    return Row(label, method, measured, tuple(outcome for outcome in outcomes if outcome.error is not None))


def in_order(methods: Iterable[str]) -> list[str]:
    """Those of the paper first, as they come in its table; then the rest as they are."""
    return sorted(methods, key=lambda name: METHODS.index(name) if name in METHODS else len(METHODS))


def setting(value: Any) -> str:
    """A setting as one says it."""
    if value is None:
        return "–"  # noqa: RUF001
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _identity(cell: Cell) -> tuple[str, bool, tuple[tuple[str, str], ...]]:
    name = _APART.get(cell.protocol, "")
    apart = ((name, str(cell.settings[name])),) if cell.settings.get(name) is not None else ()
    return cell.dataset, bool(cell.settings.get("tuned")), apart


def _place(cell: Cell) -> float | None:
    found: Any = None
    if cell.protocol == "constraints":
        found = cell.settings.get("n_constraints")
    elif cell.protocol == "sensitivity":
        found = (cell.settings.get("params") or {}).get(cell.settings.get("vary"))
    return found if isinstance(found, int | float) else None


def _flat(cell: Cell) -> dict[str, Any]:
    """The settings without the seed and without what is swept, parameters among them."""
    swept = {"constraints": "n_constraints", "sensitivity": cell.settings.get("vary")}.get(cell.protocol)
    flat = {**cell.settings, **(cell.settings.get("params") or {})}
    return {name: value for name, value in flat.items() if name not in ("params", "seed", swept)}


def _by_run(row: Row, score: str, place: float | None) -> dict[int, float]:
    return {outcome.cell.run: _number(outcome.scores.get(score)) for outcome in row.at(place)}


def _number(value: Any) -> float:
    return nan if value is None else float(value)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
