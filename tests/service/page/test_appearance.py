"""Narrow and wide windows, light and dark colours, empty pages."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}
VIEWS = {
    "search": ".tiles.results .tile",
    "compare": "[data-answer]",
    "map": ".map circle",
    "metric": ".bars",
    "log": ".log li",
}


def _overflow(window: Any) -> int:
    """Return by how many pixels the page is wider than the window."""
    found: int = window.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return found


def test_no_view_is_wider_than_a_phone(open_window: Any, address: str, digits: Any) -> None:
    digits.client.feedback(query="d-07", positive=["d-17"], negative=["d-01"])
    window = open_window(address, **PHONE)
    window.open(digits.name, like="d-07", first="d-07", second="d-08")
    overflow = {}
    for view, selector in VIEWS.items():
        window.page.tap(f".tab-{view}")
        expect(window.page.locator(selector).first).to_be_visible()
        overflow[view] = _overflow(window)
    assert overflow == dict.fromkeys(VIEWS, 0)


def test_long_keys_are_not_wider_than_a_phone(open_window: Any, address: str, create_empty: Any) -> None:
    client = create_empty(2)
    long_keys = ["k" * 512, "https://example.com/" + "a-rather-long-path/" * 20, "word " * 100]
    client.put(long_keys, [[1.0, 2.0], [2.0, 1.0], [0.5, 1.0]], ["l" * 128] * 3, [{"p" * 200: "v" * 900}] * 3)
    window = open_window(address, **PHONE)
    window.open(client.name, like=long_keys[0])
    window.results()
    assert _overflow(window) <= 0


def test_the_home_page_is_not_wider_than_a_phone(open_window: Any, address: str, digits: Any) -> None:
    window = open_window(address, **PHONE)
    window.go()
    expect(window.page.locator(f"[data-collection={digits.name}]")).to_be_visible()
    assert _overflow(window) <= 0


def test_a_phone_shows_the_metric_in_its_own_view(open_window: Any, address: str, digits: Any) -> None:
    window = open_window(address, **PHONE)
    window.open(digits.name)
    expect(window.page.locator(".bars")).to_be_hidden()
    window.page.tap(".tab-metric")
    expect(window.page.locator(".bars")).to_be_visible()


def test_buttons_are_large_enough_to_touch(open_window: Any, address: str, digits: Any) -> None:
    window = open_window(address, **PHONE)
    window.open(digits.name, like="d-07")
    window.results()
    box = window.page.locator(".mark.similar").first.bounding_box()
    assert min(box["width"], box["height"]) >= 32


def test_a_wide_window_shows_the_metric_beside_the_results(open_window: Any, address: str, digits: Any) -> None:
    window = open_window(address, viewport={"width": 1600, "height": 1000})
    window.open(digits.name, like="d-07")
    window.results()
    metric, results = (window.page.locator(one).bounding_box() for one in (".metric", ".tiles.results"))
    assert metric["x"] > results["x"] + results["width"]


# -- light and dark ------------------------------------------------------------------------------------------


def _lightness(window: Any) -> float:
    """Return the lightness of the background, from 0 to 255."""
    window.page.wait_for_function("document.querySelector('.icon') !== null")
    colour = window.page.evaluate("getComputedStyle(document.body).backgroundColor")
    return float(colour.split("(")[1].split(",")[0])


@pytest.mark.parametrize(("scheme", "is_dark"), [("light", False), ("dark", True)])
def test_colours_follow_the_system(open_window: Any, address: str, scheme: str, is_dark: bool) -> None:
    window = open_window(address, color_scheme=scheme)
    window.go()
    assert (_lightness(window) < 128) == is_dark


def test_colours_follow_the_system_when_it_changes(open_window: Any, address: str) -> None:
    window = open_window(address, color_scheme="light")
    window.go()
    _lightness(window)
    window.page.emulate_media(color_scheme="dark")
    expect(window.page.locator("body")).to_have_css("background-color", "rgb(18, 19, 20)")


def test_the_chosen_theme_is_remembered(open_window: Any, address: str) -> None:
    window = open_window(address, color_scheme="light")
    window.go()
    window.page.click("[title=Dark]")
    window.page.reload()
    assert _lightness(window) < 128


def test_the_login_is_dark_too(open_window: Any, protected_server: Any) -> None:
    window = open_window(protected_server.address, color_scheme="dark")
    window.go()
    expect(window.page.locator("body")).to_have_css("background-color", "rgb(18, 19, 20)")


# -- empty pages ---------------------------------------------------------------------------------------------


def test_a_service_without_collections_shows_instructions(
    open_window: Any, start_server: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with start_server(tmp_path_factory.mktemp("empty"), terminate=True) as address:
        window = open_window(address)
        window.go()
        expect(window.page.locator(".instructions")).to_contain_text("oahu serve --demo")
        expect(window.page.locator(".instructions")).to_contain_text(f'oahu.Client("{address}"')


def test_an_empty_collection_shows_a_message(window: Any, create_empty: Any) -> None:
    window.open(create_empty(3).name)
    expect(window.page.locator(".view-search .empty")).to_contain_text("There are no items yet")


def test_the_not_found_page_links_to_all_collections(window: Any) -> None:
    window.go("/collections/nothing")
    window.page.click("text=All collections")
    expect(window.page.locator(".home")).to_be_visible()


def test_every_button_has_a_name(window: Any, digits: Any) -> None:
    window.open(digits.name, like="d-07")
    window.results()
    names = window.page.locator("button:visible").evaluate_all(
        "all => all.map(one => one.ariaLabel || one.innerText.trim())"
    )
    assert all(names)
