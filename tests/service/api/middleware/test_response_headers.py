"""Security headers, request ids and error responses."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest

C = "/v1/collections"


SECURE = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@pytest.fixture
def failing_server(server: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A server that raises an unexpected error when it lists the collections."""

    def fail(*_: Any) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr("oahu.service.api.routes.collection_routes.get_service", fail)
    return server


REQUESTS: dict[str, Callable[[Any], httpx.Response]] = {
    "success": lambda server: server.send(),
    "not found": lambda server: server.send(path="/nothing"),
    "wrong method": lambda server: server.send("PATCH"),
    "invalid": lambda server: server.send("POST"),
    "wrong host": lambda server: server.send(Host="evil.example"),
    "wrong origin": lambda server: server.send("POST", Origin="null"),
    "too large": lambda server: server.http.post(C, content=bytes(33 * 2**20)),
    "metrics": lambda server: server.send(path="/metrics"),
    "schema": lambda server: server.send(path="/v1/openapi.json"),
}


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_every_response_has_security_headers_and_an_id(
    server: Any, request_: Callable[[Any], httpx.Response]
) -> None:
    response = request_(server)
    assert {name: response.headers.get(name) for name in SECURE} == SECURE
    assert "frame-ancestors 'none'" in response.headers["content-security-policy"]
    assert re.fullmatch(r"[0-9a-f]{16}-[0-9a-f]+", response.headers["x-request-id"])


def test_api_responses_are_not_cached(server: Any) -> None:
    for response in (server.send(), server.send(path=f"{C}/nothing"), server.send("POST")):
        assert response.headers["cache-control"] == "no-store"


def test_an_unexpected_error_reveals_only_its_request_id(
    failing_server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    response = failing_server.send(X_Request_ID="mine")
    assert response.status_code == 500
    assert response.json() == {
        "type": "urn:oahu:problem:internal",
        "title": "Internal error",
        "status": 500,
        "detail": "Internal error. See the service log for request mine.",
        "request_id": "mine",
    }
    assert {name: response.headers.get(name) for name in SECURE} == SECURE
    (record,) = [one for one in caplog.records if one.exc_info]
    assert "a secret" in str(record.exc_info)
    assert record.request_id == "mine"


def test_a_valid_request_id_of_the_client_is_used(server: Any) -> None:
    response = server.send(path="/nothing", X_Request_ID="trace-1.a:b_C")
    assert (response.headers["x-request-id"], response.json()["request_id"]) == ("trace-1.a:b_C", "trace-1.a:b_C")


@pytest.mark.parametrize(
    "given_id", ["", "a b", "<script>", "a" * 65, "a\tb", "ä", "٣", "a;b", '"', "a\\nb", "${x}"]
)
def test_an_invalid_request_id_is_replaced(server: Any, given_id: str) -> None:
    response = server.http.get("/nothing", headers={"X-Request-ID": given_id.encode()})
    assert re.fullmatch(r"[0-9a-f]{16}-[0-9a-f]+", response.headers["x-request-id"])
    assert response.headers.get_list("x-request-id") == [response.headers["x-request-id"]]
