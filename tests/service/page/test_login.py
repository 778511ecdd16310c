"""Login, roles and sessions of the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


@pytest.fixture
def log_in_and_open(browser_context: Any, window: Any, protected_server: Any) -> Callable[[str, str], Any]:
    """Logs in with a key and opens a path."""

    def log_in(token: str, path: str) -> Any:
        browser_context.clear_cookies()
        window.address = protected_server.address
        window.go(path)
        window.log_in(token)
        expect(window.page.locator(".bar")).to_be_visible()
        return window

    return log_in


def test_visitors_without_a_session_are_redirected_to_the_login(protected_server: Any) -> None:
    for path in ("/", "/collections/digits?like=a%20b"):
        assert httpx.get(protected_server.address + path, follow_redirects=True).url.path == "/login"
    socket = httpx.get(f"{protected_server.address}/_nicegui_ws/socket.io/?EIO=4&transport=polling")
    assert socket.status_code == 303


def test_visitors_without_a_session_cannot_detect_collections(protected_server: Any, protected_digits: Any) -> None:
    existing, missing = (
        httpx.get(f"{protected_server.address}/collections/{name}") for name in (protected_digits.name, "nothing")
    )
    assert existing.status_code == missing.status_code == 303
    assert "d-00" not in existing.text


def test_an_invalid_key_shows_a_message(open_window: Any, protected_server: Any) -> None:
    window = open_window(protected_server.address)
    window.go("/")
    window.log_in("oahu_00000000_wrong")
    expect(window.page.locator(".banner")).to_contain_text("not valid, was revoked")


def test_the_cookie_is_http_only_and_does_not_contain_the_key(protected_server: Any) -> None:
    cookie = httpx.post(f"{protected_server.address}/login", data={"key": protected_server.admin}).headers[
        "set-cookie"
    ]
    assert {part.strip().lower() for part in cookie.split(";")[1:]} == {"httponly", "path=/", "samesite=strict"}
    assert protected_server.admin.split("_", 2)[2] not in cookie


@pytest.mark.parametrize(
    "target",
    ["https://elsewhere.example/", "//elsewhere.example", "/\\elsewhere.example", "javascript:alert(1)", "x\n/"],
)
def test_the_login_does_not_lead_to_other_sites(protected_server: Any, target: str) -> None:
    answer = httpx.post(f"{protected_server.address}/login", data={"key": protected_server.admin, "next": target})
    assert answer.headers["location"] == "/"


def test_the_requested_page_is_escaped_in_the_form(protected_server: Any) -> None:
    answer = httpx.get(f"{protected_server.address}/login", params={"next": '/"><script>alert(1)</script>'})
    assert "<script>alert" not in answer.text


def test_a_login_from_another_site_is_rejected(protected_server: Any) -> None:
    answer = httpx.post(
        f"{protected_server.address}/login",
        data={"key": protected_server.admin},
        headers={"Origin": "https://elsewhere.example"},
    )
    assert answer.status_code == 403


def test_the_read_role_can_search(log_in_and_open: Any, protected_server: Any, protected_digits: Any) -> None:
    thumbnail = f"{protected_server.address}/v1/collections/{protected_digits.name}/thumbnails/d-00"
    assert httpx.get(thumbnail).status_code == 401
    window = log_in_and_open(protected_server.read, f"/collections/{protected_digits.name}")
    window.page.wait_for_function("document.querySelector('.tile img')?.naturalWidth === 64")
    window.tile("d-07").locator(".image").click()
    assert len(window.results()) == 24


def test_the_read_role_cannot_mark(log_in_and_open: Any, protected_server: Any, protected_digits: Any) -> None:
    window = log_in_and_open(protected_server.read, f"/collections/{protected_digits.name}?like=d-07")
    expect(window.tile(window.results()[0]).locator(".mark.similar")).to_be_disabled()
    expect(window.page.locator(".query-panel .hint")).to_contain_text("feedback role")
    window.page.evaluate(
        "() => { const button = document.querySelector('.mark.similar'); button.disabled = false; button.click(); }"
    )
    expect(window.page.locator(".q-notification")).to_contain_text("feedback role")
    assert not list(protected_digits.client.feedback_log())


def test_the_read_role_cannot_undo(log_in_and_open: Any, protected_server: Any, protected_digits: Any) -> None:
    protected_digits.client.feedback(query="d-07", positive=["d-17"])
    window = log_in_and_open(protected_server.read, f"/collections/{protected_digits.name}")
    window.log_row(1).locator(".undo").evaluate("one => { one.disabled = false; one.click(); }")
    expect(window.page.locator(".q-notification")).to_contain_text("feedback role")
    assert len(list(protected_digits.client.feedback_log())) == 1


def test_the_feedback_role_can_mark_until_its_key_is_revoked(
    log_in_and_open: Any, protected_server: Any, protected_digits: Any
) -> None:
    token = protected_server.add_key("feedback")
    window = log_in_and_open(token, f"/collections/{protected_digits.name}?like=d-07")
    expect(window.page.locator(".query-panel h2")).to_have_text("d-07")  # the requested page
    first = window.results()[0]
    window.mark(first, "similar")
    assert [one["positive"] for one in protected_digits.client.feedback_log()] == [[first]]
    protected_server.remove_key(token)
    window.page.wait_for_url("**/login*")


def test_logging_out_ends_the_session_in_all_windows(log_in_and_open: Any, protected_server: Any) -> None:
    window = log_in_and_open(protected_server.read, "/")
    cookies = {one["name"]: one["value"] for one in window.page.context.cookies()}
    other = type(window)(window.page.context.new_page(), window.address)
    other.go()
    expect(other.page.locator(".bar")).to_be_visible()
    window.page.click("text=Log out")
    other.page.wait_for_url("**/login*")
    other.page.close()
    assert httpx.get(f"{protected_server.address}/", cookies=cookies).status_code == 303


def test_without_keys_no_login_is_needed(address: str) -> None:
    assert httpx.get(f"{address}/login").headers["location"] == "/"
