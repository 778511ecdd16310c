"""The Host header must name the service."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oahu.service.api.hosts import host_name, is_loopback
from oahu.service.keys import KeyFile

C = "/v1/collections"


def test_an_open_service_accepts_loopback_names(server: Any) -> None:
    for host in ["localhost", "LOCALHOST:8000", "127.0.0.1", "127.0.0.1:1", "127.1.2.3", "[::1]:80", "[::1]"]:
        assert server.send(Host=host).status_code == 200, host


FOREIGN = [
    *("evil.example", "evil.example:8000", "127.evil.example", "127.0.0.1.evil.example", "localhost.evil.example"),
    *(
        "evil.localhost.example",
        "0.0.0.0",
        "192.168.0.1",
        "[::]",
        "[::2]:80",
        "",
        ":8000",
        "127.0.0.1@evil.example",
    ),
]


def test_an_open_service_rejects_other_names(server: Any) -> None:
    """Otherwise a web site could point its host name to this machine and use the service."""
    for host in FOREIGN:
        response = server.send(Host=host)
        assert (response.status_code, response.json()["type"]) == (421, "urn:oahu:problem:wrong-host"), host


def test_all_methods_and_paths_check_the_host(server: Any) -> None:
    for method, path in [
        *((method, C) for method in ("GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE")),
        *(("GET", path) for path in ("/healthz", "/metrics", "/nothing")),
    ]:
        assert server.send(method, path, Host="evil.example").status_code == 421, (method, path)


@pytest.mark.parametrize("setting", [{"trusted_hosts": ("a.example",)}, {"https": True}, {"host": "0.0.0.0"}])
def test_a_public_service_is_never_open(start_server: Any, setting: dict[str, Any]) -> None:
    """This applies to direct access and to access through a proxy."""
    assert start_server(**setting).send().status_code == 401


def test_with_keys_any_name_is_accepted(start_server: Any, tmp_path: Path) -> None:
    key = KeyFile(tmp_path / "data").add("one", "read")
    bearer = f"Bearer {key}"
    assert start_server().send(Host="any.example", Authorization=bearer).status_code == 200


def test_with_trusted_hosts_other_names_are_rejected(start_server: Any, tmp_path: Path) -> None:
    key = KeyFile(tmp_path / "data").add("one", "read")
    server, bearer = start_server(trusted_hosts=("Mine.example",)), f"Bearer {key}"
    assert server.send(Host="mine.example:443", Authorization=bearer).status_code == 200
    assert server.send(Host="any.example", Authorization=bearer).status_code == 421


@given(st.from_regex(r"\A[a-z0-9.:\[\]-]{0,40}\Z"))
@settings(max_examples=300)
def test_only_loopback_addresses_are_loopback(host: str) -> None:
    """The oracle is the system: an address is loopback if it is in 127.0.0.0/8 or is ::1."""
    result = is_loopback(host)
    if result and host != "localhost":
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        packed = socket.inet_pton(family, host)
        assert packed[0] == 127 if family == socket.AF_INET else packed == bytes(15) + b"\x01"


@given(st.sampled_from(["localhost", "127.0.0.1", "::1", "a.example"]), st.none() | st.integers(1, 65_535))
def test_host_name_removes_the_port(name: str, port: int | None) -> None:
    host = f"[{name}]" if ":" in name else name
    assert host_name(host if port is None else f"{host}:{port}") == name
