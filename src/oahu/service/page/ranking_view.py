"""What a search found: ranked, marked, and moving when the metric does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from anyio import to_thread

from oahu.service.collection import Collection
from oahu.service.errors import ServiceError
from oahu.service.page.action_runner import Telling
from oahu.service.page.browser_data import plate, tile
from oahu.service.page.catalogue_view import Tiles
from oahu.service.page.feedback_log_view import Spoken, spoken_of
from oahu.service.page.layout import Part
from oahu.service.page.visitor import WHY
from oahu.service.query_engine import SearchResult
from oahu.tasks import Match

__all__ = ["Plate", "Results"]

_AT_ONCE: Final = 24
_KNOWN: Final = 4  # times as many results, if most of them are known
_BEGIN: Final = "Mark what is alike (=) and what is not (≠). The ranking follows."
_CONTRAST: Final = "Mark one that is not alike too: the metric learns from the difference."
_ALSO: Final = "Mark one that is alike too: the metric learns from the difference."


class Plate(Part, component="components/oahu_query.js"):
    """What is searched for."""


@dataclass(frozen=True)
class _Ranking:
    """An answer, as it is shown."""

    query: dict[str, Any]
    items: list[dict[str, Any]]  # by rank; then those said to be unlike that are not among them
    spoken: dict[str, Spoken]

    @property
    def order(self) -> list[tuple[str, str | None]]:
        return [(item["key"], item["said"]) for item in self.items]


class Results:
    """The ranking of one search, and what is searched for beside it."""

    def __init__(self, telling: Telling, collection: Collection, search: Callable[[str], Awaitable[None]]) -> None:
        self._visit, self._collection = telling.visit, collection
        self.query: str | None = None
        self.label: str | None = None
        self._k, self._turn = _AT_ONCE, 0
        self._ranking: _Ranking | None = None
        self.plate = Plate()
        self.part = Tiles()
        self.plate.show(item=None)
        self.part.show(items=[], mode="results")
        self.part.on("search", lambda event: search(str(event.args)))
        self.part.on("more", lambda: telling.reading(self._more))

    async def open(self, query: str, label: str | None) -> None:
        """Search for something else; if that cannot be, what was searched for before stays."""
        before = self.query, self.label, self._k
        if query != self.query:
            self._k = _AT_ONCE
        self.query, self.label = query, label
        try:
            await self.refresh()
        except ServiceError:
            self.query, self.label, self._k = before
            raise

    def close(self) -> None:
        self.query = self._ranking = None

    def said(self, key: str) -> str | None:
        """What is known of a result and what is searched for."""
        items = self._ranking.items if self._ranking else []
        return next((one["said"] for one in items if one["key"] == key), None)

    def spoken(self, key: str) -> Spoken | None:
        """Where that was said; None if it only follows from what was said."""
        return self._ranking.spoken.get(key) if self._ranking else None

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
        item = collection.item(query)
        found = self._found(query)
        spoken = spoken_of(collection, query)
        named = {key for key, _, _ in found.matches}
        apart = [key for key, told in spoken.items() if not told.same and key not in named]
        there = collection.items([*named, *apart])
        name = collection.config.name
        ranked = [(there[key], match, said) for key, match, said in found.matches if key in there]
        items = [_result(tile(name, one), rank, match, said) for rank, (one, match, said) in enumerate(ranked, 1)]
        items += [{**tile(name, there[key]), "rank": None, "said": "unlike"} for key in apart if key in there]
        return _Ranking(plate(name, item), items, spoken)

    def _found(self, query: str) -> SearchResult:
        """As many results as wanted that are not known to be alike, if those that are leave room for them."""
        most = self._visit.service.settings.max_k
        wanted = min(self._k, most)
        while True:
            found = self._collection.search(query, wanted, self.label)
            alike = sum(said == "alike" for *_, said in found.matches)
            if wanted >= min(self._k + alike, _KNOWN * self._k, most):
                return found
            wanted = min(self._k + alike, _KNOWN * self._k, most)

    def _show(self, found: _Ranking) -> None:
        before = self._ranking
        if before is not None and before.query["key"] == found.query["key"]:
            _compare(before.items, found.items, before.order == found.order)
        self._ranking = found
        n_ranked = sum(item["rank"] is not None for item in found.items)
        more = self._k <= n_ranked < self._visit.service.settings.max_k
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
        alike = sum(told.same for told in found.spoken.values())
        unlike = len(found.spoken) - alike
        hint = _hint(alike, unlike, self._collection.published.constraints) if may else WHY
        self.plate.show(item=found.query, alike=alike, unlike=unlike, hint=hint)

    async def _more(self) -> None:
        self._k += _AT_ONCE
        await self.refresh()


def _result(shown: dict[str, Any], rank: int, match: Match, said: str | None) -> dict[str, Any]:
    value = match.score if match.distance is None else match.distance
    return {
        **shown,
        "rank": rank,
        "said": said,
        "value": _short(value),
        "exact": _exact(match.score, match.distance),
    }


def _compare(before: list[dict[str, Any]], now: list[dict[str, Any]], same: bool) -> None:
    """Note by how many ranks items have moved; if they are in the same order, what was noted before still holds."""
    if same:
        for old, item in zip(before, now, strict=True):
            item.update({note: old[note] for note in ("moved", "fresh") if note in old})
        return
    ranks = {item["key"]: item["rank"] for item in before}
    for item in now:
        was, rank = ranks.get(item["key"]), item["rank"]
        if was is not None and rank is not None:
            item["moved"] = was - rank
        elif rank is not None and rank <= len(before):
            item["fresh"] = True


def _short(number: float) -> str:
    """A number in five characters or so.

    >>> _short(0.12), _short(123.456), _short(123456.7)
    ('0.120', '123.5', '1.23e+05')
    """
    size = abs(number)
    return f"{number:.3f}" if size < 10 else f"{number:.1f}" if size < 1e4 else f"{number:.3g}"


def _exact(score: float, distance: float | None) -> str:
    return f"score {score:.6g}" + ("" if distance is None else f", distance {distance:.6g}")


def _hint(n_alike: int, n_unlike: int, n_learned: int) -> str:
    """What to do next, until something was learned."""
    if not n_alike and not n_unlike:
        return _BEGIN
    if n_learned or (n_alike and n_unlike):
        return ""
    return _CONTRAST if n_alike else _ALSO
