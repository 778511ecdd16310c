"""Comparing two items, and the map."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import expect

WORDS = {"yes": "Alike", "no": "Not alike", "unknown": "Unknown"}


def _points(look: Any, panel: str) -> list[str]:
    """Where the points of a map are, when they have come."""
    points = look.page.locator(f"[data-panel={panel}] g circle")
    expect(points).to_have_count(60)
    found: list[str] = points.evaluate_all("all => all.map(one => one.style.transform)")
    return found


def test_a_result_is_compared_with_what_was_searched_for(look: Any, digits: Any) -> None:
    look.at(digits.name, like="d-07")
    other = look.results()[2]
    look.tile(other).locator(".mark.compare").click()
    told = digits.client.compare("d-07", other)
    expect(look.page.locator("[data-answer]")).to_have_text(WORDS[told["answer"]])
    expect(look.page.locator("[data-score]")).to_have_text(f"{told['score']:.3f}")


def test_the_vote_share_and_the_thresholds_are_shown(look: Any, digits: Any) -> None:
    told = digits.client.compare("d-07", "d-08")
    look.at(digits.name, view="compare", first="d-07", second="d-08")
    expect(look.page.locator("[data-vote-share]")).to_have_text(f"{100 * told['vote_share']:.0f} %")
    expect(look.page.locator("[data-yes]")).to_have_text(f"{told['yes_below']:.3f}")
    expect(look.page.locator("[data-no]")).to_have_text(f"{told['no_from']:.3f}")


def test_items_to_compare_are_chosen_by_their_keys(look: Any, digits: Any) -> None:
    look.at(digits.name)
    look.page.click(".tab-compare")
    for at, key in enumerate(("d-03", "d-13")):
        look.page.fill(f".slot >> nth={at} >> input", key)
        look.page.press(f".slot >> nth={at} >> input", "Enter")
        expect(look.page.locator(".slot .key", has_text=key)).to_be_visible()
    expect(look.page.locator("[data-answer]")).to_be_visible()


def test_a_comparison_survives_reloading(look: Any, digits: Any) -> None:
    look.at(digits.name, like="d-07")
    look.page.click(".tiles.results .tile >> nth=0 >> .mark.compare")
    answer = look.page.locator("[data-score]").text_content()
    expect(look.page).to_have_url(re.compile("view=compare"))
    look.page.reload()
    expect(look.page.locator("[data-score]")).to_have_text(answer)


def test_the_two_can_be_swapped(look: Any, digits: Any) -> None:
    look.at(digits.name, view="compare", first="d-07", second="d-08")
    look.page.click(".swap")
    expect(look.page.locator(".slot .key")).to_have_text(["d-08", "d-07"])


def test_comparing_with_what_is_not_there_says_so(look: Any, digits: Any) -> None:
    look.at(digits.name, view="compare", first="d-07", second="nobody")
    expect(look.page.locator(".comparison .banner")).to_contain_text("There is no item 'nobody'")


def test_a_metric_without_a_threshold_asks_to_be_calibrated(look: Any, empty: Any) -> None:
    client = empty(2, learner="Euclidean")
    client.put(["a", "b"], [[1.0, 2.0], [3.0, 1.0]])
    look.at(client.name, view="compare", first="a", second="b")
    expect(look.page.locator(".comparison .banner")).to_contain_text("calibrate")


def test_a_comparison_follows_the_metric(look: Any, digits: Any) -> None:
    first, second = "d-07", digits.like("d-07")[0]
    look.at(digits.name, view="compare", first=first, second=second)
    before = look.page.locator("[data-score]").text_content()
    unlike = digits.unlike(first)[:6]
    digits.client.feedback([{"anchor": first, "positive": second, "negative": other} for other in unlike])
    expect(look.page.locator("[data-score]")).not_to_have_text(before)


# -- the map -------------------------------------------------------------------------------------------------


def test_the_map_shows_the_items_before_and_after(look: Any, digits: Any) -> None:
    look.at(digits.name, view="map")
    assert len(_points(look, "Before")) == len(_points(look, "After")) == 60


def test_before_anything_is_learned_both_maps_are_the_same(look: Any, digits: Any) -> None:
    look.at(digits.name, view="map")
    assert _points(look, "Before") == _points(look, "After")


def test_learning_moves_the_map_after_and_not_the_one_before(look: Any, digits: Any) -> None:
    look.at(digits.name, view="map")
    before = _points(look, "Before")
    pieces = [
        {"query": key, "positive": digits.like(key)[:1], "negative": digits.unlike(key)[:1]} for key in digits.keys
    ]
    digits.client.feedback(pieces)
    look.page.wait_for_function(
        "before => [...document.querySelectorAll('[data-panel=After] g circle')]"
        ".map(one => one.style.transform).join() !== before.join()",
        arg=before,
    )
    assert _points(look, "Before") == before


def test_labels_have_colours(look: Any, digits: Any) -> None:
    look.at(digits.name, view="map")
    expect(look.page.locator(".legend li")).to_have_text([str(digit) for digit in range(10)])
    colours = look.page.locator("[data-panel=After] g circle").evaluate_all(
        "all => all.map(one => one.getAttribute('fill'))"
    )
    by_label = dict(zip(digits.labels, colours, strict=True))
    assert len(set(by_label.values())) == 10
    assert [by_label[label] for label in digits.labels] == colours


def _hover(look: Any, at: int) -> None:
    look.page.wait_for_function(
        "() => [...document.querySelectorAll('[data-panel=Before] g circle')].length"
        " && !document.getAnimations().some(one => one.playState === 'running')"
    )
    box = look.page.locator("[data-panel=Before] g circle").nth(at).bounding_box()
    look.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


def test_hovering_shows_the_item(look: Any, digits: Any) -> None:
    look.at(digits.name, view="map")
    _points(look, "Before")
    _hover(look, 12)
    expect(look.page.locator(".hover .key")).to_have_text("d-12")


def test_clicking_searches_for_the_item(look: Any, digits: Any) -> None:
    look.at(digits.name, view="map")
    _points(look, "Before")
    _hover(look, 12)
    look.page.mouse.down()
    look.page.mouse.up()
    expect(look.page.locator(".query-panel h2")).to_have_text("d-12")


def test_a_metric_without_vectors_has_no_map_and_says_so(look: Any, empty: Any) -> None:
    client = empty(2, learner="OASIS")
    client.put(["a", "b", "c"], [[1.0, 2.0], [3.0, 1.0], [2.0, 2.0]])
    look.at(client.name, view="map")
    expect(look.page.locator(".map .empty")).to_contain_text("has no vectors")


def test_a_metric_without_vectors_is_searched_by_score(look: Any, empty: Any) -> None:
    client = empty(2, learner="OASIS")
    client.put(["a", "b", "c"], [[1.0, 2.0], [3.0, 1.0], [2.0, 2.0]])
    look.at(client.name, like="a")
    assert look.results() == [match["key"] for match in client.search("a")["matches"]]


def test_a_map_needs_some_items(look: Any, empty: Any) -> None:
    look.at(empty(2).name, view="map")
    expect(look.page.locator(".map .empty")).to_contain_text("three items")
