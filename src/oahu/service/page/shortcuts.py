"""Which keys do what."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from nicegui import ui

from oahu.service.page.layout import Part

__all__ = ["Keys"]

_KEYS: Final = (
    ("← ↑ → ↓", "move among the results"),
    ("Enter", "search for the one you are at"),
    ("a +", "it is alike"),
    ("n -", "it is not alike; the same again takes it back"),
    ("c", "compare it with what was searched for"),
    ("u", "undo what you said last"),
    ("Esc", "back to the gallery"),
    ("?", "show this"),
)


class _KeysPart(Part, component="components/oahu_shortcuts.js"):
    """Listens to keys, and to the browser's way back."""


class Keys:
    """Keys that work everywhere, and a dialog that tells them."""

    def __init__(self, back: Callable[[], Awaitable[None]], went: Callable[[str], Awaitable[None]]) -> None:
        with ui.dialog() as dialog, ui.element("div").classes("sheet keys"):
            ui.label("Keys").props('role="heading" aria-level="2"').classes("title")
            with ui.element("dl"):
                for keys, does in _KEYS:
                    with ui.element("dt"):
                        for key in keys.split():
                            with ui.element("kbd"):
                                ui.label(key)
                    with ui.element("dd"):
                        ui.label(does)
        self._part = _KeysPart()
        self._part.on("help", dialog.open)
        self._part.on("back", back)
        self._part.on("went", lambda event: went(str(event.args)))

    def on_undo(self, undo: Callable[[], Awaitable[None]]) -> None:
        """Undo what was said last with a key."""
        self._part.on("undo", undo)
