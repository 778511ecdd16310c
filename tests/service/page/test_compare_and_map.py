"""The compare view and the map."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

ANSWER_TEXTS = {"yes": "Alike", "no": "Not alike", "unknown": "Unknown"}


def _points(window: Any, panel: str) -> list[str]:
    """Return the positions of the points in a map panel."""
    points = window.page.locator(f"[data-panel={panel}] g circle")
    expect(points).to_have_count(60)
    found: list[str] = points.evaluate_all("all => all.map(one => one.style.transform)")
    return found


def test_compare_a_result_with_the_query(window: Any, shared_digits: Any) -> None:
    window.open(shared_digits.name, like="d-07")
    other = window.results()[2]
    window.tile(other).locator(".mark.compare").click()
    result = shared_digits.client.compare("d-07", other)
    answer, score = window.page.locator("[data-answer]"), window.page.locator("[data-score]")
    expect(answer).to_have_text(ANSWER_TEXTS[result["answer"]])
    expect(score).to_have_text(f"{result['score']:.3f}")
    expect(window.page).to_have_url(re.compile("view=compare"))
    window.page.reload()
    expect(score).to_have_text(f"{result['score']:.3f}")


def test_choose_items_to_compare_by_key(window: Any, shared_digits: Any) -> None:
    window.open(shared_digits.name)
    window.page.click(".tab-compare")
    for at, key in enumerate(("d-07", "d-08")):
        window.page.fill(f".slot >> nth={at} >> input", key)
        window.page.press(f".slot >> nth={at} >> input", "Enter")
        expect(window.page.locator(".slot .key", has_text=key)).to_be_visible()
    result = shared_digits.client.compare("d-07", "d-08")
    expect(window.page.locator("[data-vote-share]")).to_have_text(f"{100 * result['vote_share']:.0f} %")
    expect(window.page.locator("[data-yes]")).to_have_text(f"{result['yes_below']:.3f}")
    expect(window.page.locator("[data-no]")).to_have_text(f"{result['no_from']:.3f}")
    window.page.click(".swap")
    expect(window.page.locator(".slot .key")).to_have_text(["d-08", "d-07"])


def test_comparing_with_an_unknown_item_shows_a_message(window: Any, shared_digits: Any) -> None:
    window.open(shared_digits.name, view="compare", first="d-07", second="missing")
    expect(window.page.locator(".comparison .banner")).to_contain_text("There is no item 'missing'")


def test_a_metric_without_a_threshold_shows_how_to_calibrate_it(window: Any, create_empty: Any) -> None:
    client = create_empty(2, learner="Euclidean")
    client.put(["a", "b"], [[1.0, 2.0], [3.0, 1.0]])
    window.open(client.name, view="compare", first="a", second="b")
    expect(window.page.locator(".comparison .banner")).to_contain_text("calibrate")


def test_a_calibration_with_few_pairs_shows_a_warning(window: Any, digits: Any) -> None:
    pairs = [{"first": "d-00", "second": key, "same": key in digits.similar_to("d-00")} for key in digits.keys[1:]]
    (warning,) = digits.client.calibrate(pairs, target_far=0.01)["warnings"]
    window.open(digits.name, view="compare", first="d-07", second="d-08")
    expect(window.page.locator(".comparison .warning")).to_have_text(warning)


def test_a_comparison_is_updated_when_the_metric_changes(window: Any, digits: Any) -> None:
    first, second = "d-07", digits.similar_to("d-07")[0]
    window.open(digits.name, view="compare", first=first, second=second)
    before = window.page.locator("[data-score]").text_content()
    not_alike = digits.dissimilar_to(first)[:6]
    digits.client.feedback([{"anchor": first, "positive": second, "negative": other} for other in not_alike])
    expect(window.page.locator("[data-score]")).not_to_have_text(before)


# -- the map -------------------------------------------------------------------------------------------------


def test_before_learning_both_maps_show_the_same_points(window: Any, shared_digits: Any) -> None:
    window.open(shared_digits.name, view="map")
    assert _points(window, "Before") == _points(window, "After")
    expect(window.page.locator(".legend li")).to_have_text([str(digit) for digit in range(10)])
    colours = window.page.locator("[data-panel=After] g circle").evaluate_all(
        "all => all.map(one => one.getAttribute('fill'))"
    )
    by_label = dict(zip(shared_digits.labels, colours, strict=True))
    assert len(set(by_label.values())) == 10
    assert [by_label[label] for label in shared_digits.labels] == colours


def test_learning_changes_only_the_map_after(window: Any, digits: Any) -> None:
    window.open(digits.name, view="map")
    before = _points(window, "Before")
    records = [
        {"query": key, "positive": digits.similar_to(key)[:1], "negative": digits.dissimilar_to(key)[:1]}
        for key in digits.keys
    ]
    digits.client.feedback(records)
    window.page.wait_for_function(
        "before => [...document.querySelectorAll('[data-panel=After] g circle')]"
        ".map(one => one.style.transform).join() !== before.join()",
        arg=before,
    )
    assert _points(window, "Before") == before


def _hover_over_point(window: Any, index: int) -> None:
    window.page.wait_for_function(
        "() => [...document.querySelectorAll('[data-panel=Before] g circle')].length"
        " && !document.getAnimations().some(one => one.playState === 'running')"
    )
    box = window.page.locator("[data-panel=Before] g circle").nth(index).bounding_box()
    window.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


def test_a_point_shows_its_item_and_searches_for_it(window: Any, shared_digits: Any) -> None:
    window.open(shared_digits.name, view="map")
    _points(window, "Before")
    _hover_over_point(window, 12)
    expect(window.page.locator(".hover .key")).to_have_text("d-12")
    window.page.mouse.down()
    window.page.mouse.up()
    expect(window.page.locator(".query-panel h2")).to_have_text("d-12")


def test_a_metric_without_vectors_searches_but_has_no_map(window: Any, create_empty: Any) -> None:
    client = create_empty(2, learner="OASIS")
    client.put(["a", "b", "c"], [[1.0, 2.0], [3.0, 1.0], [2.0, 2.0]])
    window.open(client.name, like="a")
    assert window.results() == [match["key"] for match in client.search("a")["matches"]]
    window.page.click(".tab-map")
    expect(window.page.locator(".map .empty")).to_contain_text("has no vectors")


def test_a_map_needs_three_items(window: Any, create_empty: Any) -> None:
    window.open(create_empty(2).name, view="map")
    expect(window.page.locator(".map .empty")).to_contain_text("three items")
