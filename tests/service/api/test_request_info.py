"""Facts about a request, read from its ASGI scope."""

from __future__ import annotations

from typing import Any

import pytest

from oahu.service.api.request_info import client_address


@pytest.mark.parametrize(
    ("scope", "expected"),
    [({"client": ("10.0.0.7", 4711)}, "10.0.0.7"), ({"client": None}, ""), ({}, "")],
)
def test_the_address_of_the_client_may_be_unknown(scope: dict[str, Any], expected: str) -> None:
    assert client_address(scope) == expected
