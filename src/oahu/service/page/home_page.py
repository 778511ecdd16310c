"""The home page: all collections, or instructions if there are no collections."""

from __future__ import annotations

from typing import Any, Final

from anyio import to_thread
from fastapi import Request
from nicegui import ui

from oahu.service.collection import Collection
from oahu.service.page.browser_data import page_path, tile
from oahu.service.page.layout import Component, add_head, add_top_bar
from oahu.service.page.metric_view import spaces_with_tints
from oahu.service.page.visitor import Visitor

__all__ = ["show_home"]

_POLL_SECONDS: Final = 1.0
_ITEMS_PER_CARD: Final = 8
_EXAMPLE: Final = """import oahu

teas = oahu.Client("{address}", "teas")
teas.create(dimension=64)
teas.put(keys, vectors, labels=labels)"""


class _CollectionsComponent(Component, component="components/oahu_collections.js"):
    """One card per collection."""


@ui.page("/", title="oahu")
async def show_home(request: Request) -> None:
    """Show all collections, and update the page when a collection changes."""
    visitor = Visitor.of(request)
    add_head("oahu")
    add_top_bar(visitor)
    with ui.element("main").classes("home"):
        ui.label("Collections").classes("title").props('role="heading" aria-level="1"')
        component = _CollectionsComponent()
    example = _EXAMPLE.format(address=str(request.base_url).rstrip("/"))
    shown_state: Any = None

    async def refresh() -> None:
        nonlocal shown_state
        if visitor.role is None:
            ui.navigate.to("/login")
            return
        collections = visitor.service.collections
        state = [(one.id, one.queries.index.n_items, one.published.version, one.is_healthy) for one in collections]
        if state != shown_state:
            shown_state = state
            component.show(collections=await to_thread.run_sync(_cards, collections), example=example)

    await refresh()
    ui.timer(_POLL_SECONDS, refresh)


def _cards(collections: list[Collection]) -> list[dict[str, Any]]:
    return [_card(collection) for collection in collections]


def _card(collection: Collection) -> dict[str, Any]:
    name, published = collection.config.name, collection.published
    return {
        "name": name,
        "href": page_path(name),
        "items": [tile(name, item) for item in collection.catalogue.page(0, _ITEMS_PER_CARD)],
        "total": collection.queries.index.n_items,
        "constraints": published.constraints,
        "learner": collection.config.learner,
        "spaces": spaces_with_tints(published.weights),
        "error": "" if collection.is_healthy else "The learner of this collection has failed.",
    }
