"""The search results and their marks. The ranking is updated when the metric changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from anyio import to_thread

from oahu.service.collection import Collection
from oahu.service.errors import ServiceError
from oahu.service.page.action_runner import ActionRunner
from oahu.service.page.browser_data import tile, tile_with_payload
from oahu.service.page.catalogue_view import Tiles
from oahu.service.page.feedback_log_view import DirectFeedback, recent_feedback
from oahu.service.page.layout import Component
from oahu.service.page.visitor import FEEDBACK_ROLE_REQUIRED
from oahu.service.query_engine import SearchResult
from oahu.tasks import Match

__all__ = ["QueryPanel", "RankingView"]

_PAGE_SIZE: Final = 24
_MAX_GROWTH: Final = 4  # maximum number of pages, if most results are similar by feedback
_HINT_START: Final = "Mark results as alike (=) or not alike (≠). The ranking changes with each mark."
_HINT_NEEDS_NEGATIVE: Final = "Also mark a result that is not alike. The metric learns from the difference."
_HINT_NEEDS_POSITIVE: Final = "Also mark a result that is alike. The metric learns from the difference."


class QueryPanel(Component, component="components/oahu_query.js"):
    """The query item."""


@dataclass(frozen=True)
class _Ranking:
    """The data of one shown ranking."""

    query: dict[str, Any]
    items: list[dict[str, Any]]  # ordered by rank; dissimilar items outside the results follow
    direct_feedback: dict[str, DirectFeedback]

    @property
    def order(self) -> list[tuple[str, str | None]]:
        return [(item["key"], item["feedback"]) for item in self.items]


class RankingView:
    """The results of one search, and the query item."""

    def __init__(
        self, runner: ActionRunner, collection: Collection, search: Callable[[str], Awaitable[None]]
    ) -> None:
        self._visitor, self._collection = runner.visitor, collection
        self.query: str | None = None
        self.label: str | None = None
        self._k, self._update = _PAGE_SIZE, 0
        self._ranking: _Ranking | None = None
        self.query_panel = QueryPanel()
        self.tiles = Tiles()
        self.query_panel.show(item=None)
        self.tiles.show(items=[], mode="results")
        self.tiles.on("search", lambda event: search(str(event.args)))
        self.tiles.on("more", lambda: runner.read(self._show_more))

    async def open(self, query: str, label: str | None) -> None:
        """Search for items similar to ``query``. If the search fails, the view keeps the previous search."""
        previous = self.query, self.label, self._k
        if query != self.query:
            self._k = _PAGE_SIZE
        self.query, self.label = query, label
        try:
            await self.refresh()
        except ServiceError:
            self.query, self.label, self._k = previous
            raise

    def close(self) -> None:
        self.query = self._ranking = None

    def feedback(self, key: str) -> str | None:
        """Return the given or implied feedback on a result: "similar", "dissimilar" or None."""
        items = self._ranking.items if self._ranking else []
        return next((item["feedback"] for item in items if item["key"] == key), None)

    def direct_feedback(self, key: str) -> DirectFeedback | None:
        """Return the given feedback on a result. Return None if there is no feedback or only implied feedback."""
        return self._ranking.direct_feedback.get(key) if self._ranking else None

    async def refresh(self) -> None:
        """Search again, and show how many ranks each item moved."""
        if self.query is None:
            return
        self._update += 1
        update, query = self._update, self.query
        ranking = await to_thread.run_sync(self._search, query)
        if update == self._update and query == self.query:  # a newer search may have finished earlier
            self._show(ranking)

    def _search(self, query: str) -> _Ranking:
        collection = self._collection
        item = collection.catalogue.item(query)
        result = self._search_enough(query)
        direct = recent_feedback(collection, query)
        ranked_keys = {key for key, _, _ in result.matches}
        dissimilar = [key for key, given in direct.items() if not given.same and key not in ranked_keys]
        found = collection.catalogue.items([*ranked_keys, *dissimilar])
        name = collection.config.name
        ranked = [match for match in result.matches if match[0] in found]
        items = [
            _result(tile(name, found[key]), rank, match, relation)
            for rank, (key, match, relation) in enumerate(ranked, 1)
        ]
        items += [
            {**tile(name, found[key]), "rank": None, "feedback": "dissimilar"} for key in dissimilar if key in found
        ]
        return _Ranking(tile_with_payload(name, item), items, direct)

    def _search_enough(self, query: str) -> SearchResult:
        """Return all results that are similar according to feedback, and one page of further results."""
        limit = self._visitor.service.settings.max_k
        k = min(self._k, limit)
        while True:
            result = self._collection.search(query, k, self.label)
            n_similar = sum(relation == "similar" for *_, relation in result.matches)
            wanted = min(self._k + n_similar, _MAX_GROWTH * self._k, limit)
            if k >= wanted:
                return result
            k = wanted

    def _show(self, ranking: _Ranking) -> None:
        previous = self._ranking
        if previous is not None and previous.query["key"] == ranking.query["key"]:
            _add_moves(previous.items, ranking.items, previous.order == ranking.order)
        self._ranking = ranking
        n_ranked = sum(item["rank"] is not None for item in ranking.items)
        has_more = self._k <= n_ranked < self._visitor.service.settings.max_k
        may_mark = self._visitor.may("feedback")
        self.tiles.show(
            items=ranking.items,
            mode="results",
            title=f"Items like {ranking.query['key']}",
            update=self._update,
            more="More results" if has_more else "",
            may_mark=may_mark,
            reason=FEEDBACK_ROLE_REQUIRED,
            empty="There are no other items." if self.label is None else "No other item has this label.",
        )
        n_similar = sum(given.same for given in ranking.direct_feedback.values())
        n_dissimilar = len(ranking.direct_feedback) - n_similar
        hint = _hint(n_similar, n_dissimilar, self._collection.published.constraints)
        self.query_panel.show(
            item=ranking.query,
            n_similar=n_similar,
            n_dissimilar=n_dissimilar,
            hint=hint if may_mark else FEEDBACK_ROLE_REQUIRED,
        )

    async def _show_more(self) -> None:
        self._k += _PAGE_SIZE
        await self.refresh()


def _result(shown: dict[str, Any], rank: int, match: Match, feedback: str | None) -> dict[str, Any]:
    value = match.similarity if match.distance is None else match.distance
    return {
        **shown,
        "rank": rank,
        "feedback": feedback,
        "value": _short(value),
        "exact": _exact(match),
    }


def _add_moves(previous: list[dict[str, Any]], items: list[dict[str, Any]], same_order: bool) -> None:
    """Add to the data of each item how many ranks the item moved since the previous ranking.

    If the order has not changed, copy these values from the previous ranking.
    """
    if same_order:
        for old, item in zip(previous, items, strict=True):
            item.update({name: old[name] for name in ("moved", "is_new") if name in old})
        return
    ranks = {item["key"]: item["rank"] for item in previous}
    for item in items:
        old_rank, rank = ranks.get(item["key"]), item["rank"]
        if old_rank is not None and rank is not None:
            item["moved"] = old_rank - rank
        elif rank is not None and rank <= len(previous):
            item["is_new"] = True


def _short(number: float) -> str:
    """Return a number with about five characters.

    >>> _short(0.12), _short(123.456), _short(123456.7)
    ('0.120', '123.5', '1.23e+05')
    """
    size = abs(number)
    return f"{number:.3f}" if size < 10 else f"{number:.1f}" if size < 1e4 else f"{number:.3g}"


def _exact(match: Match) -> str:
    if match.distance is None:
        return f"similarity {match.similarity:.6g}"
    return f"distance {match.distance:.6g}"


def _hint(n_similar: int, n_dissimilar: int, n_learned: int) -> str:
    """Return a hint for the next action, or an empty text once the metric has learned a constraint."""
    if not n_similar and not n_dissimilar:
        return _HINT_START
    if n_learned or (n_similar and n_dissimilar):
        return ""
    return _HINT_NEEDS_NEGATIVE if n_similar else _HINT_NEEDS_POSITIVE
