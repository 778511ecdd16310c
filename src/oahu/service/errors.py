"""What the service refuses, and with which status it says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oahu.exceptions import OAHUError

__all__ = [
    "ConflictError",
    "ContradictoryFeedbackError",
    "ForbiddenError",
    "InvalidRequestError",
    "LearnerFailedError",
    "NotFoundError",
    "OverloadedError",
    "ServiceError",
    "StoreBusyError",
    "StoreFullError",
    "StoreUnavailableError",
    "UnauthorizedError",
]


class ServiceError(OAHUError):
    """The root of what the service refuses.

    Attributes
    ----------
    status : int
        Of HTTP.
    kind : str
        The last part of the problem's type: what programs tell problems apart by.
    more : dict
        What else the answer says, as plain JSON.
    retry_after : float or None
        Seconds after which it is worth trying again.
    """

    status = 500
    kind = "internal"
    title = "Something went wrong"

    def __init__(self, message: str, *, retry_after: float | None = None, **more: Any) -> None:
        super().__init__(message)
        self.retry_after, self.more = retry_after, more


class InvalidRequestError(ServiceError):
    """What was sent cannot be meant."""

    status, kind, title = 422, "invalid", "The request is not valid"


class NotFoundError(ServiceError):
    """There is no such collection, item or piece of feedback."""

    status, kind, title = 404, "not-found", "There is no such thing"


class ConflictError(ServiceError):
    """It is there already, or was done already."""

    status, kind, title = 409, "conflict", "That was there or done already"


class ContradictoryFeedbackError(ServiceError):
    """Feedback contradicts what was said before; ``chain`` proves it, link by link."""

    status, kind, title = 409, "contradiction", "The feedback contradicts what was said before"

    def __init__(self, message: str, chain: Sequence[dict[str, Any]], **more: Any) -> None:
        super().__init__(message, chain=list(chain), **more)


class UnauthorizedError(ServiceError):
    """No key, or none that is known."""

    status, kind, title = 401, "unauthorized", "A valid API key is needed"


class ForbiddenError(ServiceError):
    """The key does not allow it."""

    status, kind, title = 403, "forbidden", "That is not allowed"


class OverloadedError(ServiceError):
    """More is waiting than may wait; nothing was accepted."""

    status, kind, title = 503, "overloaded", "The service is busy"


class StoreFullError(ServiceError):
    """The disk is full; nothing was accepted."""

    status, kind, title = 507, "disk-full", "There is no space left to store this"


class StoreUnavailableError(ServiceError):
    """The store cannot be written to; nothing was accepted."""

    status, kind, title = 503, "store-unavailable", "The store cannot be written to"


class LearnerFailedError(ServiceError):
    """The learner of a collection has failed; what it had learned is still searched by."""

    status, kind, title = 503, "learner-stopped", "The learner has stopped"


class StoreBusyError(ServiceError):
    """Another process has the store."""

    status, kind, title = 503, "store-busy", "Another process uses this store"
