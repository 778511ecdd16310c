"""The catalogue, search, filters and navigation on the page."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def test_the_home_page_shows_the_number_of_items(window: Any, digits: Any) -> None:
    window.go()
    card = window.page.locator(f"[data-collection={digits.name}]")
    expect(card.locator("[data-number=items]")).to_have_text("60")


def test_a_card_links_to_its_collection(window: Any, digits: Any) -> None:
    window.go()
    window.page.click(f"[data-collection={digits.name}]")
    assert window.catalogue()[0] == "d-00"


def test_a_new_collection_appears_on_the_home_page(window: Any, create_empty: Any) -> None:
    window.go()
    collection = create_empty(3)
    expect(window.page.locator(f"[data-collection={collection.name}]")).to_be_visible()


def test_the_catalogue_shows_items_in_the_order_of_addition(window: Any, digits: Any) -> None:
    window.open(digits.name)
    assert window.catalogue() == digits.keys


def test_thumbnails_are_shown(window: Any, digits: Any) -> None:
    window.open(digits.name)
    window.page.wait_for_function("document.querySelector('.tile img')?.naturalWidth === 64")


def test_show_more_adds_items(window: Any, digits: Any) -> None:
    digits.client.put(["one-more"], [[0.5] * 64])
    window.open(digits.name)
    window.page.click("text=Show more")
    expect(window.tile("one-more")).to_be_visible()


def test_clicking_an_item_shows_the_ranking_of_the_service(window: Any, digits: Any) -> None:
    window.open(digits.name)
    window.tile("d-07").locator(".image").click()
    expected = [match["key"] for match in digits.client.search("d-07", k=24)["matches"]]
    assert window.results() == expected


def test_results_show_their_distance(window: Any, digits: Any) -> None:
    window.open(digits.name, like="d-07")
    first = digits.client.search("d-07", k=1)["matches"][0]
    expect(window.tile(first["key"]).locator(".value")).to_have_text(f"{first['distance']:.3f}")


def test_the_query_is_shown_with_its_payload(window: Any, digits: Any) -> None:
    window.open(digits.name, like="d-07")
    expect(window.page.locator(".query-panel dl")).to_contain_text("number7")


def test_more_results_adds_results(window: Any, digits: Any) -> None:
    window.open(digits.name, like="d-07")
    window.page.click("text=More results")
    expect(window.page.locator(".tiles.results > .tile")).to_have_count(48)


def test_similar_items_by_feedback_do_not_replace_other_results(window: Any, digits: Any) -> None:
    similar = [key for key in digits.keys if key != "d-07"][:30]
    digits.client.feedback(query="d-07", positive=similar)
    window.open(digits.name, like="d-07")
    shown = window.results()
    assert len([key for key in shown if key not in similar]) == 24


def test_find_an_item_by_its_key(window: Any, digits: Any) -> None:
    window.open(digits.name)
    window.page.fill(".find input", "d-33")
    window.page.press(".find input", "Enter")
    expect(window.page.locator(".query-panel h2")).to_have_text("d-33")


def test_an_unknown_key_shows_a_message(window: Any, digits: Any) -> None:
    window.open(digits.name)
    window.page.fill(".find input", "missing")
    window.page.press(".find input", "Enter")
    expect(window.page.locator(".q-notification")).to_contain_text("There is no item 'missing'")
    assert window.catalogue() == digits.keys


def test_a_label_filters_the_catalogue(window: Any, digits: Any) -> None:
    window.open(digits.name)
    window.page.click(".chip:has-text('3') >> nth=0")
    expect(window.page.locator(".tiles.catalogue > .tile")).to_have_count(digits.labels.count("3"))


def test_a_label_filters_the_results(window: Any, digits: Any) -> None:
    window.open(digits.name, like="d-07")
    window.page.locator(".chip", has=window.page.get_by_text("3", exact=True)).click()
    expect(window.page.locator(".tiles.results > .tile")).to_have_count(digits.labels.count("3"))


def test_many_labels_are_chosen_from_a_list(window: Any, create_empty: Any) -> None:
    client = create_empty(2)
    client.put([f"k{at}" for at in range(20)], [[at, 1.0] for at in range(20)], [f"label {at}" for at in range(20)])
    window.open(client.name)
    window.page.select_option(".filters select", index=3)
    expect(window.page.locator(".tiles.catalogue > .tile")).to_have_count(1)


def test_reloading_keeps_the_search_and_the_label(window: Any, digits: Any) -> None:
    window.open(digits.name, label="3")
    window.page.click(".tiles.catalogue .tile >> nth=1 >> .image")
    before = window.results()
    expect(window.page).to_have_url(re.compile("like="))
    window.page.reload()
    assert window.results() == before


def test_the_back_button_leads_to_the_catalogue(window: Any, digits: Any) -> None:
    window.open(digits.name)
    window.tile("d-07").locator(".image").click()
    expect(window.page).to_have_url(re.compile("like=d-07"))
    window.page.go_back()
    assert window.catalogue() == digits.keys


def test_the_back_button_leads_to_the_previous_search(window: Any, digits: Any) -> None:
    window.open(digits.name, like="d-07")
    window.page.click(".tiles.results .tile >> nth=0 >> .image")
    expect(window.page).not_to_have_url(re.compile("like=d-07"))
    window.page.go_back()
    expect(window.page.locator(".query-panel h2")).to_have_text("d-07")


def test_new_items_appear_automatically(window: Any, create_empty: Any) -> None:
    client = create_empty(2)
    window.open(client.name)
    expect(window.page.locator(".view-search .empty")).to_be_visible()
    client.put(["the first"], [[1.0, 2.0]])
    expect(window.tile("the first")).to_be_visible()


def test_an_item_without_a_thumbnail_shows_its_key(window: Any, create_empty: Any) -> None:
    client = create_empty(2)
    client.put(["no thumbnail"], [[1.0, 2.0]])
    window.open(client.name)
    expect(window.tile("no thumbnail").locator(".name")).to_have_text("no thumbnail")
