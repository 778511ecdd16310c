"""User content is rendered as text, and the page contacts no other host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

from oahu import Client
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


@pytest.fixture(scope="module")
def malicious(address: str) -> Iterator[Client]:
    """A collection with malicious keys, labels and payloads that no test changes."""
    with Client(address, "malicious") as client:
        client.create(4, contradictions="refuse")
        rows = np.random.default_rng(0).normal(size=(len(MALICIOUS), 4))
        picture = encode_png(np.zeros((64, 64)))
        client.put(MALICIOUS, rows, MALICIOUS, [{key: [key]} for key in MALICIOUS], [picture] * len(MALICIOUS))
        client.feedback(query=MALICIOUS[0], positive=[MALICIOUS[1]], negative=[MALICIOUS[2]])
        yield client
        client.delete()


def _assert_no_script_ran(window: Any) -> None:
    assert window.page.evaluate("window.hacked") is None


def test_the_catalogue_and_the_log_show_keys_and_labels_as_text(window: Any, malicious: Any) -> None:
    window.open(malicious.name)
    assert window.page.locator(".tiles.catalogue .key").all_text_contents() == MALICIOUS
    assert set(window.page.locator(".chip > span").all_text_contents()) == set(MALICIOUS)
    assert window.log_row(1).locator(".small").nth(1).get_attribute("title") == MALICIOUS[1]
    window.page.wait_for_function(  # thumbnails of keys that look like paths are found
        "n => [...document.querySelectorAll('.tile img')].filter(one => one.naturalWidth === 64).length === n",
        arg=len(MALICIOUS),
    )
    _assert_no_script_ran(window)


def test_a_malicious_label_can_be_chosen(window: Any, malicious: Any) -> None:
    window.open(malicious.name, label=MALICIOUS[1])
    assert window.catalogue() == [MALICIOUS[1]]


def test_items_with_malicious_keys_can_be_searched_for(window: Any, malicious: Any) -> None:
    window.open(malicious.name)
    for key in MALICIOUS:
        window.tile(key).locator(".image").click()
        expect(window.page.locator(".query-panel h2")).to_have_text(key)
        expect(window.page.locator(".query-panel dt").last).to_have_text(key)  # the name of a payload field
    _assert_no_script_ran(window)


def test_a_search_with_a_malicious_key_survives_reloading(window: Any, malicious: Any) -> None:
    window.open(malicious.name)
    for key in (MALICIOUS[1], MALICIOUS[8], MALICIOUS[-1]):
        window.tile(key).locator(".image").click()
        window.page.wait_for_function("key => new URLSearchParams(location.search).get('like') === key", arg=key)
        window.page.reload()
        expect(window.page.locator(".query-panel h2")).to_have_text(key)


def test_messages_show_keys_as_text(window: Any, malicious: Any) -> None:
    window.open(malicious.name, like=MALICIOUS[1])
    window.page.fill(".find input", "<img src=y onerror=window.hacked=2>")
    window.page.press(".find input", "Enter")
    expect(window.page.locator(".q-notification")).to_contain_text("<img src=y onerror=window.hacked=2>")
    window.tile(MALICIOUS[0]).locator(".mark.dissimilar").click()
    expect(window.page.locator(".contradiction li em")).to_have_text([MALICIOUS[1], MALICIOUS[0]])
    _assert_no_script_ran(window)


def test_comparisons_and_the_map_show_keys_as_text(window: Any, malicious: Any) -> None:
    window.open(malicious.name, view="compare", first=MALICIOUS[0], second=MALICIOUS[1])
    expect(window.page.locator(".slot .key")).to_have_text(MALICIOUS[:2])
    window.page.click(".tab-map")
    expect(window.page.locator("[data-panel=After] g circle")).to_have_count(len(MALICIOUS))
    _assert_no_script_ran(window)


def test_the_address_bar_runs_no_scripts(window: Any, malicious: Any) -> None:
    for key in ("<img src=x onerror=window.hacked=1>missing", "../../etc/passwd"):
        window.open(malicious.name, like=key, label=MALICIOUS[1], view="</script><script>window.hacked=1")
        expect(window.page.locator(".q-notification")).to_contain_text(key)
        _assert_no_script_ran(window)


def test_the_not_found_page_shows_the_name_as_text(window: Any) -> None:
    window.go("/collections/%3Cimg%20src=x%20onerror=window.hacked=1%3E")
    expect(window.page.locator("main")).to_contain_text("There is no collection '<img src=x")
    _assert_no_script_ran(window)
    window.page.click("text=All collections")
    expect(window.page.locator(".home")).to_be_visible()


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


def test_the_page_reports_no_errors_and_sends_no_requests_to_other_hosts(
    open_window: Any, address: str, digits: Any
) -> None:
    window = open_window(address)
    _visit_all_views(window, digits)
    own_host = address.removeprefix("http")
    assert [
        url for url in window.requests if not re.match(r"(http|ws)" + re.escape(own_host) + "/|data:|blob:", url)
    ] == []
    assert window.errors == []
