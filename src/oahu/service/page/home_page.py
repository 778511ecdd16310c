"""The first page: all collections, or how to start."""

from __future__ import annotations

from typing import Any, Final

from anyio import to_thread
from fastapi import Request
from nicegui import ui

from oahu.service.collection import Collection
from oahu.service.page.browser_data import address, tile
from oahu.service.page.layout import Part, bar, head
from oahu.service.page.metric_view import parts_of
from oahu.service.page.visitor import Visit

__all__ = ["show_home"]

_EVERY: Final = 1.0  # seconds between looks at what has changed
_STRIP: Final = 8  # items that a card shows
_EXAMPLE: Final = """import oahu

teas = oahu.Client("{address}", "teas")
teas.create(dimension=64)
teas.put(keys, vectors, labels=labels)"""


class _Cards(Part, component="components/oahu_collections.js"):
    """A card for every collection."""


@ui.page("/", title="oahu")
async def show_home(request: Request) -> None:
    """All collections."""
    visit = Visit.of(request)
    head("oahu")
    bar(visit)
    with ui.element("main").classes("home"):
        ui.label("Collections").classes("title").props('role="heading" aria-level="1"')
        cards = _Cards()
    seen: list[Any] = []
    example = _EXAMPLE.format(address=str(request.base_url).rstrip("/"))

    async def look() -> None:
        if visit.role is None:
            ui.navigate.to("/login")
            return
        found = visit.service.collections
        now = [(one.id, one.n_items, one.published.version, one.is_healthy) for one in found]
        if now != seen:
            seen[:] = now
            cards.show(collections=await to_thread.run_sync(_all, found), example=example)

    seen.append(None)
    await look()
    ui.timer(_EVERY, look)


def _all(collections: list[Collection]) -> list[dict[str, Any]]:
    return [_card(collection) for collection in collections]


def _card(collection: Collection) -> dict[str, Any]:
    name, published = collection.config.name, collection.published
    return {
        "name": name,
        "href": address(name),
        "items": [tile(name, item) for item in collection.page(0, _STRIP)],
        "total": collection.n_items,
        "constraints": published.constraints,
        "learner": collection.config.learner,
        "parts": parts_of(published.weights),
        "error": "" if collection.is_healthy else "Its learner has stopped.",
    }
