"""Keyboard shortcuts and focus."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def _press(window: Any, *keys: str) -> None:
    for key in keys:
        window.page.keyboard.press(key)


def _focused_key(window: Any) -> str | None:
    """Return the key of the focused tile."""
    found: str | None = window.page.evaluate("document.activeElement.closest('.tile')?.dataset.key ?? null")
    return found


def _wait_for_focus(window: Any, key: str) -> None:
    window.page.wait_for_function("key => document.activeElement.closest('.tile')?.dataset.key === key", arg=key)


def test_arrow_keys_move_the_focus_along_rows_and_between_them(window: Any, shared_digits: Any) -> None:
    window.open(shared_digits.name, like="d-07")
    shown = window.results()
    _press(window, "ArrowRight")
    assert _focused_key(window) == shown[0]
    focused = window.page.locator(".image:focus")
    assert focused.evaluate("one => getComputedStyle(one).outlineWidth") == "3px"
    _press(window, "ArrowRight", "ArrowRight", "ArrowLeft")
    assert _focused_key(window) == shown[1]
    before = focused.bounding_box()
    _press(window, "ArrowDown")
    after = focused.bounding_box()
    assert after["x"] == before["x"]
    assert shown.index(_focused_key(window)) > 1


def test_enter_searches_and_escape_shows_the_catalogue(window: Any, shared_digits: Any) -> None:
    window.open(shared_digits.name, like="d-07")
    first = window.results()[0]
    _press(window, "ArrowRight", "Enter")
    query = window.page.locator(".query-panel h2")
    expect(query).to_have_text(first)
    _press(window, "Escape")
    assert window.catalogue() == shared_digits.keys
    window.page.focus(".chip >> nth=-1")
    _press(window, "Tab", "ArrowRight", "Enter")
    expect(query).to_have_text("d-01")


def test_letters_mark_the_focused_result_and_undo(window: Any, digits: Any) -> None:
    window.open(digits.name, like="d-07")
    shown = window.results()
    _press(window, "ArrowRight", "ArrowRight", "n")
    expect(window.tile(shown[1]).locator(".badge")).to_have_text("≠ not alike")
    _wait_for_focus(window, shown[2])  # the next unmarked result
    _press(window, "a")
    expect(window.tile(shown[2]).locator(".badge")).to_have_text("= alike")
    expect(window.log_row(2)).to_be_visible()
    _press(window, "u")
    expect(window.log_row(2)).to_have_class("undone")
    expect(window.log_row(1)).not_to_have_class("undone")


def test_plus_marks_as_alike_and_minus_as_not_alike(window: Any, digits: Any) -> None:
    window.open(digits.name, like="d-07")
    first, second, *_ = window.results()
    _press(window, "ArrowRight", "+", "-")
    expect(window.tile(first)).to_have_class("tile similar")
    expect(window.tile(second)).to_have_class("tile dissimilar")


def test_the_u_key_without_feedback_shows_a_message(window: Any, shared_digits: Any) -> None:
    window.open(shared_digits.name)
    _press(window, "u")
    expect(window.page.locator(".q-notification")).to_contain_text("You have not given feedback on this page yet")


def test_the_c_key_compares_the_focused_result_with_the_query(window: Any, shared_digits: Any) -> None:
    window.open(shared_digits.name, like="d-07")
    first = window.results()[0]
    _press(window, "ArrowRight", "c")
    expect(window.page.locator(".slot .key")).to_have_text(["d-07", first])


def test_shortcuts_are_listed_and_do_not_apply_in_text_fields(window: Any, shared_digits: Any) -> None:
    window.open(shared_digits.name, like="d-07")
    window.results()
    window.page.focus(".find input")
    window.page.keyboard.type("anu?+-")
    assert window.page.input_value(".find input") == "anu?+-"
    expect(window.page.locator(".sheet.shortcuts")).to_be_hidden()
    assert not list(shared_digits.client.feedback_log())
    window.page.locator(".find input").blur()
    _press(window, "?")
    expect(window.page.locator(".sheet.shortcuts")).to_contain_text("undo your last feedback")
