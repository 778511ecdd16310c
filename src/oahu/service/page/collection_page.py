"""A collection at work: one browser searches it, teaches it, and watches it learn."""

from __future__ import annotations

import time
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qs

from fastapi import Request
from fastapi.responses import Response
from nicegui import ui

from oahu.service.collection import Collection
from oahu.service.errors import NotFoundError
from oahu.service.page.action_runner import Telling
from oahu.service.page.browser_data import address
from oahu.service.page.catalogue_view import Facets, Gallery
from oahu.service.page.comparison_view import Compare
from oahu.service.page.feedback_actions import Saying
from oahu.service.page.feedback_log_view import Log
from oahu.service.page.layout import bar, head, missing
from oahu.service.page.map_view import Atlas
from oahu.service.page.metric_view import Weights
from oahu.service.page.ranking_view import Results
from oahu.service.page.shortcuts import Keys
from oahu.service.page.visitor import Visit

__all__ = ["Bench", "show_collection"]

_EVERY: Final = 0.5  # seconds between looks at what has changed
_MAP_EVERY: Final = 2.0
_PATIENCE: Final = 30.0  # seconds that a page may take to be made
_VIEWS: Final = {"search": "Search", "compare": "Compare", "map": "Map", "metric": "Metric", "log": "Feedback"}


@ui.page("/collections/{name}", response_timeout=_PATIENCE)
async def show_collection(request: Request, name: str) -> Response | None:
    """One collection."""
    visit = Visit.of(request)
    try:
        collection = visit.service.collection(name)
    except NotFoundError as error:
        return missing(str(error))
    head(f"{name} - oahu")
    bench = Bench(visit, collection)
    await bench.went(request.url.query)
    ui.timer(_EVERY, bench.tick, immediate=False)
    return None


class Bench:
    """What one browser looks at, and what happens when it does something there.

    Everything that it does asks first whether the visitor may, at that moment.
    """

    def __init__(self, visit: Visit, collection: Collection) -> None:
        self._visit, self._collection = visit, collection
        self._view = "search"
        self._drawn: tuple[float, int, int, str | None] = 0.0, -1, 0, None  # when, and of what
        self._seen: tuple[Any, ...] = ()
        self._telling = Telling(visit)
        tools = bar(visit, collection.config.name)
        with tools:
            beside = ui.element("div")
            keys = Keys(back=self.browse, went=self.went)
        self._root = ui.element("div").classes("bench")
        with self._root:
            self._gone = ui.label().classes("banner")
            self._gone.set_visibility(False)
            self._tabs()
            with ui.element("main"):
                with ui.element("div").classes("view-search"):
                    self._facets = Facets(collection, self.choose, self.search)
                    with ui.element("div").classes("browsing"):
                        self._gallery = Gallery(self._telling, collection, self.search)
                    with ui.element("div").classes("finding"):
                        self._results = Results(self._telling, collection, self.search)
                        self._saying = Saying(self._telling, collection, self._results, self.refresh)
                with ui.element("div").classes("view-compare"):
                    self._compare = Compare(self._telling, collection, partial(self._at, replace=True))
                with ui.element("div").classes("view-map"):
                    self._atlas = Atlas(collection, self.search)
            with ui.element("div").classes("rail"):
                self._weights = Weights(collection, beside)
                self._log = Log(self._telling, collection, self._saying.undo, self.search)
        keys.on_undo(self._saying.undo_last)
        self._results.plate.on("back", self.browse)
        self._results.part.on("compare", lambda event: self.compare(str(event.args)))

    def _tabs(self) -> None:
        self._buttons = {}
        with ui.element("nav").classes("tabs").props('aria-label="Views"'):
            for view, title in _VIEWS.items():
                with ui.element("button").props('type="button"').classes(f"tab-{view}") as button:
                    ui.label(title)
                button.on("click", partial(self.look, view))
                self._buttons[view] = button

    # -- where one looks ---------------------------------------------------------------------------------

    async def went(self, asked: str) -> None:
        """Show what an address asks for."""
        told = {key: values[0] for key, values in parse_qs(asked.removeprefix("?")).items()}
        view = told.get("view", "search")
        with self._telling.doing("read"):
            self._facets.chosen = told.get("label")
            self._results.close()
            await self._facets.refresh()
            await self._refresh_learning()
            await self._compare.open(told.get("first"), told.get("second"))
            if "like" in told:
                await self._results.open(told["like"], self._facets.chosen)
        await self._open(view if view in _VIEWS else "search")

    async def look(self, view: str) -> None:
        """Look at another view."""
        if view == "compare" and not any(self._compare.chosen):
            await self._compare.open(self._results.query, None)
        await self._open(view)
        self._at(replace=True)

    async def _open(self, view: str) -> None:
        self._view = view
        finding = self._results.query is not None
        self._root.props(f"data-view={view} data-finding={'yes' if finding else 'no'}")
        for one, button in self._buttons.items():
            button.props(f"aria-current={'true' if one == view else 'false'}")
        with self._telling.doing("read"):
            await self._refresh_view()

    def _at(self, replace: bool = False) -> None:
        """Let the address say where one is, so that it can be reloaded and gone back to."""
        first, second = self._compare.chosen if self._view == "compare" else (None, None)
        view = None if self._view == "search" else self._view
        here = address(
            self._collection.config.name,
            like=self._results.query,
            label=self._facets.chosen,
            view=view,
            first=first,
            second=second,
        )
        (ui.navigate.history.replace if replace else ui.navigate.history.push)(here)

    async def search(self, key: str) -> None:
        """Search for what is like an item."""
        with self._telling.doing("read"):
            await self._results.open(key, self._facets.chosen)
            await self._open("search")
            self._at()

    async def browse(self) -> None:
        """Go back to the gallery."""
        if self._results.query is not None:
            self._results.close()
            await self._open("search")
            self._at()

    async def choose(self, label: str | None) -> None:
        """Look at one label, or at all."""
        with self._telling.doing("read"):
            self._facets.chosen = label
            self._facets.show()
            if self._results.query is not None:
                await self._results.open(self._results.query, label)
            await self._open("search")
            self._at(replace=True)

    async def compare(self, key: str) -> None:
        """Compare a result with what was searched for."""
        with self._telling.doing("read"):
            await self._compare.open(self._results.query, key)
            await self._open("compare")
            self._at()

    # -- what changes ------------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Show everything as it is now."""
        with self._telling.doing("read"):
            await self._refresh_learning()
            try:
                await self._results.refresh()
            except NotFoundError:  # someone deleted what was searched for
                await self.browse()
                raise
            await self._refresh_view()

    async def _refresh_learning(self) -> None:
        self._seen = self._state()
        await self._weights.refresh()
        await self._log.refresh()

    async def _refresh_view(self) -> None:
        if self._view == "search" and self._results.query is None:
            await self._gallery.open(self._facets.chosen)
        elif self._view == "compare":
            await self._compare.refresh()
        elif self._view == "map":
            query, then = self._results.query, self._drawn[0]
            drawn = self._collection.published.version, self._collection.n_items, query
            late = time.monotonic() >= then + _MAP_EVERY or query != self._drawn[-1]
            if late and drawn != self._drawn[1:]:
                self._drawn = time.monotonic(), *drawn
                await self._atlas.refresh(query)

    def _state(self) -> tuple[Any, ...]:
        told = self._collection.describe()
        candidates = told["candidates"]["metric_version"]
        learned = told["metric_version"], told["last_seq"], candidates, told["learner_error"]
        return told["items"], learned, self._visit.role

    async def tick(self) -> None:
        """Look whether something has changed: by others too."""
        if self._visit.role is None:
            ui.navigate.to("/login")
            return
        if self._collection not in self._visit.service.collections:
            self._gone.set_text("This collection was deleted.")
            self._gone.set_visibility(True)
            return
        before, now = self._seen, self._state()
        with self._telling.doing("read"):
            if now[0] != before[0]:
                await self._facets.refresh()
                await self._gallery.refresh()
            if now != before:
                await self.refresh()
            elif self._view == "map":
                await self._refresh_view()
