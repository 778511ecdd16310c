"""Which keys do what."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from nicegui import ui

from oahu.service.page.frame import Part

__all__ = ["Keys"]

_KEYS: Final = (
    ("← ↑ → ↓", "move among results"),
    ("Enter", "search for the one you are at"),
    ("a  or  +", "it is alike"),
    ("n  or  -", "it is not alike"),
    ("c", "compare it with what was searched for"),
    ("u", "undo what you said last"),
    ("Esc", "back to the gallery"),
    ("?", "show this"),
)


class _KeysPart(Part, component="parts/oahu_keys.js"):
    """Listens to keys, and to the browser's way back."""


class Keys:
    """Keys that work everywhere, and a dialog that tells them."""

    def __init__(self, undo: Any, back: Any, went: Callable[[str], Awaitable[None]]) -> None:
        with ui.dialog() as dialog, ui.element("div").classes("sheet keys"):
            ui.label("Keys").props('role="heading" aria-level="2"').classes("title")
            with ui.element("dl"):
                for key, does in _KEYS:
                    with ui.element("dt"), ui.element("kbd"):
                        ui.label(key)
                    with ui.element("dd"):
                        ui.label(does)
        part = _KeysPart()
        part.on("help", dialog.open)
        part.on("undo", undo)
        part.on("back", back)
        part.on("went", lambda event: went(str(event.args)))
