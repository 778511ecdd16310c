"""What users write is shown as text, whatever it looks like; and nothing is asked of other machines."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

from oahu.service.images import encode_png

EVIL = [
    "<img src=x onerror=window.hacked=1>",
    '"><script>window.hacked=1</script>',
    "'-window.hacked=1-'",
    "</script><script>window.hacked=1</script>",
    "{{ constructor.constructor('window.hacked=1')() }}",
    "${window.hacked=1}`",
    "javascript:window.hacked=1",
    "/etc/passwd",
    "a/b?c#d",
    "%2e%2e/%00",
    "...",
    "line\u2028separator\u202etxt",
]


@pytest.fixture
def evil(empty: Any) -> Any:
    """A collection in which everything that can be written is evil."""
    client = empty(4)
    rows = np.random.default_rng(0).normal(size=(len(EVIL), 4))
    picture = encode_png(np.zeros((64, 64)))
    client.put(EVIL, rows, EVIL, [{key: [key]} for key in EVIL], [picture] * len(EVIL))
    client.feedback(query=EVIL[0], positive=[EVIL[1]], negative=[EVIL[2]])
    return client


def _is_unharmed(look: Any) -> None:
    assert look.page.evaluate("window.hacked") is None


def test_keys_are_text_in_the_gallery(look: Any, evil: Any) -> None:
    look.at(evil.name)
    assert look.page.locator(".tiles.catalogue .key").all_text_contents() == EVIL
    _is_unharmed(look)


def test_labels_are_text_in_the_filter(look: Any, evil: Any) -> None:
    look.at(evil.name)
    assert set(look.page.locator(".chip > span").all_text_contents()) == set(EVIL)
    _is_unharmed(look)


def test_an_evil_label_can_be_chosen(look: Any, evil: Any) -> None:
    look.at(evil.name, label=EVIL[1])
    assert look.gallery() == [EVIL[1]]


def test_an_item_can_be_searched_for_whatever_its_key_is(look: Any, evil: Any) -> None:
    look.at(evil.name)
    for key in EVIL:
        look.tile(key).locator(".image").click()
        expect(look.page.locator(".query-panel h2")).to_have_text(key)
    _is_unharmed(look)


@pytest.mark.parametrize("key", [EVIL[1], EVIL[8], EVIL[-1]])
def test_a_search_survives_reloading_whatever_its_key_is(look: Any, evil: Any, key: str) -> None:
    look.at(evil.name)
    look.tile(key).locator(".image").click()
    look.page.wait_for_function("location.search.includes('like=')")
    look.page.reload()
    expect(look.page.locator(".query-panel h2")).to_have_text(key)


def test_payloads_are_text(look: Any, evil: Any) -> None:
    look.at(evil.name, like=EVIL[0])
    expect(look.page.locator(".query-panel dt").last).to_have_text(EVIL[0])
    _is_unharmed(look)


def test_thumbnails_of_keys_that_look_like_paths_are_found(look: Any, evil: Any) -> None:
    look.at(evil.name)
    look.page.wait_for_function(
        "n => [...document.querySelectorAll('.tile img')].filter(one => one.naturalWidth === 64).length === n",
        arg=len(EVIL),
    )


def test_the_log_is_text(look: Any, evil: Any) -> None:
    look.at(evil.name)
    assert look.entry(1).locator(".small").nth(1).get_attribute("title") == EVIL[1]
    _is_unharmed(look)


def test_a_contradiction_is_text(look: Any, evil: Any) -> None:
    look.at(evil.name, like=EVIL[1])
    look.tile(EVIL[0]).locator(".mark.dissimilar").click()
    expect(look.page.locator(".contradiction li em")).to_have_text([EVIL[1], EVIL[0]])
    _is_unharmed(look)


def test_what_is_refused_is_told_as_text(look: Any, evil: Any) -> None:
    look.at(evil.name)
    look.page.fill(".find input", "<img src=y onerror=window.hacked=2>")
    look.page.press(".find input", "Enter")
    expect(look.page.locator(".q-notification")).to_contain_text("<img src=y onerror=window.hacked=2>")
    _is_unharmed(look)


def test_a_comparison_is_text(look: Any, evil: Any) -> None:
    look.at(evil.name, view="compare", first=EVIL[0], second=EVIL[1])
    expect(look.page.locator(".slot .key")).to_have_text(EVIL[:2])
    _is_unharmed(look)


def test_the_map_is_text(look: Any, evil: Any) -> None:
    look.at(evil.name, view="map")
    expect(look.page.locator("[data-panel=After] g circle")).to_have_count(len(EVIL))
    _is_unharmed(look)


@pytest.mark.parametrize("key", ["<img src=x onerror=window.hacked=1>nobody", "../../etc/passwd"])
def test_the_address_is_text(look: Any, evil: Any, key: str) -> None:
    look.at(evil.name, like=key, label=EVIL[1], view="</script><script>window.hacked=1")
    expect(look.page.locator(".q-notification")).to_be_visible()
    _is_unharmed(look)


def test_a_collection_that_is_not_there_is_told_as_text(look: Any) -> None:
    look.go("/collections/%3Cimg%20src=x%20onerror=window.hacked=1%3E")
    expect(look.page.locator("main")).to_contain_text("There is no collection '<img src=x")
    _is_unharmed(look)


def _tour(look: Any, digits: Any) -> None:
    """Through everything that there is."""
    look.go()
    look.page.click(f"[data-collection={digits.name}]")
    look.tile("d-07").locator(".image").click()
    first, second, *_ = look.results()
    look.mark(first, "similar")
    look.mark(second, "dissimilar")
    look.tile(first).locator(".mark.compare").click()
    expect(look.page.locator("[data-answer]")).to_be_visible()
    look.page.click(".tab-map")
    expect(look.page.locator("[data-panel=After] g circle")).to_have_count(60)
    look.page.click("[title=Dark], [title=Light]")
    look.page.keyboard.press("?")
    expect(look.page.locator(".sheet.shortcuts")).to_be_visible()


def test_nothing_is_asked_of_other_machines(window: Any, address: str, digits: Any) -> None:
    look = window(address)
    _tour(look, digits)
    here = address.removeprefix("http")
    assert [
        url for url in look.requests if not re.match(r"(http|ws)" + re.escape(here) + "/|data:|blob:", url)
    ] == []


def test_the_browser_has_nothing_to_complain_about(window: Any, address: str, digits: Any) -> None:
    look = window(address)
    _tour(look, digits)
    assert look.problems == []
