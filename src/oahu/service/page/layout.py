"""What all pages share: the head, the bar at the top, and how parts get what they show."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import Any, Final

import orjson
from fastapi.responses import HTMLResponse
from nicegui import ui
from nicegui.element import Element

from oahu.service.page.visitor import Visit

__all__ = ["ICON", "Part", "bar", "head", "missing", "plain"]

_HERE: Final = files("oahu.service.page")
_HEAD: Final = (
    f"<style>{_HERE.joinpath('style.css').read_text('utf-8')}</style>\n"
    f"<script>{_HERE.joinpath('components/theme.js').read_text('utf-8')}</script>"
)

#: Two that are alike, and one that is not.
ICON: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">'
    '<rect width="32" height="32" rx="8" fill="#0b6b73"/>'
    '<circle cx="11" cy="19" r="5" fill="#fff"/><circle cx="20" cy="19" r="5" fill="#fff" fill-opacity=".75"/>'
    '<circle cx="23" cy="9" r="3" fill="none" stroke="#fff" stroke-width="1.6"/></svg>'
)


class Part(Element, dependencies=["components/oahu_thumbnail.js"]):
    """A component of ours. All that it shows comes as JSON in one property, and it shows all of it as text."""

    def show(self, **data: Any) -> None:
        self._props["data"] = orjson.dumps(data).decode()


class Theme(Part, component="components/oahu_theme.js"):
    """The button for light and dark."""


def head(title: str) -> None:
    """Begin a page."""
    ui.page_title(title)
    ui.add_head_html(_HEAD)


def bar(visit: Visit, *crumbs: str) -> Element:
    """The bar at the top; what it returns is for more buttons."""
    with ui.element("header").classes("bar"):
        ui.link("oahu", "/").classes("mark")
        for crumb in crumbs:
            ui.label(crumb).classes("crumb").props('role="heading" aria-level="1"')
        with ui.element("div").classes("tools") as tools:
            more = ui.element("div").classes("tools")
            Theme()
            if visit.keys.needed:
                with ui.element("form").props('method="post" action="/logout"'):
                    _text("button", "Log out").props('type="submit"').classes("quiet")
        tools.classes("last")
    return more


def _text(tag: str, text: str) -> Element:
    """An element with text in it."""
    with ui.element(tag) as made:
        ui.label(text)
    return made


def plain(title: str, body: str, status: int = 200) -> HTMLResponse:
    """A page that is only HTML: for who is not let in yet, and for what is not there. The title is escaped here."""
    icon = f"data:image/svg+xml,{escape(ICON.replace('#', '%23'), quote=True)}"
    return HTMLResponse(
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(title)}</title><link rel="icon" href="{icon}">{_HEAD}</head>'
        f'<body class="plain"><main><p class="mark">oahu</p>{body}</main></body></html>',
        status,
        {"Cache-Control": "no-store"},
    )


def missing(problem: str) -> HTMLResponse:
    """The page for what is not there."""
    return plain(
        "Not there - oahu", f'<h1>Not there</h1><p>{escape(problem)}</p><p><a href="/">All collections</a></p>', 404
    )
