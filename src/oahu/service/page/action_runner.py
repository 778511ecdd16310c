"""Telling a visitor what the service refuses."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nicegui import ui

from oahu.service.errors import ContradictoryFeedbackError, ServiceError, UnauthorizedError
from oahu.service.keys import Role
from oahu.service.page.visitor import Visit

__all__ = ["Telling"]

log = logging.getLogger("oahu.service")


class Telling:
    """Lets a visitor do what they may, and tells them what went wrong."""

    def __init__(self, visit: Visit) -> None:
        self.visit = visit

    @contextmanager
    def doing(
        self, needed: Role, contradicted: Callable[[ContradictoryFeedbackError], None] | None = None
    ) -> Iterator[None]:
        """Do something that needs a role, at this moment."""
        try:
            self.visit.check(needed)
            yield
        except ContradictoryFeedbackError as error:
            if contradicted is None:
                raise
            contradicted(error)
        except UnauthorizedError:
            ui.navigate.to("/login")
        except ServiceError as error:
            ui.notify(str(error), multi_line=True)
        except Exception:
            log.exception("what a visitor of the page did has failed")
            ui.notify("Something went wrong. The log of the service tells what.")

    async def reading(self, work: Callable[..., Awaitable[None]], *given: Any) -> None:
        """Do something that only looks."""
        with self.doing("read"):
            await work(*given)
