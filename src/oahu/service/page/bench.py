"""A collection at work: one browser searches it, teaches it, and watches it learn."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qs

from fastapi import Request
from fastapi.responses import Response
from nicegui import ui

from oahu.service.collection import Collection
from oahu.service.errors import NotThereError
from oahu.service.page.atlas import Atlas
from oahu.service.page.chain import Chain
from oahu.service.page.compare import Compare
from oahu.service.page.frame import bar, head, missing
from oahu.service.page.gallery import Facets, Gallery
from oahu.service.page.help import Keys
from oahu.service.page.log import Log
from oahu.service.page.results import Results
from oahu.service.page.telling import Telling
from oahu.service.page.visit import Visit
from oahu.service.page.weights import Weights
from oahu.service.page.words import address
from oahu.service.records import Click

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
    except NotThereError as error:
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
        self._mine: list[int] = []  # what was said here, to be undone
        self._view, self._drawn = "search", 0.0
        self._seen: tuple[Any, ...] = ()
        self._telling = Telling(visit)
        tools = bar(visit, collection.config.name)
        self._chain = Chain(self._say_instead)
        with tools:
            beside = ui.element("div")
            Keys(undo=self.undo_last, back=self.browse, went=self.went)
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
                with ui.element("div").classes("view-compare"):
                    self._compare = Compare(self._telling, collection, partial(self._at, replace=True))
                with ui.element("div").classes("view-map"):
                    self._atlas = Atlas(collection, self.search)
            with ui.element("div").classes("rail"):
                self._weights = Weights(collection, beside)
                self._log = Log(self._telling, collection, self.undo, self.search)
        self._results.plate.on("back", self.browse)
        self._results.part.on("mark", lambda event: self.mark(str(event.args[0]), bool(event.args[1])))
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
            await self._gallery.open(self._facets.chosen)
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
            await self._gallery.open(label)
            if self._results.query is not None:
                await self._results.open(self._results.query, label)
            self._at(replace=True)

    async def compare(self, key: str) -> None:
        """Compare a result with what was searched for."""
        with self._telling.doing("read"):
            await self._compare.open(self._results.query, key)
            await self._open("compare")
            self._at()

    # -- saying what is alike ----------------------------------------------------------------------------

    async def mark(self, key: str, same: bool) -> None:
        """Say that a result is like what was searched for, or is not; the same again takes it back."""
        query = self._results.query
        if query is None:
            return
        if self._results.said(key) == ("alike" if same else "unlike"):
            await self._take_back(key)
        else:
            await self._say(query, key, same)

    async def _say(self, query: str, key: str, same: bool) -> None:
        again = query, key, same
        with self._telling.doing("feedback", lambda error: self._chain.open(self._collection, error, again)):
            piece = Click(query, (key,), ()) if same else Click(query, (), (key,))
            receipt = await asyncio.wrap_future(self._collection.feedback([piece]))
            self._mine.append(receipt.last_seq)
            await self.refresh()

    async def _take_back(self, key: str) -> None:
        spoken = self._results.spoken(key)
        if spoken is None:
            ui.notify("That follows from other feedback: undo it in the log.")
        else:
            await self.undo(spoken.seq)

    async def _say_instead(self, seq: int, query: str, key: str, same: bool) -> None:
        """Undo what is in the way, and say it then."""
        if await self.undo(seq):
            await self._say(query, key, same)

    async def undo(self, seq: int) -> bool:
        """Undo a piece of feedback; whether that went well."""
        done = False
        with self._telling.doing("feedback"):
            await asyncio.wrap_future(self._collection.undo(seq))
            self._mine = [one for one in self._mine if one != seq]
            done = True
            await self.refresh()
        return done

    async def undo_last(self) -> None:
        """Undo what was said here last."""
        if self._mine:
            await self.undo(self._mine[-1])
        else:
            ui.notify("Nothing was said here yet. The log undoes what others said.")

    # -- what changes ------------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Show everything as it is now."""
        with self._telling.doing("read"):
            await self._results.refresh()
            await self._refresh_learning()
            await self._refresh_view(force=True)

    async def _refresh_learning(self) -> None:
        self._seen = self._state()
        await self._weights.refresh()
        await self._log.refresh()

    async def _refresh_view(self, force: bool = False) -> None:
        if self._view == "compare":
            await self._compare.refresh()
        elif self._view == "map" and (force or time.monotonic() >= self._drawn + _MAP_EVERY):
            self._drawn = time.monotonic()
            await self._atlas.refresh(self._results.query)

    def _state(self) -> tuple[Any, ...]:
        told = self._collection.describe()
        candidates = told["candidates"]["metric_version"]
        return (
            told["metric_version"],
            told["feedback"],
            told["items"],
            candidates,
            told["learner_error"],
            self._visit.role,
        )

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
        if now == before:
            return
        with self._telling.doing("read"):
            if before[2] != now[2]:
                await self._facets.refresh()
                await self._gallery.refresh()
            await self.refresh()
