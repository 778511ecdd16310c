"""Properties of a request that several middlewares need."""

from __future__ import annotations

from typing import Final

from starlette.types import Scope

__all__ = [
    "API_PREFIX",
    "COUNT_REQUESTS",
    "REQUEST_ID",
    "SAFE_METHODS",
    "changes_state",
    "client_address",
    "count_requests",
    "is_api_request",
    "request_id",
]

API_PREFIX: Final = "/v1/"
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})

#: The scope entry that `RequestIdMiddleware` sets.
REQUEST_ID: Final = "oahu_request_id"
#: The scope entry that `RateLimitMiddleware` sets for API keys with a limit of requests.
COUNT_REQUESTS: Final = "oahu_count_requests"


def is_api_request(scope: Scope) -> bool:
    """Return whether a request is for an operation of the HTTP API."""
    path: str = scope["path"]
    return path.startswith(API_PREFIX)


def changes_state(scope: Scope) -> bool:
    """Return whether a request may change data. This is always True for a WebSocket."""
    return scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS


def client_address(scope: Scope) -> str:
    """Return the address of the client, or an empty string if the address is unknown."""
    return str((scope.get("client") or ("",))[0])


def count_requests(scope: Scope, count: int) -> None:
    """Count a request as ``count`` further requests for the limit of its API key, if the key has such a limit."""
    if count_for_key := scope.get(COUNT_REQUESTS):
        count_for_key(count)


def request_id(scope: Scope) -> str:
    """Return the id of a request, or an empty string if the request has no id."""
    return str(scope.get(REQUEST_ID, ""))
