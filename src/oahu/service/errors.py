"""Errors of the service, and their HTTP status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oahu.exceptions import OAHUError

__all__ = [
    "ConflictError",
    "ContradictoryFeedbackError",
    "EncoderFailedError",
    "EncoderTimeoutError",
    "ForbiddenError",
    "InvalidRequestError",
    "LearnerFailedError",
    "NotFoundError",
    "NotLearnedError",
    "OverloadedError",
    "QuotaExceededError",
    "ServiceError",
    "StoreBusyError",
    "StoreFullError",
    "StoreUnavailableError",
    "UnauthorizedError",
]


class ServiceError(OAHUError):
    """Base class of all errors of the service.

    Attributes
    ----------
    status : int
        The HTTP status.
    kind : str
        The last part of the problem type URI in the HTTP response. Programs can distinguish errors by this part.
    title : str
        A short description of the kind of error.
    more : dict
        Further fields of the HTTP response, as plain JSON.
    retry_after : float or None
        The number of seconds after which the client may send the request again. None if this time is unknown.
    """

    status = 500
    kind = "internal"
    title = "Internal error"

    def __init__(self, message: str, *, retry_after: float | None = None, **more: Any) -> None:
        super().__init__(message)
        self.retry_after, self.more = retry_after, more


class InvalidRequestError(ServiceError):
    """The request is not valid."""

    status, kind, title = 422, "invalid", "Invalid request"


class NotFoundError(ServiceError):
    """The collection, item or log entry does not exist."""

    status, kind, title = 404, "not-found", "Not found"


class ConflictError(ServiceError):
    """The resource already exists, or the request conflicts with the state of the resource."""

    status, kind, title = 409, "conflict", "Already exists or conflicts with the current state"


class ContradictoryFeedbackError(ServiceError):
    """Feedback contradicts other feedback. ``proof`` is the chain of constraints that implies the opposite."""

    status, kind, title = 409, "contradiction", "The feedback contradicts earlier feedback"

    def __init__(self, message: str, proof: Sequence[dict[str, Any]], **more: Any) -> None:
        super().__init__(message, proof=list(proof), **more)


class UnauthorizedError(ServiceError):
    """The request has no valid API key."""

    status, kind, title = 401, "unauthorized", "A valid API key is required"


class ForbiddenError(ServiceError):
    """The role of the API key does not permit the request."""

    status, kind, title = 403, "forbidden", "Not permitted"


class EncoderFailedError(ServiceError):
    """The encoder of texts and images failed. Requests with vectors are not affected."""

    status, kind, title = 502, "encoder-failed", "The encoder failed"


class EncoderTimeoutError(ServiceError):
    """The encoder of texts and images took too long. Requests with vectors are not affected."""

    status, kind, title = 504, "encoder-timeout", "The encoder took too long"


class QuotaExceededError(ServiceError):
    """The request exceeds a limit of the API key."""

    status, kind, title = 403, "quota", "A limit of the API key is exceeded"


class OverloadedError(ServiceError):
    """A queue is full or too many operations are running. Nothing was accepted."""

    status, kind, title = 503, "overloaded", "The service is overloaded"


class StoreFullError(ServiceError):
    """The disk is full. Nothing was accepted."""

    status, kind, title = 507, "disk-full", "The disk is full"


class StoreUnavailableError(ServiceError):
    """Writing to the store failed. Nothing was accepted."""

    status, kind, title = 503, "store-unavailable", "The store is not available"


class LearnerFailedError(ServiceError):
    """The learner of a collection has failed. Searches continue to use the last metric."""

    status, kind, title = 503, "learner-failed", "The learner has failed"


class NotLearnedError(ServiceError):
    """The learner has not learned all feedback in time."""

    status, kind, title = 503, "not-learned", "Feedback is not learned yet"


class StoreBusyError(ServiceError):
    """Another process uses the store."""

    status, kind, title = 503, "store-busy", "The store is in use by another process"
