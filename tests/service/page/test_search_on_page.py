"""The catalogue, search, filters and navigation on the page."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def test_the_home_page_shows_the_number_of_items(look: Any, digits: Any) -> None:
    look.go()
    card = look.page.locator(f"[data-collection={digits.name}]")
    expect(card.locator("[data-number=items]")).to_have_text("60")


def test_a_card_links_to_its_collection(look: Any, digits: Any) -> None:
    look.go()
    look.page.click(f"[data-collection={digits.name}]")
    assert look.catalogue()[0] == "d-00"


def test_a_new_collection_appears_on_the_home_page(look: Any, empty: Any) -> None:
    look.go()
    made = empty(3)
    expect(look.page.locator(f"[data-collection={made.name}]")).to_be_visible()


def test_the_catalogue_shows_items_in_the_order_of_addition(look: Any, digits: Any) -> None:
    look.open(digits.name)
    assert look.catalogue() == digits.keys


def test_thumbnails_are_shown(look: Any, digits: Any) -> None:
    look.open(digits.name)
    look.page.wait_for_function("document.querySelector('.tile img')?.naturalWidth === 64")


def test_show_more_items(look: Any, digits: Any) -> None:
    digits.client.put(["one-more"], [[0.5] * 64])
    look.open(digits.name)
    look.page.click("text=Show more")
    expect(look.tile("one-more")).to_be_visible()


def test_clicking_an_item_shows_the_ranking_of_the_service(look: Any, digits: Any) -> None:
    look.open(digits.name)
    look.tile("d-07").locator(".image").click()
    expected = [match["key"] for match in digits.client.search("d-07", k=24)["matches"]]
    assert look.results() == expected


def test_results_show_their_distance(look: Any, digits: Any) -> None:
    look.open(digits.name, like="d-07")
    first = digits.client.search("d-07", k=1)["matches"][0]
    expect(look.tile(first["key"]).locator(".value")).to_have_text(f"{first['distance']:.3f}")


def test_the_query_is_shown_with_its_payload(look: Any, digits: Any) -> None:
    look.open(digits.name, like="d-07")
    expect(look.page.locator(".query-panel dl")).to_contain_text("number7")


def test_show_more_results(look: Any, digits: Any) -> None:
    look.open(digits.name, like="d-07")
    look.page.click("text=More results")
    expect(look.page.locator(".tiles.results > .tile")).to_have_count(48)


def test_similar_items_by_feedback_do_not_replace_other_results(look: Any, digits: Any) -> None:
    known = [key for key in digits.keys if key != "d-07"][:30]
    digits.client.feedback(query="d-07", positive=known)
    look.open(digits.name, like="d-07")
    shown = look.results()
    assert len([key for key in shown if key not in known]) == 24


def test_find_an_item_by_its_key(look: Any, digits: Any) -> None:
    look.open(digits.name)
    look.page.fill(".find input", "d-33")
    look.page.press(".find input", "Enter")
    expect(look.page.locator(".query-panel h2")).to_have_text("d-33")


def test_an_unknown_key_shows_a_message(look: Any, digits: Any) -> None:
    look.open(digits.name)
    look.page.fill(".find input", "nobody")
    look.page.press(".find input", "Enter")
    expect(look.page.locator(".q-notification")).to_contain_text("There is no item 'nobody'")
    assert look.catalogue() == digits.keys


def test_a_label_filters_the_catalogue(look: Any, digits: Any) -> None:
    look.open(digits.name)
    look.page.click(".chip:has-text('3') >> nth=0")
    expect(look.page.locator(".tiles.catalogue > .tile")).to_have_count(digits.labels.count("3"))


def test_a_label_filters_the_results(look: Any, digits: Any) -> None:
    look.open(digits.name, like="d-07")
    look.page.locator(".chip", has=look.page.get_by_text("3", exact=True)).click()
    expect(look.page.locator(".tiles.results > .tile")).to_have_count(digits.labels.count("3"))


def test_many_labels_are_chosen_from_a_list(look: Any, empty: Any) -> None:
    many = empty(2)
    many.put([f"k{at}" for at in range(20)], [[at, 1.0] for at in range(20)], [f"label {at}" for at in range(20)])
    look.open(many.name)
    look.page.select_option(".filters select", index=3)
    expect(look.page.locator(".tiles.catalogue > .tile")).to_have_count(1)


def test_reloading_keeps_the_search_and_the_label(look: Any, digits: Any) -> None:
    look.open(digits.name, label="3")
    look.page.click(".tiles.catalogue .tile >> nth=1 >> .image")
    before = look.results()
    expect(look.page).to_have_url(re.compile("like="))
    look.page.reload()
    assert look.results() == before


def test_the_back_button_leads_to_the_catalogue(look: Any, digits: Any) -> None:
    look.open(digits.name)
    look.tile("d-07").locator(".image").click()
    expect(look.page).to_have_url(re.compile("like=d-07"))
    look.page.go_back()
    assert look.catalogue() == digits.keys


def test_the_back_button_leads_to_the_previous_search(look: Any, digits: Any) -> None:
    look.open(digits.name, like="d-07")
    look.page.click(".tiles.results .tile >> nth=0 >> .image")
    expect(look.page).not_to_have_url(re.compile("like=d-07"))
    look.page.go_back()
    expect(look.page.locator(".query-panel h2")).to_have_text("d-07")


def test_new_items_appear_automatically(look: Any, empty: Any) -> None:
    client = empty(2)
    look.open(client.name)
    expect(look.page.locator(".view-search .empty")).to_be_visible()
    client.put(["the first"], [[1.0, 2.0]])
    expect(look.tile("the first")).to_be_visible()


def test_an_item_without_a_thumbnail_shows_its_key(look: Any, empty: Any) -> None:
    client = empty(2)
    client.put(["a plain one"], [[1.0, 2.0]])
    look.open(client.name)
    expect(look.tile("a plain one").locator(".name")).to_have_text("a plain one")
