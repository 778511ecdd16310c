"""Keyboard shortcuts and focus."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def _focused_key(window: Any) -> str | None:
    """Return the key of the focused tile."""
    found: str | None = window.page.evaluate("document.activeElement.closest('.tile')?.dataset.key ?? null")
    return found


def _wait_for_focus(window: Any, key: str) -> None:
    window.page.wait_for_function("key => document.activeElement.closest('.tile')?.dataset.key === key", arg=key)


def test_an_arrow_key_focuses_the_first_result(window: Any, digits: Any) -> None:
    window.open(digits.name, like="d-07")
    first = window.results()[0]
    window.page.keyboard.press("ArrowRight")
    assert _focused_key(window) == first


def test_arrow_keys_move_along_a_row(window: Any, digits: Any) -> None:
    window.open(digits.name, like="d-07")
    shown = window.results()
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft"):
        window.page.keyboard.press(key)
    assert _focused_key(window) == shown[1]


def test_arrow_keys_move_between_rows(window: Any, digits: Any) -> None:
    window.open(digits.name, like="d-07")
    window.results()
    window.page.keyboard.press("ArrowRight")
    before = window.page.locator(".image:focus").bounding_box()
    window.page.keyboard.press("ArrowDown")
    after = window.page.locator(".image:focus").bounding_box()
    assert after["x"] == before["x"]
    assert window.results().index(_focused_key(window)) > 0


def test_the_focus_is_visible(window: Any, digits: Any) -> None:
    window.open(digits.name, like="d-07")
    window.results()
    window.page.keyboard.press("ArrowRight")
    width = window.page.locator(".image:focus").evaluate("one => getComputedStyle(one).outlineWidth")
    assert width == "3px"


def test_enter_searches_for_the_focused_item(window: Any, digits: Any) -> None:
    window.open(digits.name, like="d-07")
    first = window.results()[0]
    window.page.keyboard.press("ArrowRight")
    window.page.keyboard.press("Enter")
    expect(window.page.locator(".query-panel h2")).to_have_text(first)


def test_tab_and_enter_search_from_the_catalogue(window: Any, digits: Any) -> None:
    window.open(digits.name)
    window.page.focus(".chip >> nth=-1")
    window.page.keyboard.press("Tab")
    window.page.keyboard.press("ArrowRight")
    window.page.keyboard.press("Enter")
    expect(window.page.locator(".query-panel h2")).to_have_text("d-01")


def test_the_a_key_marks_as_alike(window: Any, digits: Any) -> None:
    window.open(digits.name, like="d-07")
    second = window.results()[1]
    for key in ("ArrowRight", "ArrowRight", "a"):
        window.page.keyboard.press(key)
    expect(window.tile(second).locator(".badge")).to_have_text("= alike")


def test_the_n_key_marks_as_not_alike(window: Any, digits: Any) -> None:
    window.open(digits.name, like="d-07")
    second = window.results()[1]
    for key in ("ArrowRight", "ArrowRight", "n"):
        window.page.keyboard.press(key)
    expect(window.tile(second).locator(".badge")).to_have_text("≠ not alike")


def test_plus_marks_as_alike_and_minus_as_not_alike(window: Any, digits: Any) -> None:
    window.open(digits.name, like="d-07")
    first, second, *_ = window.results()
    for key in ("ArrowRight", "+", "-"):
        window.page.keyboard.press(key)
    expect(window.tile(first)).to_have_class("tile similar")
    expect(window.tile(second)).to_have_class("tile dissimilar")


def test_marking_moves_the_focus_to_the_next_unmarked_result(window: Any, digits: Any) -> None:
    window.open(digits.name, like="d-07")
    shown = window.results()
    for key in ("ArrowRight", "ArrowRight", "n"):
        window.page.keyboard.press(key)
    expect(window.tile(shown[1]).locator(".badge")).to_be_visible()
    _wait_for_focus(window, shown[2])


def test_the_u_key_undoes_the_last_feedback(window: Any, digits: Any) -> None:
    window.open(digits.name, like="d-07")
    window.results()
    for key in ("ArrowRight", "a"):
        window.page.keyboard.press(key)
    expect(window.log_row(1)).to_be_visible()
    window.page.keyboard.press("u")
    expect(window.log_row(1)).to_have_class("undone")


def test_the_u_key_without_feedback_shows_a_message(window: Any, digits: Any) -> None:
    window.open(digits.name)
    window.page.keyboard.press("u")
    expect(window.page.locator(".q-notification")).to_contain_text("You have not given feedback here yet")


def test_the_c_key_compares_the_focused_result_with_the_query(window: Any, digits: Any) -> None:
    window.open(digits.name, like="d-07")
    first = window.results()[0]
    for key in ("ArrowRight", "c"):
        window.page.keyboard.press(key)
    expect(window.page.locator(".slot .key")).to_have_text(["d-07", first])


def test_escape_shows_the_catalogue(window: Any, digits: Any) -> None:
    window.open(digits.name, like="d-07")
    window.results()
    window.page.keyboard.press("Escape")
    assert window.catalogue() == digits.keys


def test_a_question_mark_shows_the_shortcuts(window: Any, digits: Any) -> None:
    window.open(digits.name)
    window.page.keyboard.press("?")
    expect(window.page.locator(".sheet.shortcuts")).to_contain_text("undo your last feedback")


def test_shortcuts_do_not_apply_in_text_fields(window: Any, digits: Any) -> None:
    window.open(digits.name, like="d-07")
    window.results()
    window.page.focus(".find input")
    window.page.keyboard.type("anu?+-")
    assert window.page.input_value(".find input") == "anu?+-"
    assert not list(digits.client.feedback_log())
