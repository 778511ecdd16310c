"""Keyboard shortcuts and focus."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def _focused(look: Any) -> str | None:
    """Return the key of the focused tile."""
    found: str | None = look.page.evaluate("document.activeElement.closest('.tile')?.dataset.key ?? null")
    return found


def _wait_for_focus(look: Any, key: str) -> None:
    look.page.wait_for_function("key => document.activeElement.closest('.tile')?.dataset.key === key", arg=key)


def test_an_arrow_key_focuses_the_first_result(look: Any, digits: Any) -> None:
    look.open(digits.name, like="d-07")
    first = look.results()[0]
    look.page.keyboard.press("ArrowRight")
    assert _focused(look) == first


def test_arrow_keys_move_along_a_row(look: Any, digits: Any) -> None:
    look.open(digits.name, like="d-07")
    shown = look.results()
    for pressed in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft"):
        look.page.keyboard.press(pressed)
    assert _focused(look) == shown[1]


def test_arrow_keys_move_between_rows(look: Any, digits: Any) -> None:
    look.open(digits.name, like="d-07")
    look.results()
    look.page.keyboard.press("ArrowRight")
    before = look.page.locator(".image:focus").bounding_box()
    look.page.keyboard.press("ArrowDown")
    after = look.page.locator(".image:focus").bounding_box()
    assert after["x"] == before["x"]
    assert look.results().index(_focused(look)) > 0


def test_the_focus_is_visible(look: Any, digits: Any) -> None:
    look.open(digits.name, like="d-07")
    look.results()
    look.page.keyboard.press("ArrowRight")
    width = look.page.locator(".image:focus").evaluate("one => getComputedStyle(one).outlineWidth")
    assert width == "3px"


def test_enter_searches_for_the_focused_item(look: Any, digits: Any) -> None:
    look.open(digits.name, like="d-07")
    first = look.results()[0]
    look.page.keyboard.press("ArrowRight")
    look.page.keyboard.press("Enter")
    expect(look.page.locator(".query-panel h2")).to_have_text(first)


def test_tab_and_enter_search_from_the_catalogue(look: Any, digits: Any) -> None:
    look.open(digits.name)
    look.page.focus(".chip >> nth=-1")
    look.page.keyboard.press("Tab")
    look.page.keyboard.press("ArrowRight")
    look.page.keyboard.press("Enter")
    expect(look.page.locator(".query-panel h2")).to_have_text("d-01")


def test_a_marks_as_alike(look: Any, digits: Any) -> None:
    look.open(digits.name, like="d-07")
    second = look.results()[1]
    for pressed in ("ArrowRight", "ArrowRight", "a"):
        look.page.keyboard.press(pressed)
    expect(look.tile(second).locator(".badge")).to_have_text("= alike")


def test_n_marks_as_not_alike(look: Any, digits: Any) -> None:
    look.open(digits.name, like="d-07")
    second = look.results()[1]
    for pressed in ("ArrowRight", "ArrowRight", "n"):
        look.page.keyboard.press(pressed)
    expect(look.tile(second).locator(".badge")).to_have_text("≠ not alike")


def test_plus_and_minus_mark(look: Any, digits: Any) -> None:
    look.open(digits.name, like="d-07")
    first, second, *_ = look.results()
    for pressed in ("ArrowRight", "+", "-"):
        look.page.keyboard.press(pressed)
    expect(look.tile(first)).to_have_class("tile similar")
    expect(look.tile(second)).to_have_class("tile dissimilar")


def test_marking_moves_the_focus_to_the_next_unmarked_result(look: Any, digits: Any) -> None:
    look.open(digits.name, like="d-07")
    shown = look.results()
    for pressed in ("ArrowRight", "ArrowRight", "n"):
        look.page.keyboard.press(pressed)
    expect(look.tile(shown[1]).locator(".badge")).to_be_visible()
    _wait_for_focus(look, shown[2])


def test_u_undoes_the_last_feedback(look: Any, digits: Any) -> None:
    look.open(digits.name, like="d-07")
    look.results()
    for pressed in ("ArrowRight", "a"):
        look.page.keyboard.press(pressed)
    expect(look.log_row(1)).to_be_visible()
    look.page.keyboard.press("u")
    expect(look.log_row(1)).to_have_class("undone")


def test_u_without_feedback_shows_a_message(look: Any, digits: Any) -> None:
    look.open(digits.name)
    look.page.keyboard.press("u")
    expect(look.page.locator(".q-notification")).to_contain_text("You have not given feedback here yet")


def test_c_compares(look: Any, digits: Any) -> None:
    look.open(digits.name, like="d-07")
    first = look.results()[0]
    for pressed in ("ArrowRight", "c"):
        look.page.keyboard.press(pressed)
    expect(look.page.locator(".slot .key")).to_have_text(["d-07", first])


def test_escape_shows_the_catalogue(look: Any, digits: Any) -> None:
    look.open(digits.name, like="d-07")
    look.results()
    look.page.keyboard.press("Escape")
    assert look.catalogue() == digits.keys


def test_a_question_mark_shows_the_shortcuts(look: Any, digits: Any) -> None:
    look.open(digits.name)
    look.page.keyboard.press("?")
    expect(look.page.locator(".sheet.shortcuts")).to_contain_text("undo your last feedback")


def test_shortcuts_do_not_apply_in_text_fields(look: Any, digits: Any) -> None:
    look.open(digits.name, like="d-07")
    look.results()
    look.page.focus(".find input")
    look.page.keyboard.type("anu?+-")
    assert look.page.input_value(".find input") == "anu?+-"
    assert not list(digits.client.feedback_log())
