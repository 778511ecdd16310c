"""The common layout of all pages: the head, the top bar, the base class of components, and plain HTML pages."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import Any, Final

import orjson
from fastapi.responses import HTMLResponse
from nicegui import ui
from nicegui.element import Element

from oahu.service.page.visitor import Visitor

__all__ = ["ICON", "Component", "add_head", "add_top_bar", "not_found_page", "plain_page"]

_FILES: Final = files("oahu.service.page")
_HEAD: Final = (
    f"<style>{_FILES.joinpath('style.css').read_text('utf-8')}</style>\n"
    f"<script>{_FILES.joinpath('components/theme.js').read_text('utf-8')}</script>"
)

#: The icon: two similar items and a dissimilar item.
ICON: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">'
    '<rect width="32" height="32" rx="8" fill="#0b6b73"/>'
    '<circle cx="11" cy="19" r="5" fill="#fff"/><circle cx="20" cy="19" r="5" fill="#fff" fill-opacity=".75"/>'
    '<circle cx="23" cy="9" r="3" fill="none" stroke="#fff" stroke-width="1.6"/></svg>'
)


class Component(Element, dependencies=["components/oahu_thumbnail.js"]):
    """The base class of the Vue components. A component shows its JSON data as text, never as HTML."""

    def show(self, **data: Any) -> None:
        self._props["data"] = orjson.dumps(data).decode()


class _ThemeButton(Component, component="components/oahu_theme.js"):
    """The button that switches between light and dark colours."""


def add_head(title: str) -> None:
    """Add the title, the style sheet and the theme script to a page."""
    ui.page_title(title)
    ui.add_head_html(_HEAD)


def add_top_bar(visitor: Visitor, *headings: str) -> Element:
    """Add the bar at the top of a page. Return the element to which the page adds its buttons."""
    with ui.element("header").classes("bar"):
        ui.link("oahu", "/").classes("brand")
        for heading in headings:
            ui.label(heading).classes("crumb").props('role="heading" aria-level="1"')
        with ui.element("div").classes("tools") as tools:
            page_tools = ui.element("div").classes("tools")
            _ThemeButton()
            if visitor.keys.is_required():
                form = ui.element("form").props('method="post" action="/logout"')
                with form, ui.element("button").props('type="submit"').classes("quiet"):
                    ui.label("Log out")
        tools.classes("last")
    return page_tools


def plain_page(title: str, body: str, status: int = 200) -> HTMLResponse:
    """Return a page of plain HTML. This function escapes the title. The caller must escape the body."""
    icon = f"data:image/svg+xml,{escape(ICON.replace('#', '%23'), quote=True)}"
    return HTMLResponse(
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(title)}</title><link rel="icon" href="{icon}">{_HEAD}</head>'
        f'<body class="plain"><main><p class="brand">oahu</p>{body}</main></body></html>',
        status,
        {"Cache-Control": "no-store"},
    )


def not_found_page(message: str) -> HTMLResponse:
    """Return a page with the status 404."""
    return plain_page(
        "Not found - oahu", f'<h1>Not found</h1><p>{escape(message)}</p><p><a href="/">All collections</a></p>', 404
    )
