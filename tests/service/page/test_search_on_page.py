"""The catalogue, search, filters and navigation on the page."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def test_a_card_on_the_home_page_links_to_its_collection(window: Any, shared_digits: Any) -> None:
    window.go()
    card = window.page.locator(f"[data-collection={shared_digits.name}]")
    expect(card.locator("[data-number=items]")).to_have_text("60")
    card.click()
    assert window.catalogue()[0] == "d-00"


def test_a_new_collection_appears_on_the_home_page(window: Any, create_empty: Any) -> None:
    window.go()
    collection = create_empty(3)
    expect(window.page.locator(f"[data-collection={collection.name}]")).to_be_visible()


def test_the_catalogue_shows_thumbnails_in_the_order_of_addition(window: Any, shared_digits: Any) -> None:
    window.open(shared_digits.name)
    assert window.catalogue() == shared_digits.keys
    window.page.wait_for_function("document.querySelector('.tile img')?.naturalWidth === 64")


def test_show_more_adds_items(window: Any, digits: Any) -> None:
    digits.client.put(["one-more"], [[0.5] * 64])
    window.open(digits.name)
    window.page.click("text=Show more")
    expect(window.tile("one-more")).to_be_visible()


def test_clicking_an_item_shows_the_ranking_of_the_service(window: Any, shared_digits: Any) -> None:
    window.open(shared_digits.name)
    window.tile("d-07").locator(".image").click()
    expected = shared_digits.client.search("d-07", k=24)["matches"]
    assert window.results() == [match["key"] for match in expected]
    first = expected[0]
    expect(window.tile(first["key"]).locator(".value")).to_have_text(f"{first['distance']:.3f}")
    expect(window.page.locator(".query-panel dl")).to_contain_text("number7")
    window.page.click("text=More results")
    expect(window.page.locator(".tiles.results > .tile")).to_have_count(48)


def test_similar_items_by_feedback_do_not_replace_other_results(window: Any, digits: Any) -> None:
    similar = [key for key in digits.keys if key != "d-07"][:30]
    digits.client.feedback(query="d-07", positive=similar)
    window.open(digits.name, like="d-07")
    shown = window.results()
    assert len([key for key in shown if key not in similar]) == 24


def test_find_an_item_by_its_key(window: Any, shared_digits: Any) -> None:
    window.open(shared_digits.name)
    for key in ("missing", "d-33"):
        window.page.fill(".find input", key)
        window.page.press(".find input", "Enter")
        if key == "missing":
            expect(window.page.locator(".q-notification")).to_contain_text("There is no item 'missing'")
            assert window.catalogue() == shared_digits.keys
    expect(window.page.locator(".query-panel h2")).to_have_text("d-33")


def test_find_items_by_the_beginnings_of_words(window: Any, digits: Any) -> None:
    digits.client.patch(
        ["d-05", "d-33", "d-40"], payloads=[{"title": title} for title in ("Kite", "A kitten", "Cat")]
    )
    window.open(digits.name)
    window.page.fill(".find input", "KIT")
    window.page.press(".find input", "Enter")
    expect(window.page.locator(".tiles.catalogue > .tile")).to_have_count(2)
    assert window.catalogue() == ["d-05", "d-33"]
    expect(window.page).to_have_url(re.compile("find=KIT"))
    window.page.reload()
    expect(window.page.locator(".tiles.catalogue > .tile")).to_have_count(2)
    window.page.fill(".find input", "")
    window.page.press(".find input", "Enter")
    expect(window.tile("d-00")).to_be_visible()


def test_a_label_filters_the_results_and_the_catalogue(window: Any, shared_digits: Any) -> None:
    window.open(shared_digits.name, like="d-07")
    window.page.locator(".chip", has=window.page.get_by_text("3", exact=True)).click()
    results = window.page.locator(".tiles.results > .tile")
    expect(results).to_have_count(shared_digits.labels.count("3"))
    shown = window.results()
    expect(window.page).to_have_url(re.compile("label=3"))
    window.page.reload()
    assert window.results() == shown
    window.page.keyboard.press("Escape")
    expect(window.page.locator(".tiles.catalogue > .tile")).to_have_count(shared_digits.labels.count("3"))


def test_many_labels_are_chosen_from_a_list(window: Any, create_empty: Any) -> None:
    client = create_empty(2)
    client.put([f"k{at}" for at in range(20)], [[at, 1.0] for at in range(20)], [f"label {at}" for at in range(20)])
    window.open(client.name)
    window.page.select_option(".filters select", index=3)
    expect(window.page.locator(".tiles.catalogue > .tile")).to_have_count(1)


def test_the_back_button_leads_to_the_previous_search_and_the_catalogue(window: Any, shared_digits: Any) -> None:
    window.open(shared_digits.name)
    window.tile("d-07").locator(".image").click()
    expect(window.page).to_have_url(re.compile("like=d-07"))
    window.page.click(".tiles.results .tile >> nth=0 >> .image")
    expect(window.page).not_to_have_url(re.compile("like=d-07"))
    window.page.go_back()
    expect(window.page.locator(".query-panel h2")).to_have_text("d-07")
    window.page.go_back()
    assert window.catalogue() == shared_digits.keys


def test_new_items_appear_automatically(window: Any, create_empty: Any) -> None:
    client = create_empty(2)
    window.open(client.name)
    expect(window.page.locator(".view-search .empty")).to_contain_text("There are no items yet")
    client.put(["no thumbnail"], [[1.0, 2.0]])
    expect(window.tile("no thumbnail").locator(".name")).to_have_text("no thumbnail")
