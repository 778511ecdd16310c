"""The page of one collection: search, compare, map, metric and feedback log."""

from __future__ import annotations

import time
from functools import partial
from typing import Final, NamedTuple
from urllib.parse import parse_qs

from anyio import to_thread
from fastapi import Request
from fastapi.responses import Response
from nicegui import ui

from oahu.service.collection import Collection
from oahu.service.errors import NotFoundError
from oahu.service.page.action_runner import ActionRunner
from oahu.service.page.browser_data import page_path
from oahu.service.page.catalogue_view import CatalogueView, Filters
from oahu.service.page.comparison_view import ComparisonView
from oahu.service.page.feedback_actions import FeedbackActions
from oahu.service.page.feedback_log_view import FeedbackLogView
from oahu.service.page.layout import add_head, add_top_bar, not_found_page
from oahu.service.page.map_view import MapView
from oahu.service.page.metric_view import MetricView
from oahu.service.page.ranking_view import RankingView
from oahu.service.page.shortcuts import Shortcuts
from oahu.service.page.visitor import Visitor

__all__ = ["CollectionPage", "show_collection"]

_POLL_SECONDS: Final = 0.5
_MAP_SECONDS: Final = 2.0  # minimum time between two maps
_BUILD_TIMEOUT: Final = 30.0  # seconds
_VIEWS: Final = {"search": "Search", "compare": "Compare", "map": "Map", "metric": "Metric", "log": "Feedback"}


@ui.page("/collections/{name}", response_timeout=_BUILD_TIMEOUT)
async def show_collection(request: Request, name: str) -> Response | None:
    """Show one collection."""
    visitor = Visitor.of(request)
    try:
        collection = visitor.service.collection(name)
    except NotFoundError as error:
        return not_found_page(str(error))
    add_head(f"{name} - oahu")
    page = CollectionPage(visitor, collection)
    await page.show_address(request.url.query)
    ui.timer(_POLL_SECONDS, page.poll, immediate=False)
    return None


class _ShownState(NamedTuple):
    """The state that the page shows. The page is refreshed when this state changes."""

    n_items: int
    metric_version: int
    last_seq: int
    candidates_version: int
    learner_error: str | None
    role: str | None


class _ShownMap(NamedTuple):
    metric_version: int
    n_items: int
    query: str | None


class CollectionPage:
    """The page of a collection in one browser. Every action first checks the role of the visitor."""

    def __init__(self, visitor: Visitor, collection: Collection) -> None:
        self._visitor, self._collection = visitor, collection
        self._view = "search"
        self._shown_map: _ShownMap | None = None
        self._map_time = 0.0
        self._shown: _ShownState | None = None
        self._runner = ActionRunner(visitor)
        with add_top_bar(visitor, collection.config.name):
            summary_parent = ui.element("div")
            shortcuts = Shortcuts(on_escape=self.show_catalogue, on_navigation=self.show_address)
        self._root = ui.element("div").classes("workspace")
        with self._root:
            self._deleted = ui.label().classes("banner")
            self._deleted.set_visibility(False)
            self._add_tabs()
            with ui.element("main"):
                with ui.element("div").classes("view-search"):
                    self._filters = Filters(collection, self.choose_label, self.find)
                    with ui.element("div").classes("browsing"):
                        self._catalogue = CatalogueView(self._runner, collection, self.search)
                    with ui.element("div").classes("searching"):
                        self._ranking = RankingView(self._runner, collection, self.search)
                        self._feedback = FeedbackActions(self._runner, collection, self._ranking, self.refresh)
                with ui.element("div").classes("view-compare"):
                    self._comparison = ComparisonView(
                        self._runner, collection, partial(self._update_address, replace=True)
                    )
                with ui.element("div").classes("view-map"):
                    self._map = MapView(collection, self.search)
            with ui.element("div").classes("sidebar"):
                self._metric = MetricView(collection, summary_parent)
                self._log = FeedbackLogView(self._runner, collection, self._feedback.undo, self.search)
        shortcuts.on_undo(self._feedback.undo_last)
        self._ranking.query_panel.on("back", self.show_catalogue)
        self._ranking.tiles.on("compare", lambda event: self.compare(str(event.args)))

    def _add_tabs(self) -> None:
        self._tabs = {}
        with ui.element("nav").classes("tabs").props('aria-label="Views"'):
            for view, title in _VIEWS.items():
                with ui.element("button").props('type="button"').classes(f"tab-{view}") as tab:
                    ui.label(title)
                tab.on("click", partial(self.show_view, view))
                self._tabs[view] = tab

    # -- navigation --------------------------------------------------------------------------------------

    async def show_address(self, query: str) -> None:
        """Show the search, the label, the words and the view that the query string of an address contains."""
        parameters = {name: values[0] for name, values in parse_qs(query.removeprefix("?")).items()}
        view = parameters.get("view", "search")
        with self._runner.run("read"):
            self._filters.label, self._filters.text = parameters.get("label"), parameters.get("find")
            self._ranking.close()
            await self._filters.refresh()
            await self._refresh_sidebar()
            await self._comparison.open(parameters.get("first"), parameters.get("second"))
            if "like" in parameters:
                await self._ranking.open(parameters["like"], self._filters.label)
        await self._open_view(view if view in _VIEWS else "search")

    async def show_view(self, view: str) -> None:
        """Switch to a view."""
        if view == "compare" and not any(self._comparison.selected):
            await self._comparison.open(self._ranking.query, None)
        await self._open_view(view)
        self._update_address(replace=True)

    async def _open_view(self, view: str) -> None:
        self._view = view
        is_searching = self._ranking.query is not None
        self._root.props(f"data-view={view} data-searching={'yes' if is_searching else 'no'}")
        for name, tab in self._tabs.items():
            tab.props(f"aria-current={'true' if name == view else 'false'}")
        with self._runner.run("read"):
            await self._refresh_view()

    def _update_address(self, replace: bool = False) -> None:
        """Write the current search, label and view to the address bar, so that reload, back and links work."""
        first, second = self._comparison.selected if self._view == "compare" else (None, None)
        path = page_path(
            self._collection.config.name,
            like=self._ranking.query,
            label=self._filters.label,
            find=self._filters.text,
            view=None if self._view == "search" else self._view,
            first=first,
            second=second,
        )
        (ui.navigate.history.replace if replace else ui.navigate.history.push)(path)

    async def search(self, key: str) -> None:
        """Search for items similar to an item."""
        with self._runner.run("read"):
            await self._ranking.open(key, self._filters.label)
            await self._open_view("search")
            self._update_address()

    async def find(self, text: str) -> None:
        """Search for the item with this key, or show the items with words that begin like this."""
        with self._runner.run("read"):
            if text and text in await to_thread.run_sync(self._collection.catalogue.items, [text]):
                await self.search(text)
                return
            if text and not await to_thread.run_sync(partial(self._collection.find, text, limit=1)):
                raise NotFoundError(f"There is no item {text!r}, and no item has words that begin like this.")
            self._filters.text = text or None
            self._filters.show()
            self._ranking.close()
            await self._open_view("search")
            self._update_address()

    async def show_catalogue(self) -> None:
        """End the search and show all items."""
        if self._ranking.query is not None:
            self._ranking.close()
            await self._open_view("search")
            self._update_address()

    async def choose_label(self, label: str | None) -> None:
        """Show the items with a label, or all items for None."""
        with self._runner.run("read"):
            self._filters.label = label
            self._filters.show()
            if self._ranking.query is not None:
                await self._ranking.open(self._ranking.query, label)
            await self._open_view("search")
            self._update_address(replace=True)

    async def compare(self, key: str) -> None:
        """Compare a result with the query."""
        with self._runner.run("read"):
            await self._comparison.open(self._ranking.query, key)
            await self._open_view("compare")
            self._update_address()

    # -- updates -----------------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Update everything that is shown."""
        with self._runner.run("read"):
            await self._refresh_sidebar()
            try:
                await self._ranking.refresh()
            except NotFoundError:  # the query was deleted
                await self.show_catalogue()
                raise
            await self._refresh_view()

    async def _refresh_sidebar(self) -> None:
        self._shown = self._state()
        await self._metric.refresh()
        await self._log.refresh()

    async def _refresh_view(self) -> None:
        if self._view == "search" and self._ranking.query is None:
            await self._catalogue.open(self._filters.label, self._filters.text)
        elif self._view == "compare":
            await self._comparison.refresh()
        elif self._view == "map":
            await self._refresh_map()

    async def _refresh_map(self) -> None:
        """Draw the map again if it has changed.

        A new query is drawn immediately. Other changes are drawn at most every `_MAP_SECONDS` seconds.
        """
        current = _ShownMap(
            self._collection.published.version, self._collection.queries.index.n_items, self._ranking.query
        )
        same_query = self._shown_map is not None and self._shown_map.query == current.query
        if current == self._shown_map or (same_query and time.monotonic() < self._map_time + _MAP_SECONDS):
            return
        self._shown_map, self._map_time = current, time.monotonic()
        await self._map.refresh(current.query)

    def _state(self) -> _ShownState:
        state = self._collection.describe()
        return _ShownState(
            state["items"],
            state["metric_version"],
            state["last_seq"],
            state["candidates"]["metric_version"],
            state["learner_error"],
            self._visitor.role,
        )

    async def poll(self) -> None:
        """Refresh the page if this or another visitor changed the collection."""
        if self._visitor.role is None:
            ui.navigate.to("/login")
            return
        if self._collection not in self._visitor.service.collections:
            names = {one.config.name for one in self._visitor.service.collections}
            was_encoded_again = self._collection.config.name in names
            self._deleted.set_text(
                "The texts of this collection were encoded again. Reload the page."
                if was_encoded_again
                else "This collection was deleted."
            )
            self._deleted.set_visibility(True)
            return
        previous, state = self._shown, self._state()
        with self._runner.run("read"):
            if previous is None or state.n_items != previous.n_items:
                await self._filters.refresh()
                await self._catalogue.refresh()
            if state != previous:
                await self.refresh()
            elif self._view == "map":
                await self._refresh_view()
