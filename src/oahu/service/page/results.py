"""What a search found: ranked, marked, and moving when the metric does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from anyio import to_thread

from oahu.service.collection import Collection
from oahu.service.page.frame import Part
from oahu.service.page.gallery import Tiles
from oahu.service.page.visit import WHY, Visit
from oahu.service.page.words import plate, tile

__all__ = ["Plate", "Results"]

_AT_ONCE: Final = 24
_CONTRAST: Final = "Mark one that is not alike too: the metric learns from the difference."
_ALSO: Final = "Mark one that is alike too: the metric learns from the difference."


class Plate(Part, component="parts/oahu_plate.js"):
    """What is searched for."""


@dataclass(frozen=True)
class _Ranking:
    """An answer, as it is shown."""

    query: dict[str, Any]
    items: list[dict[str, Any]]
    n_alike: int
    n_unlike: int

    @property
    def order(self) -> list[tuple[str, str | None]]:
        return [(item["key"], item["said"]) for item in self.items]


class Results:
    """The ranking of one search, and what is searched for beside it."""

    def __init__(self, visit: Visit, collection: Collection, search: Callable[[str], Awaitable[None]]) -> None:
        self._visit, self._collection = visit, collection
        self.query: str | None = None
        self.label: str | None = None
        self._k, self._turn, self._ranking = _AT_ONCE, 0, None
        self.plate = Plate()
        self.part = Tiles()
        self.plate.show(item=None)
        self.part.show(items=[], mode="results")
        self.part.on("search", lambda event: search(str(event.args)))
        self.part.on("more", self._more)
        self._ranking: _Ranking | None

    async def open(self, query: str, label: str | None) -> None:
        """Search for something else."""
        if query != self.query:
            self._k = _AT_ONCE
        self.query, self.label = query, label
        await self.refresh()

    def close(self) -> None:
        self.query = self._ranking = None

    def said(self, key: str) -> str | None:
        """What is known of an item and what is searched for, as far as it is shown."""
        return next((one["said"] for one in self._ranking.items if one["key"] == key), None) if self._ranking else None

    async def refresh(self) -> None:
        """Search again, and show what moved."""
        if self.query is None:
            return
        self._turn += 1
        mine, query = self._turn, self.query
        found = await to_thread.run_sync(self._ask, query)
        if mine == self._turn and query == self.query:  # an older answer must not replace a newer one
            self._show(found)

    def _ask(self, query: str) -> _Ranking:
        collection = self._collection
        name = collection.config.name
        k = min(self._k, self._visit.service.settings.max_k)
        item = collection.item(query)
        found, (alike, unlike) = collection.search(query, k, self.label)
        said = {**dict.fromkeys(alike, "alike"), **dict.fromkeys(unlike, "unlike")}
        matches = [(collection.name(int(match.key)), match) for match in found.matches]
        there = collection.items([key for key, _ in matches])
        ranked = [(there[key], match) for key, match in matches if key in there]
        items = [
            {
                **tile(name, one),
                "rank": rank,
                "said": said.get(one.number),
                "value": _short(match.score if match.distance is None else match.distance),
                "exact": _exact(match.score, match.distance),
            }
            for rank, (one, match) in enumerate(ranked, 1)
        ]
        return _Ranking(plate(name, item), items, len(alike), len(unlike))

    def _show(self, found: _Ranking) -> None:
        before = self._ranking
        if before is not None and before.query["key"] == found.query["key"]:
            if before.order == found.order:
                found = _Ranking(found.query, before.items, found.n_alike, found.n_unlike)
            else:
                _compare(before.items, found.items)
        self._ranking = found
        more = len(found.items) >= self._k and self._k < self._visit.service.settings.max_k
        may = self._visit.may("feedback")
        self.part.show(
            items=found.items,
            mode="results",
            title=f"What is like {found.query['key']}",
            turn=self._turn,
            more="More results" if more else "",
            may=may,
            why=WHY,
            empty="Nothing else is there." if self.label is None else "Nothing else has this label.",
        )
        hint = _hint(found.n_alike, found.n_unlike) if may else WHY
        self.plate.show(item=found.query, alike=found.n_alike, unlike=found.n_unlike, hint=hint)

    async def _more(self) -> None:
        self._k += _AT_ONCE
        await self.refresh()


def _compare(before: list[dict[str, Any]], now: list[dict[str, Any]]) -> None:
    """Note by how many ranks items have moved."""
    ranks = {item["key"]: item["rank"] for item in before}
    for item in now:
        if item["key"] in ranks:
            item["moved"] = ranks[item["key"]] - item["rank"]
        elif item["rank"] <= len(before):
            item["fresh"] = True


def _short(number: float) -> str:
    """A number in four characters or so.

    >>> _short(0.12345), _short(12.345), _short(12345.6), _short(0.0)
    ('0.123', '12.3', '1.23e+04', '0')
    """
    return f"{number:.3g}"


def _exact(score: float, distance: float | None) -> str:
    return f"score {score:.6g}" + ("" if distance is None else f", distance {distance:.6g}")


def _hint(n_alike: int, n_unlike: int) -> str:
    if bool(n_alike) == bool(n_unlike):
        return "" if n_alike else "Mark what is alike (=) and what is not (≠). The ranking follows."
    return _CONTRAST if n_alike else _ALSO
