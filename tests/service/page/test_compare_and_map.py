"""The compare view and the map."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

WORDS = {"yes": "Alike", "no": "Not alike", "unknown": "Unknown"}


def _points(look: Any, panel: str) -> list[str]:
    """Return the positions of the points in a map panel."""
    points = look.page.locator(f"[data-panel={panel}] g circle")
    expect(points).to_have_count(60)
    found: list[str] = points.evaluate_all("all => all.map(one => one.style.transform)")
    return found


def test_compare_a_result_with_the_query(look: Any, digits: Any) -> None:
    look.open(digits.name, like="d-07")
    other = look.results()[2]
    look.tile(other).locator(".mark.compare").click()
    result = digits.client.compare("d-07", other)
    expect(look.page.locator("[data-answer]")).to_have_text(WORDS[result["answer"]])
    expect(look.page.locator("[data-score]")).to_have_text(f"{result['score']:.3f}")


def test_the_vote_share_and_the_thresholds_are_shown(look: Any, digits: Any) -> None:
    result = digits.client.compare("d-07", "d-08")
    look.open(digits.name, view="compare", first="d-07", second="d-08")
    expect(look.page.locator("[data-vote-share]")).to_have_text(f"{100 * result['vote_share']:.0f} %")
    expect(look.page.locator("[data-yes]")).to_have_text(f"{result['yes_below']:.3f}")
    expect(look.page.locator("[data-no]")).to_have_text(f"{result['no_from']:.3f}")


def test_choose_items_to_compare_by_key(look: Any, digits: Any) -> None:
    look.open(digits.name)
    look.page.click(".tab-compare")
    for at, key in enumerate(("d-03", "d-13")):
        look.page.fill(f".slot >> nth={at} >> input", key)
        look.page.press(f".slot >> nth={at} >> input", "Enter")
        expect(look.page.locator(".slot .key", has_text=key)).to_be_visible()
    expect(look.page.locator("[data-answer]")).to_be_visible()


def test_a_comparison_survives_reloading(look: Any, digits: Any) -> None:
    look.open(digits.name, like="d-07")
    look.page.click(".tiles.results .tile >> nth=0 >> .mark.compare")
    answer = look.page.locator("[data-score]").text_content()
    expect(look.page).to_have_url(re.compile("view=compare"))
    look.page.reload()
    expect(look.page.locator("[data-score]")).to_have_text(answer)


def test_swap_the_items(look: Any, digits: Any) -> None:
    look.open(digits.name, view="compare", first="d-07", second="d-08")
    look.page.click(".swap")
    expect(look.page.locator(".slot .key")).to_have_text(["d-08", "d-07"])


def test_comparing_with_an_unknown_item_shows_a_message(look: Any, digits: Any) -> None:
    look.open(digits.name, view="compare", first="d-07", second="nobody")
    expect(look.page.locator(".comparison .banner")).to_contain_text("There is no item 'nobody'")


def test_a_metric_without_a_threshold_asks_for_calibration(look: Any, empty: Any) -> None:
    client = empty(2, learner="Euclidean")
    client.put(["a", "b"], [[1.0, 2.0], [3.0, 1.0]])
    look.open(client.name, view="compare", first="a", second="b")
    expect(look.page.locator(".comparison .banner")).to_contain_text("calibrate")


def test_a_comparison_is_updated_when_the_metric_changes(look: Any, digits: Any) -> None:
    first, second = "d-07", digits.similar_to("d-07")[0]
    look.open(digits.name, view="compare", first=first, second=second)
    before = look.page.locator("[data-score]").text_content()
    unlike = digits.dissimilar_to(first)[:6]
    digits.client.feedback([{"anchor": first, "positive": second, "negative": other} for other in unlike])
    expect(look.page.locator("[data-score]")).not_to_have_text(before)


# -- the map -------------------------------------------------------------------------------------------------


def test_the_map_shows_the_items_before_and_after(look: Any, digits: Any) -> None:
    look.open(digits.name, view="map")
    assert len(_points(look, "Before")) == len(_points(look, "After")) == 60


def test_before_learning_both_maps_are_equal(look: Any, digits: Any) -> None:
    look.open(digits.name, view="map")
    assert _points(look, "Before") == _points(look, "After")


def test_learning_changes_only_the_map_after(look: Any, digits: Any) -> None:
    look.open(digits.name, view="map")
    before = _points(look, "Before")
    pieces = [
        {"query": key, "positive": digits.similar_to(key)[:1], "negative": digits.dissimilar_to(key)[:1]}
        for key in digits.keys
    ]
    digits.client.feedback(pieces)
    look.page.wait_for_function(
        "before => [...document.querySelectorAll('[data-panel=After] g circle')]"
        ".map(one => one.style.transform).join() !== before.join()",
        arg=before,
    )
    assert _points(look, "Before") == before


def test_labels_have_colours(look: Any, digits: Any) -> None:
    look.open(digits.name, view="map")
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
    look.open(digits.name, view="map")
    _points(look, "Before")
    _hover(look, 12)
    expect(look.page.locator(".hover .key")).to_have_text("d-12")


def test_clicking_searches_for_the_item(look: Any, digits: Any) -> None:
    look.open(digits.name, view="map")
    _points(look, "Before")
    _hover(look, 12)
    look.page.mouse.down()
    look.page.mouse.up()
    expect(look.page.locator(".query-panel h2")).to_have_text("d-12")


def test_a_metric_without_vectors_shows_a_message_instead_of_a_map(look: Any, empty: Any) -> None:
    client = empty(2, learner="OASIS")
    client.put(["a", "b", "c"], [[1.0, 2.0], [3.0, 1.0], [2.0, 2.0]])
    look.open(client.name, view="map")
    expect(look.page.locator(".map .empty")).to_contain_text("has no vectors")


def test_search_with_a_metric_without_vectors(look: Any, empty: Any) -> None:
    client = empty(2, learner="OASIS")
    client.put(["a", "b", "c"], [[1.0, 2.0], [3.0, 1.0], [2.0, 2.0]])
    look.open(client.name, like="a")
    assert look.results() == [match["key"] for match in client.search("a")["matches"]]


def test_a_map_needs_three_items(look: Any, empty: Any) -> None:
    look.open(empty(2).name, view="map")
    expect(look.page.locator(".map .empty")).to_contain_text("three items")
