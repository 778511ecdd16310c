"""User content is rendered as text, and the page contacts no other host."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

from oahu.service.images import encode_png

pytestmark = pytest.mark.browser

MALICIOUS = [
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
def malicious(empty: Any) -> Any:
    """A collection whose keys, labels and payloads are malicious."""
    client = empty(4)
    rows = np.random.default_rng(0).normal(size=(len(MALICIOUS), 4))
    picture = encode_png(np.zeros((64, 64)))
    client.put(MALICIOUS, rows, MALICIOUS, [{key: [key]} for key in MALICIOUS], [picture] * len(MALICIOUS))
    client.feedback(query=MALICIOUS[0], positive=[MALICIOUS[1]], negative=[MALICIOUS[2]])
    return client


def _is_unharmed(look: Any) -> None:
    assert look.page.evaluate("window.hacked") is None


def test_keys_are_text_in_the_catalogue(look: Any, malicious: Any) -> None:
    look.open(malicious.name)
    assert look.page.locator(".tiles.catalogue .key").all_text_contents() == MALICIOUS
    _is_unharmed(look)


def test_labels_are_text_in_the_filter(look: Any, malicious: Any) -> None:
    look.open(malicious.name)
    assert set(look.page.locator(".chip > span").all_text_contents()) == set(MALICIOUS)
    _is_unharmed(look)


def test_a_malicious_label_can_be_chosen(look: Any, malicious: Any) -> None:
    look.open(malicious.name, label=MALICIOUS[1])
    assert look.catalogue() == [MALICIOUS[1]]


def test_items_with_malicious_keys_can_be_searched_for(look: Any, malicious: Any) -> None:
    look.open(malicious.name)
    for key in MALICIOUS:
        look.tile(key).locator(".image").click()
        expect(look.page.locator(".query-panel h2")).to_have_text(key)
    _is_unharmed(look)


@pytest.mark.parametrize("key", [MALICIOUS[1], MALICIOUS[8], MALICIOUS[-1]])
def test_a_search_with_a_malicious_key_survives_reloading(look: Any, malicious: Any, key: str) -> None:
    look.open(malicious.name)
    look.tile(key).locator(".image").click()
    look.page.wait_for_function("location.search.includes('like=')")
    look.page.reload()
    expect(look.page.locator(".query-panel h2")).to_have_text(key)


def test_payloads_are_text(look: Any, malicious: Any) -> None:
    look.open(malicious.name, like=MALICIOUS[0])
    expect(look.page.locator(".query-panel dt").last).to_have_text(MALICIOUS[0])
    _is_unharmed(look)


def test_thumbnails_of_keys_that_look_like_paths_are_found(look: Any, malicious: Any) -> None:
    look.open(malicious.name)
    look.page.wait_for_function(
        "n => [...document.querySelectorAll('.tile img')].filter(one => one.naturalWidth === 64).length === n",
        arg=len(MALICIOUS),
    )


def test_the_log_is_text(look: Any, malicious: Any) -> None:
    look.open(malicious.name)
    assert look.log_row(1).locator(".small").nth(1).get_attribute("title") == MALICIOUS[1]
    _is_unharmed(look)


def test_a_contradiction_is_text(look: Any, malicious: Any) -> None:
    look.open(malicious.name, like=MALICIOUS[1])
    look.tile(MALICIOUS[0]).locator(".mark.dissimilar").click()
    expect(look.page.locator(".contradiction li em")).to_have_text([MALICIOUS[1], MALICIOUS[0]])
    _is_unharmed(look)


def test_error_messages_are_text(look: Any, malicious: Any) -> None:
    look.open(malicious.name)
    look.page.fill(".find input", "<img src=y onerror=window.hacked=2>")
    look.page.press(".find input", "Enter")
    expect(look.page.locator(".q-notification")).to_contain_text("<img src=y onerror=window.hacked=2>")
    _is_unharmed(look)


def test_a_comparison_is_text(look: Any, malicious: Any) -> None:
    look.open(malicious.name, view="compare", first=MALICIOUS[0], second=MALICIOUS[1])
    expect(look.page.locator(".slot .key")).to_have_text(MALICIOUS[:2])
    _is_unharmed(look)


def test_the_map_is_text(look: Any, malicious: Any) -> None:
    look.open(malicious.name, view="map")
    expect(look.page.locator("[data-panel=After] g circle")).to_have_count(len(MALICIOUS))
    _is_unharmed(look)


@pytest.mark.parametrize("key", ["<img src=x onerror=window.hacked=1>nobody", "../../etc/passwd"])
def test_the_address_is_text(look: Any, malicious: Any, key: str) -> None:
    look.open(malicious.name, like=key, label=MALICIOUS[1], view="</script><script>window.hacked=1")
    expect(look.page.locator(".q-notification")).to_be_visible()
    _is_unharmed(look)


def test_the_not_found_page_is_text(look: Any) -> None:
    look.go("/collections/%3Cimg%20src=x%20onerror=window.hacked=1%3E")
    expect(look.page.locator("main")).to_contain_text("There is no collection '<img src=x")
    _is_unharmed(look)


def _tour(look: Any, digits: Any) -> None:
    """Visit all views."""
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


def test_the_page_sends_no_requests_to_other_hosts(window: Any, address: str, digits: Any) -> None:
    look = window(address)
    _tour(look, digits)
    here = address.removeprefix("http")
    assert [
        url for url in look.requests if not re.match(r"(http|ws)" + re.escape(here) + "/|data:|blob:", url)
    ] == []


def test_the_browser_reports_no_errors(window: Any, address: str, digits: Any) -> None:
    look = window(address)
    _tour(look, digits)
    assert look.problems == []
