"""Login, roles and sessions of the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


@pytest.fixture
def visit(visitor: Any, look: Any, locked: Any) -> Callable[[str, str], Any]:
    """Logs in with a key and opens a path."""

    def visit(token: str, path: str) -> Any:
        visitor.clear_cookies()
        look.address = locked.address
        look.go(path)
        look.log_in(token)
        expect(look.page.locator(".bar")).to_be_visible()
        return look

    return visit


@pytest.mark.parametrize("path", ["/", "/collections/digits?like=a%20b"])
def test_visitors_without_a_session_are_redirected_to_the_login(locked: Any, path: str) -> None:
    answer = httpx.get(locked.address + path, follow_redirects=True)
    assert answer.url.path == "/login"


def test_visitors_without_a_session_get_no_items(locked: Any, locked_digits: Any) -> None:
    answer = httpx.get(f"{locked.address}/collections/{locked_digits.name}", follow_redirects=True)
    assert "d-00" not in answer.text


def test_visitors_without_a_session_cannot_detect_collections(locked: Any, locked_digits: Any) -> None:
    there, not_there = (
        httpx.get(f"{locked.address}/collections/{name}") for name in (locked_digits.name, "nothing")
    )
    assert there.status_code == not_there.status_code == 303


def test_visitors_without_a_session_get_no_socket(locked: Any) -> None:
    answer = httpx.get(f"{locked.address}/_nicegui_ws/socket.io/?EIO=4&transport=polling")
    assert answer.status_code == 303


def test_the_login_leads_to_the_requested_page(visit: Any, locked: Any, locked_digits: Any) -> None:
    look = visit(locked.admin, f"/collections/{locked_digits.name}?like=d-07")
    expect(look.page.locator(".query-panel h2")).to_have_text("d-07")


def test_an_invalid_key_shows_a_message(window: Any, locked: Any) -> None:
    look = window(locked.address)
    look.go("/")
    look.log_in("oahu_00000000_wrong")
    expect(look.page.locator(".banner")).to_contain_text("not valid or was revoked")


def test_the_cookie_is_http_only_and_same_site(locked: Any) -> None:
    answer = httpx.post(f"{locked.address}/login", data={"key": locked.admin})
    flags = {part.strip().lower() for part in answer.headers["set-cookie"].split(";")[1:]}
    assert flags == {"httponly", "path=/", "samesite=strict"}


def test_the_cookie_does_not_contain_the_key(locked: Any) -> None:
    answer = httpx.post(f"{locked.address}/login", data={"key": locked.admin})
    assert locked.admin.split("_", 2)[2] not in answer.headers["set-cookie"]


@pytest.mark.parametrize(
    "goal",
    ["https://elsewhere.example/", "//elsewhere.example", "/\\elsewhere.example", "javascript:alert(1)", "x\n/"],
)
def test_the_login_does_not_lead_to_other_sites(locked: Any, goal: str) -> None:
    answer = httpx.post(f"{locked.address}/login", data={"key": locked.admin, "next": goal})
    assert answer.headers["location"] == "/"


def test_the_requested_page_is_escaped_in_the_form(locked: Any) -> None:
    answer = httpx.get(f"{locked.address}/login", params={"next": '/"><script>alert(1)</script>'})
    assert "<script>alert" not in answer.text


def test_a_login_from_another_site_is_rejected(locked: Any) -> None:
    answer = httpx.post(
        f"{locked.address}/login", data={"key": locked.admin}, headers={"Origin": "https://elsewhere.example"}
    )
    assert answer.status_code == 403


def test_the_read_role_can_search(visit: Any, locked: Any, locked_digits: Any) -> None:
    look = visit(locked.key("read"), f"/collections/{locked_digits.name}")
    look.tile("d-07").locator(".image").click()
    assert len(look.results()) == 24


def test_the_read_role_cannot_mark_and_sees_why(visit: Any, locked: Any, locked_digits: Any) -> None:
    look = visit(locked.key("read"), f"/collections/{locked_digits.name}?like=d-07")
    expect(look.tile(look.results()[0]).locator(".mark.similar")).to_be_disabled()
    expect(look.page.locator(".query-panel .hint")).to_contain_text("feedback role")


def test_the_read_role_cannot_mark_with_an_enabled_button(visit: Any, locked: Any, locked_digits: Any) -> None:
    look = visit(locked.key("read"), f"/collections/{locked_digits.name}?like=d-07")
    look.page.evaluate(
        "() => { const button = document.querySelector('.mark.similar'); button.disabled = false; button.click(); }"
    )
    expect(look.page.locator(".q-notification")).to_contain_text("feedback role")
    assert not list(locked_digits.client.feedback_log())


def test_the_read_role_cannot_undo_with_an_enabled_button(visit: Any, locked: Any, locked_digits: Any) -> None:
    locked_digits.client.feedback(query="d-07", positive=["d-17"])
    look = visit(locked.key("read"), f"/collections/{locked_digits.name}")
    look.log_row(1).locator(".undo").evaluate("one => { one.disabled = false; one.click(); }")
    expect(look.page.locator(".q-notification")).to_contain_text("feedback role")
    assert len(list(locked_digits.client.feedback_log())) == 1


def test_the_feedback_role_can_mark(visit: Any, locked: Any, locked_digits: Any) -> None:
    look = visit(locked.key("feedback"), f"/collections/{locked_digits.name}?like=d-07")
    first = look.results()[0]
    look.mark(first, "similar")
    assert [one["positive"] for one in locked_digits.client.feedback_log()] == [[first]]


def test_revoking_a_key_ends_its_sessions_on_the_page(visit: Any, locked: Any, locked_digits: Any) -> None:
    token = locked.key("feedback")
    look = visit(token, f"/collections/{locked_digits.name}?like=d-07")
    look.results()
    locked.remove(token)
    look.page.wait_for_url("**/login*")


def test_logging_out_ends_the_session_in_all_windows(visit: Any, locked: Any) -> None:
    look = visit(locked.key("read"), "/")
    other = type(look)(look.page.context.new_page(), look.address)
    other.go()
    expect(other.page.locator(".bar")).to_be_visible()
    look.page.click("text=Log out")
    other.page.wait_for_url("**/login*")


def test_an_ended_session_is_redirected_to_the_login(visit: Any, locked: Any) -> None:
    look = visit(locked.key("read"), "/")
    cookies = {one["name"]: one["value"] for one in look.page.context.cookies()}
    look.page.click("text=Log out")
    look.page.wait_for_url("**/login*")
    assert httpx.get(f"{locked.address}/", cookies=cookies).status_code == 303


def test_thumbnails_need_a_session(visit: Any, locked: Any, locked_digits: Any) -> None:
    path = f"{locked.address}/v1/collections/{locked_digits.name}/thumbnails/d-00"
    assert httpx.get(path).status_code == 401
    look = visit(locked.key("read"), f"/collections/{locked_digits.name}")
    look.page.wait_for_function("document.querySelector('.tile img')?.naturalWidth === 64")


def test_without_keys_no_login_is_needed(address: str) -> None:
    assert httpx.get(f"{address}/login").headers["location"] == "/"
