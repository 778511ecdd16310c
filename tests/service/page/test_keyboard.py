"""Everything can be done with keys, and one sees where one is."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import expect


def _focused(look: Any) -> str | None:
    """The key of the tile that has the focus."""
    found: str | None = look.page.evaluate("document.activeElement.closest('.tile')?.dataset.key ?? null")
    return found


def _wait_for_focus(look: Any, key: str) -> None:
    look.page.wait_for_function("key => document.activeElement.closest('.tile')?.dataset.key === key", arg=key)


def test_an_arrow_leads_to_the_first_result(look: Any, digits: Any) -> None:
    look.at(digits.name, like="d-07")
    first = look.results()[0]
    look.page.keyboard.press("ArrowRight")
    assert _focused(look) == first


def test_arrows_move_along_a_row(look: Any, digits: Any) -> None:
    look.at(digits.name, like="d-07")
    shown = look.results()
    for pressed in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft"):
        look.page.keyboard.press(pressed)
    assert _focused(look) == shown[1]


def test_arrows_move_between_rows(look: Any, digits: Any) -> None:
    look.at(digits.name, like="d-07")
    look.results()
    look.page.keyboard.press("ArrowRight")
    before = look.page.locator(".image:focus").bounding_box()
    look.page.keyboard.press("ArrowDown")
    after = look.page.locator(".image:focus").bounding_box()
    assert after["x"] == before["x"]
    assert look.results().index(_focused(look)) > 0


def test_the_focus_is_to_be_seen(look: Any, digits: Any) -> None:
    look.at(digits.name, like="d-07")
    look.results()
    look.page.keyboard.press("ArrowRight")
    width = look.page.locator(".image:focus").evaluate("one => getComputedStyle(one).outlineWidth")
    assert width == "3px"


def test_enter_searches_for_the_one_with_the_focus(look: Any, digits: Any) -> None:
    look.at(digits.name, like="d-07")
    first = look.results()[0]
    look.page.keyboard.press("ArrowRight")
    look.page.keyboard.press("Enter")
    expect(look.page.locator(".query-panel h2")).to_have_text(first)


def test_tab_and_enter_search_from_the_gallery(look: Any, digits: Any) -> None:
    look.at(digits.name)
    look.page.focus(".chip >> nth=-1")
    look.page.keyboard.press("Tab")
    look.page.keyboard.press("ArrowRight")
    look.page.keyboard.press("Enter")
    expect(look.page.locator(".query-panel h2")).to_have_text("d-01")


def test_a_key_marks_as_alike(look: Any, digits: Any) -> None:
    look.at(digits.name, like="d-07")
    second = look.results()[1]
    for pressed in ("ArrowRight", "ArrowRight", "a"):
        look.page.keyboard.press(pressed)
    expect(look.tile(second).locator(".badge")).to_have_text("= alike")


def test_a_key_marks_as_not_alike(look: Any, digits: Any) -> None:
    look.at(digits.name, like="d-07")
    second = look.results()[1]
    for pressed in ("ArrowRight", "ArrowRight", "n"):
        look.page.keyboard.press(pressed)
    expect(look.tile(second).locator(".badge")).to_have_text("≠ not alike")


def test_plus_and_minus_mark_too(look: Any, digits: Any) -> None:
    look.at(digits.name, like="d-07")
    first, second, *_ = look.results()
    for pressed in ("ArrowRight", "+", "-"):
        look.page.keyboard.press(pressed)
    expect(look.tile(first)).to_have_class("tile similar")
    expect(look.tile(second)).to_have_class("tile dissimilar")


def test_after_a_mark_the_focus_is_on_the_next_that_is_not_marked(look: Any, digits: Any) -> None:
    look.at(digits.name, like="d-07")
    shown = look.results()
    for pressed in ("ArrowRight", "ArrowRight", "n"):
        look.page.keyboard.press(pressed)
    expect(look.tile(shown[1]).locator(".badge")).to_be_visible()
    _wait_for_focus(look, shown[2])


def test_a_key_undoes_what_was_said_last(look: Any, digits: Any) -> None:
    look.at(digits.name, like="d-07")
    look.results()
    for pressed in ("ArrowRight", "a"):
        look.page.keyboard.press(pressed)
    expect(look.entry(1)).to_be_visible()
    look.page.keyboard.press("u")
    expect(look.entry(1)).to_have_class("undone")


def test_there_may_be_nothing_to_undo(look: Any, digits: Any) -> None:
    look.at(digits.name)
    look.page.keyboard.press("u")
    expect(look.page.locator(".q-notification")).to_contain_text("You have not given feedback here yet")


def test_a_key_compares(look: Any, digits: Any) -> None:
    look.at(digits.name, like="d-07")
    first = look.results()[0]
    for pressed in ("ArrowRight", "c"):
        look.page.keyboard.press(pressed)
    expect(look.page.locator(".slot .key")).to_have_text(["d-07", first])


def test_escape_leads_back_to_the_gallery(look: Any, digits: Any) -> None:
    look.at(digits.name, like="d-07")
    look.results()
    look.page.keyboard.press("Escape")
    assert look.gallery() == digits.keys


def test_a_question_mark_shows_the_keys(look: Any, digits: Any) -> None:
    look.at(digits.name)
    look.page.keyboard.press("?")
    expect(look.page.locator(".sheet.shortcuts")).to_contain_text("undo your last feedback")


def test_letters_in_a_field_are_letters(look: Any, digits: Any) -> None:
    look.at(digits.name, like="d-07")
    look.results()
    look.page.focus(".find input")
    look.page.keyboard.type("anu?+-")
    assert look.page.input_value(".find input") == "anu?+-"
    assert not list(digits.client.feedback_log())
