"""The keyboard shortcuts, and the dialog that lists the shortcuts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from nicegui import ui

from oahu.service.page.layout import Component

__all__ = ["Shortcuts"]

_SHORTCUTS: Final = (
    ("← ↑ → ↓", "move between the results"),
    ("Enter", "search for the focused item"),
    ("a +", "mark it as alike; again to undo"),
    ("n -", "mark it as not alike; again to undo"),
    ("c", "compare it with the query"),
    ("u", "undo your last feedback"),
    ("Esc", "back to all items"),
    ("?", "show this list"),
)


class _ShortcutsComponent(Component, component="components/oahu_shortcuts.js"):
    """The component that handles key presses and the back button of the browser."""


class Shortcuts:
    """The shortcuts of a page.

    Parameters
    ----------
    on_escape : callable
        A function that is called when the visitor presses the escape key.
    on_navigation : callable
        A function that is called after the back or forward button was used. Its argument is the query string of the
        address.
    """

    def __init__(
        self, on_escape: Callable[[], Awaitable[None]], on_navigation: Callable[[str], Awaitable[None]]
    ) -> None:
        with ui.dialog() as dialog, ui.element("div").classes("sheet shortcuts"):
            ui.label("Keyboard shortcuts").props('role="heading" aria-level="2"').classes("title")
            with ui.element("dl"):
                for keys, action in _SHORTCUTS:
                    with ui.element("dt"):
                        for key in keys.split():
                            with ui.element("kbd"):
                                ui.label(key)
                    with ui.element("dd"):
                        ui.label(action)
        self._component = _ShortcutsComponent()
        self._component.on("help", dialog.open)
        self._component.on("escape", on_escape)
        self._component.on("navigate", lambda event: on_navigation(str(event.args)))

    def on_undo(self, undo: Callable[[], Awaitable[None]]) -> None:
        """Register the function that is called for the undo key."""
        self._component.on("undo", undo)
