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


def _overflow(look: Any) -> int:
    """Return by how many pixels the page is wider than the window."""
    found: int = look.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return found


def test_no_view_is_wider_than_a_phone(window: Any, address: str, digits: Any) -> None:
    digits.client.feedback(query="d-07", positive=["d-17"], negative=["d-01"])
    look = window(address, **PHONE)
    look.open(digits.name, like="d-07", first="d-07", second="d-08")
    wide = {}
    for view, shown in VIEWS.items():
        look.page.tap(f".tab-{view}")
        expect(look.page.locator(shown).first).to_be_visible()
        wide[view] = _overflow(look)
    assert wide == dict.fromkeys(VIEWS, 0)


def test_long_keys_are_not_wider_than_a_phone(window: Any, address: str, empty: Any) -> None:
    client = empty(2)
    long = ["k" * 512, "https://example.com/" + "a-rather-long-path/" * 20, "word " * 100]
    client.put(long, [[1.0, 2.0], [2.0, 1.0], [0.5, 1.0]], ["l" * 128] * 3, [{"p" * 200: "v" * 900}] * 3)
    look = window(address, **PHONE)
    look.open(client.name, like=long[0])
    look.results()
    assert _overflow(look) <= 0


def test_the_home_page_is_not_wider_than_a_phone(window: Any, address: str, digits: Any) -> None:
    look = window(address, **PHONE)
    look.go()
    expect(look.page.locator(f"[data-collection={digits.name}]")).to_be_visible()
    assert _overflow(look) <= 0


def test_a_phone_shows_the_metric_in_its_own_view(window: Any, address: str, digits: Any) -> None:
    look = window(address, **PHONE)
    look.open(digits.name)
    expect(look.page.locator(".bars")).to_be_hidden()
    look.page.tap(".tab-metric")
    expect(look.page.locator(".bars")).to_be_visible()


def test_buttons_are_large_enough_to_touch(window: Any, address: str, digits: Any) -> None:
    look = window(address, **PHONE)
    look.open(digits.name, like="d-07")
    look.results()
    box = look.page.locator(".mark.similar").first.bounding_box()
    assert min(box["width"], box["height"]) >= 32


def test_a_wide_window_shows_the_metric_beside_the_results(window: Any, address: str, digits: Any) -> None:
    look = window(address, viewport={"width": 1600, "height": 1000})
    look.open(digits.name, like="d-07")
    look.results()
    metric, results = (look.page.locator(one).bounding_box() for one in (".metric", ".tiles.results"))
    assert metric["x"] > results["x"] + results["width"]


# -- light and dark ------------------------------------------------------------------------------------------


def _lightness(look: Any) -> float:
    """Return the lightness of the background, from 0 to 255."""
    look.page.wait_for_function("document.querySelector('.icon') !== null")
    colour = look.page.evaluate("getComputedStyle(document.body).backgroundColor")
    return float(colour.split("(")[1].split(",")[0])


@pytest.mark.parametrize(("scheme", "is_dark"), [("light", False), ("dark", True)])
def test_colours_follow_the_system(window: Any, address: str, scheme: str, is_dark: bool) -> None:
    look = window(address, color_scheme=scheme)
    look.go()
    assert (_lightness(look) < 128) == is_dark


def test_colours_follow_the_system_when_it_changes(window: Any, address: str) -> None:
    look = window(address, color_scheme="light")
    look.go()
    _lightness(look)
    look.page.emulate_media(color_scheme="dark")
    expect(look.page.locator("body")).to_have_css("background-color", "rgb(18, 19, 20)")


def test_the_chosen_theme_is_remembered(window: Any, address: str) -> None:
    look = window(address, color_scheme="light")
    look.go()
    look.page.click("[title=Dark]")
    look.page.reload()
    assert _lightness(look) < 128


def test_the_login_is_dark_too(window: Any, locked: Any) -> None:
    look = window(locked.address, color_scheme="dark")
    look.go()
    expect(look.page.locator("body")).to_have_css("background-color", "rgb(18, 19, 20)")


# -- nothing there -------------------------------------------------------------------------------------------


def test_a_service_without_collections_shows_instructions(
    window: Any, start_server: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with start_server(tmp_path_factory.mktemp("nothing"), gently=True) as address:
        look = window(address)
        look.go()
        expect(look.page.locator(".instructions")).to_contain_text("oahu serve --demo")
        expect(look.page.locator(".instructions")).to_contain_text(f'oahu.Client("{address}"')


def test_an_empty_collection_shows_a_message(look: Any, empty: Any) -> None:
    look.open(empty(3).name)
    expect(look.page.locator(".view-search .empty")).to_contain_text("There are no items yet")


def test_the_not_found_page_links_to_all_collections(look: Any) -> None:
    look.go("/collections/nothing")
    look.page.click("text=All collections")
    expect(look.page.locator(".home")).to_be_visible()


def test_every_button_has_a_name(look: Any, digits: Any) -> None:
    look.open(digits.name, like="d-07")
    look.results()
    names = look.page.locator("button:visible").evaluate_all(
        "all => all.map(one => one.ariaLabel || one.innerText.trim())"
    )
    assert all(names)
