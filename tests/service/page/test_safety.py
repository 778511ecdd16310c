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
def malicious(create_empty: Any) -> Any:
    """A collection with malicious keys, labels and payloads."""
    client = create_empty(4)
    rows = np.random.default_rng(0).normal(size=(len(MALICIOUS), 4))
    picture = encode_png(np.zeros((64, 64)))
    client.put(MALICIOUS, rows, MALICIOUS, [{key: [key]} for key in MALICIOUS], [picture] * len(MALICIOUS))
    client.feedback(query=MALICIOUS[0], positive=[MALICIOUS[1]], negative=[MALICIOUS[2]])
    return client


def _assert_no_script_ran(window: Any) -> None:
    assert window.page.evaluate("window.hacked") is None


def test_keys_are_shown_as_text_in_the_catalogue(window: Any, malicious: Any) -> None:
    window.open(malicious.name)
    assert window.page.locator(".tiles.catalogue .key").all_text_contents() == MALICIOUS
    _assert_no_script_ran(window)


def test_labels_are_shown_as_text_in_the_filter(window: Any, malicious: Any) -> None:
    window.open(malicious.name)
    assert set(window.page.locator(".chip > span").all_text_contents()) == set(MALICIOUS)
    _assert_no_script_ran(window)


def test_a_malicious_label_can_be_chosen(window: Any, malicious: Any) -> None:
    window.open(malicious.name, label=MALICIOUS[1])
    assert window.catalogue() == [MALICIOUS[1]]


def test_items_with_malicious_keys_can_be_searched_for(window: Any, malicious: Any) -> None:
    window.open(malicious.name)
    for key in MALICIOUS:
        window.tile(key).locator(".image").click()
        expect(window.page.locator(".query-panel h2")).to_have_text(key)
    _assert_no_script_ran(window)


@pytest.mark.parametrize("key", [MALICIOUS[1], MALICIOUS[8], MALICIOUS[-1]])
def test_a_search_with_a_malicious_key_survives_reloading(window: Any, malicious: Any, key: str) -> None:
    window.open(malicious.name)
    window.tile(key).locator(".image").click()
    window.page.wait_for_function("location.search.includes('like=')")
    window.page.reload()
    expect(window.page.locator(".query-panel h2")).to_have_text(key)


def test_payloads_are_shown_as_text(window: Any, malicious: Any) -> None:
    window.open(malicious.name, like=MALICIOUS[0])
    expect(window.page.locator(".query-panel dt").last).to_have_text(MALICIOUS[0])
    _assert_no_script_ran(window)


def test_thumbnails_of_keys_that_look_like_paths_are_found(window: Any, malicious: Any) -> None:
    window.open(malicious.name)
    window.page.wait_for_function(
        "n => [...document.querySelectorAll('.tile img')].filter(one => one.naturalWidth === 64).length === n",
        arg=len(MALICIOUS),
    )


def test_the_log_shows_keys_as_text(window: Any, malicious: Any) -> None:
    window.open(malicious.name)
    assert window.log_row(1).locator(".small").nth(1).get_attribute("title") == MALICIOUS[1]
    _assert_no_script_ran(window)


def test_a_contradiction_shows_keys_as_text(window: Any, malicious: Any) -> None:
    window.open(malicious.name, like=MALICIOUS[1])
    window.tile(MALICIOUS[0]).locator(".mark.dissimilar").click()
    expect(window.page.locator(".contradiction li em")).to_have_text([MALICIOUS[1], MALICIOUS[0]])
    _assert_no_script_ran(window)


def test_error_messages_are_shown_as_text(window: Any, malicious: Any) -> None:
    window.open(malicious.name)
    window.page.fill(".find input", "<img src=y onerror=window.hacked=2>")
    window.page.press(".find input", "Enter")
    expect(window.page.locator(".q-notification")).to_contain_text("<img src=y onerror=window.hacked=2>")
    _assert_no_script_ran(window)


def test_a_comparison_shows_keys_as_text(window: Any, malicious: Any) -> None:
    window.open(malicious.name, view="compare", first=MALICIOUS[0], second=MALICIOUS[1])
    expect(window.page.locator(".slot .key")).to_have_text(MALICIOUS[:2])
    _assert_no_script_ran(window)


def test_the_map_runs_no_scripts_from_keys(window: Any, malicious: Any) -> None:
    window.open(malicious.name, view="map")
    expect(window.page.locator("[data-panel=After] g circle")).to_have_count(len(MALICIOUS))
    _assert_no_script_ran(window)


@pytest.mark.parametrize("key", ["<img src=x onerror=window.hacked=1>missing", "../../etc/passwd"])
def test_the_address_bar_runs_no_scripts(window: Any, malicious: Any, key: str) -> None:
    window.open(malicious.name, like=key, label=MALICIOUS[1], view="</script><script>window.hacked=1")
    expect(window.page.locator(".q-notification")).to_be_visible()
    _assert_no_script_ran(window)


def test_the_not_found_page_shows_the_name_as_text(window: Any) -> None:
    window.go("/collections/%3Cimg%20src=x%20onerror=window.hacked=1%3E")
    expect(window.page.locator("main")).to_contain_text("There is no collection '<img src=x")
    _assert_no_script_ran(window)


def _visit_all_views(window: Any, digits: Any) -> None:
    """Visit all views."""
    window.go()
    window.page.click(f"[data-collection={digits.name}]")
    window.tile("d-07").locator(".image").click()
    first, second, *_ = window.results()
    window.mark(first, "similar")
    window.mark(second, "dissimilar")
    window.tile(first).locator(".mark.compare").click()
    expect(window.page.locator("[data-answer]")).to_be_visible()
    window.page.click(".tab-map")
    expect(window.page.locator("[data-panel=After] g circle")).to_have_count(60)
    window.page.click("[title=Dark], [title=Light]")
    window.page.keyboard.press("?")
    expect(window.page.locator(".sheet.shortcuts")).to_be_visible()


def test_the_page_sends_no_requests_to_other_hosts(open_window: Any, address: str, digits: Any) -> None:
    window = open_window(address)
    _visit_all_views(window, digits)
    own_host = address.removeprefix("http")
    assert [
        url for url in window.requests if not re.match(r"(http|ws)" + re.escape(own_host) + "/|data:|blob:", url)
    ] == []


def test_the_browser_reports_no_errors(open_window: Any, address: str, digits: Any) -> None:
    window = open_window(address)
    _visit_all_views(window, digits)
    assert window.errors == []
