"""A runner for the actions of a visitor, which checks the visitor's role and shows errors as notifications."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nicegui import ui

from oahu.service.errors import ContradictoryFeedbackError, ServiceError, UnauthorizedError
from oahu.service.keys import Role
from oahu.service.page.visitor import Visitor

__all__ = ["ActionRunner"]

log = logging.getLogger("oahu.service")


class ActionRunner:
    """A runner for the actions of one visitor. Errors are shown as notifications."""

    def __init__(self, visitor: Visitor) -> None:
        self.visitor = visitor

    @contextmanager
    def run(
        self, needed: Role, on_contradiction: Callable[[ContradictoryFeedbackError], None] | None = None
    ) -> Iterator[None]:
        """Check the role of the visitor, and show errors of the ``with`` block as notifications."""
        try:
            self.visitor.check(needed)
            yield
        except ContradictoryFeedbackError as error:
            if on_contradiction is None:
                raise
            on_contradiction(error)
        except UnauthorizedError:
            ui.navigate.to("/login")
        except ServiceError as error:
            ui.notify(str(error), multi_line=True)
        except Exception:
            log.exception("an action on the page failed")
            ui.notify("Internal error. See the service log for details.")

    async def read(self, action: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Run an action that needs the read role."""
        with self.run("read"):
            await action(*args)
