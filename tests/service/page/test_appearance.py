"""Narrow and wide windows, light and dark colours, empty pages."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}
DARK = "rgb(18, 19, 20)"
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


def test_every_view_fits_a_phone(open_window: Any, address: str, digits: Any) -> None:
    digits.client.feedback(query="d-07", positive=["d-17"], negative=["d-01"])
    window = open_window(address, **PHONE)
    window.open(digits.name, like="d-07", first="d-07", second="d-08")
    expect(window.page.locator(".bars")).to_be_hidden()  # the metric has its own view
    overflow = {}
    for view, selector in VIEWS.items():
        window.page.tap(f".tab-{view}")
        expect(window.page.locator(selector).first).to_be_visible()
        overflow[view] = _overflow(window)
    assert overflow == dict.fromkeys(VIEWS, 0)
    window.page.tap(".tab-search")
    button = window.page.locator(".mark.similar").first
    expect(button).to_be_visible()
    box = button.bounding_box()
    assert min(box["width"], box["height"]) >= 32
    window.go()
    expect(window.page.locator(f"[data-collection={digits.name}]")).to_be_visible()
    assert _overflow(window) <= 0


def test_long_keys_are_not_wider_than_a_phone(open_window: Any, address: str, create_empty: Any) -> None:
    client = create_empty(2)
    long_keys = ["k" * 512, "https://example.com/" + "a-rather-long-path/" * 20, "word " * 100]
    client.put(long_keys, [[1.0, 2.0], [2.0, 1.0], [0.5, 1.0]], ["l" * 128] * 3, [{"p" * 200: "v" * 900}] * 3)
    window = open_window(address, **PHONE)
    window.open(client.name, like=long_keys[0])
    window.results()
    assert _overflow(window) <= 0


def test_a_wide_window_shows_the_metric_beside_the_results(window: Any, shared_digits: Any) -> None:
    window.page.set_viewport_size({"width": 1600, "height": 1000})
    window.open(shared_digits.name, like="d-07")
    window.results()
    metric, results = (window.page.locator(one).bounding_box() for one in (".metric", ".tiles.results"))
    assert metric["x"] > results["x"] + results["width"]


# -- light and dark ------------------------------------------------------------------------------------------


def _lightness(window: Any) -> float:
    """Return the lightness of the background, from 0 to 255."""
    window.page.wait_for_function("document.querySelector('.icon') !== null")
    colour = window.page.evaluate("getComputedStyle(document.body).backgroundColor")
    return float(colour.split("(")[1].split(",")[0])


def test_colours_follow_the_system_until_a_theme_is_chosen(open_window: Any, address: str) -> None:
    window = open_window(address, color_scheme="light")
    window.go()
    assert _lightness(window) > 128
    body = window.page.locator("body")
    window.page.emulate_media(color_scheme="dark")
    expect(body).to_have_css("background-color", DARK)
    window.page.emulate_media(color_scheme="light")
    expect(body).not_to_have_css("background-color", DARK)
    window.page.click("[title=Dark]")
    window.page.reload()
    assert _lightness(window) < 128


def test_the_page_starts_dark_on_a_dark_system(open_window: Any, address: str) -> None:
    window = open_window(address, color_scheme="dark")
    window.go()
    assert _lightness(window) < 128


def test_the_login_is_dark_too(open_window: Any, protected_server: Any) -> None:
    window = open_window(protected_server.address, color_scheme="dark")
    window.go()
    expect(window.page.locator("body")).to_have_css("background-color", DARK)


# -- empty pages ---------------------------------------------------------------------------------------------


def test_a_service_without_collections_shows_instructions(
    open_window: Any, start_server: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with start_server(tmp_path_factory.mktemp("empty"), terminate=True) as address:
        window = open_window(address)
        window.go()
        expect(window.page.locator(".instructions")).to_contain_text("oahu serve --demo")
        expect(window.page.locator(".instructions")).to_contain_text(f'oahu.Client("{address}"')


def test_every_button_has_a_name(window: Any, shared_digits: Any) -> None:
    window.open(shared_digits.name, like="d-07")
    window.results()
    names = window.page.locator("button:visible").evaluate_all(
        "all => all.map(one => one.ariaLabel || one.innerText.trim())"
    )
    assert all(names)
