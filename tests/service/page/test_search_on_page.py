"""Looking around: the gallery, searching, filtering, and finding the way back."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import expect


def test_the_first_page_tells_what_is_in_a_collection(look: Any, digits: Any) -> None:
    look.go()
    card = look.page.locator(f"[data-collection={digits.name}]")
    expect(card.locator("[data-number=items]")).to_have_text("60")


def test_a_card_leads_to_its_collection(look: Any, digits: Any) -> None:
    look.go()
    look.page.click(f"[data-collection={digits.name}]")
    assert look.gallery()[0] == "d-00"


def test_a_collection_that_is_made_appears_on_the_first_page_by_itself(look: Any, empty: Any) -> None:
    look.go()
    made = empty(3)
    expect(look.page.locator(f"[data-collection={made.name}]")).to_be_visible()


def test_the_gallery_shows_items_in_the_order_in_which_they_were_added(look: Any, digits: Any) -> None:
    look.at(digits.name)
    assert look.gallery() == digits.keys


def test_thumbnails_are_shown(look: Any, digits: Any) -> None:
    look.at(digits.name)
    look.page.wait_for_function("document.querySelector('.tile img')?.naturalWidth === 64")


def test_a_gallery_shows_more_when_asked(look: Any, digits: Any) -> None:
    digits.client.put(["one-more"], [[0.5] * 64])
    look.at(digits.name)
    look.page.click("text=Show more")
    expect(look.tile("one-more")).to_be_visible()


def test_clicking_an_item_ranks_the_others_as_the_service_does(look: Any, digits: Any) -> None:
    look.at(digits.name)
    look.tile("d-07").locator(".image").click()
    expected = [match["key"] for match in digits.client.search("d-07", k=24)["matches"]]
    assert look.results() == expected


def test_results_tell_their_distance(look: Any, digits: Any) -> None:
    look.at(digits.name, like="d-07")
    first = digits.client.search("d-07", k=1)["matches"][0]
    expect(look.tile(first["key"]).locator(".value")).to_have_text(f"{first['distance']:.3f}")


def test_what_was_searched_for_is_shown_with_its_payload(look: Any, digits: Any) -> None:
    look.at(digits.name, like="d-07")
    expect(look.page.locator(".query-panel dl")).to_contain_text("number7")


def test_more_results_come_when_asked_for(look: Any, digits: Any) -> None:
    look.at(digits.name, like="d-07")
    look.page.click("text=More results")
    expect(look.page.locator(".tiles.results > .tile")).to_have_count(48)


def test_results_that_are_known_leave_room_for_those_that_are_not(look: Any, digits: Any) -> None:
    known = [key for key in digits.keys if key != "d-07"][:30]
    digits.client.feedback(query="d-07", positive=known)
    look.at(digits.name, like="d-07")
    shown = look.results()
    assert len([key for key in shown if key not in known]) == 24


def test_an_item_is_found_by_its_key(look: Any, digits: Any) -> None:
    look.at(digits.name)
    look.page.fill(".find input", "d-33")
    look.page.press(".find input", "Enter")
    expect(look.page.locator(".query-panel h2")).to_have_text("d-33")


def test_a_key_that_is_not_there_is_told_and_nothing_else_changes(look: Any, digits: Any) -> None:
    look.at(digits.name)
    look.page.fill(".find input", "nobody")
    look.page.press(".find input", "Enter")
    expect(look.page.locator(".q-notification")).to_contain_text("There is no item 'nobody'")
    assert look.gallery() == digits.keys


def test_a_label_filters_the_gallery(look: Any, digits: Any) -> None:
    look.at(digits.name)
    look.page.click(".chip:has-text('3') >> nth=0")
    expect(look.page.locator(".tiles.catalogue > .tile")).to_have_count(digits.labels.count("3"))


def test_a_label_filters_the_results(look: Any, digits: Any) -> None:
    look.at(digits.name, like="d-07")
    look.page.locator(".chip", has=look.page.get_by_text("3", exact=True)).click()
    expect(look.page.locator(".tiles.results > .tile")).to_have_count(digits.labels.count("3"))


def test_many_labels_are_chosen_from_a_list(look: Any, empty: Any) -> None:
    many = empty(2)
    many.put([f"k{at}" for at in range(20)], [[at, 1.0] for at in range(20)], [f"label {at}" for at in range(20)])
    look.at(many.name)
    look.page.select_option(".filters select", index=3)
    expect(look.page.locator(".tiles.catalogue > .tile")).to_have_count(1)


def test_reloading_keeps_the_search_and_the_label(look: Any, digits: Any) -> None:
    look.at(digits.name, label="3")
    look.page.click(".tiles.catalogue .tile >> nth=1 >> .image")
    before = look.results()
    expect(look.page).to_have_url(re.compile("like="))
    look.page.reload()
    assert look.results() == before


def test_the_browsers_way_back_leads_to_the_gallery(look: Any, digits: Any) -> None:
    look.at(digits.name)
    look.tile("d-07").locator(".image").click()
    expect(look.page).to_have_url(re.compile("like=d-07"))
    look.page.go_back()
    assert look.gallery() == digits.keys


def test_the_browsers_way_back_leads_to_the_search_before(look: Any, digits: Any) -> None:
    look.at(digits.name, like="d-07")
    look.page.click(".tiles.results .tile >> nth=0 >> .image")
    expect(look.page).not_to_have_url(re.compile("like=d-07"))
    look.page.go_back()
    expect(look.page.locator(".query-panel h2")).to_have_text("d-07")


def test_items_that_are_added_appear_by_themselves(look: Any, empty: Any) -> None:
    client = empty(2)
    look.at(client.name)
    expect(look.page.locator(".view-search .empty")).to_be_visible()
    client.put(["the first"], [[1.0, 2.0]])
    expect(look.tile("the first")).to_be_visible()


def test_an_item_without_a_thumbnail_shows_its_key(look: Any, empty: Any) -> None:
    client = empty(2)
    client.put(["a plain one"], [[1.0, 2.0]])
    look.at(client.name)
    expect(look.tile("a plain one").locator(".name")).to_have_text("a plain one")
