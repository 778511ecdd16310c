"""Feedback on the page: ranking, weights and log follow it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def _mark_two(look: Any, digits: Any, query: str = "d-07") -> tuple[str, str]:
    """Mark one result as alike and one as not alike. Return both."""
    look.open(digits.name, like=query)
    shown = look.results()
    alike = next(key for key in reversed(shown) if key in digits.similar_to(query))
    unlike = next(key for key in shown if key in digits.dissimilar_to(query))
    look.mark(alike, "similar")
    look.mark(unlike, "dissimilar")
    return alike, unlike


def test_a_result_marked_as_alike_comes_first(look: Any, digits: Any) -> None:
    alike, _ = _mark_two(look, digits)
    assert look.results()[0] == alike
    expect(look.tile(alike).locator(".badge")).to_have_text("= alike")


def test_a_result_marked_as_not_alike_comes_last(look: Any, digits: Any) -> None:
    _, unlike = _mark_two(look, digits)
    assert look.results()[-1] == unlike
    expect(look.tile(unlike).locator(".badge")).to_have_text("≠ not alike")


def test_a_mark_is_stored_in_the_feedback_log(look: Any, digits: Any) -> None:
    alike, unlike = _mark_two(look, digits)
    said = [(one["query"], one["positive"], one["negative"]) for one in digits.client.feedback_log()]
    assert said == [("d-07", [alike], []), ("d-07", [], [unlike])]


def test_the_ranking_of_unmarked_results_changes(look: Any, digits: Any) -> None:
    look.open(digits.name, like="d-07")
    before = look.results()
    marked = _mark_two(look, digits)
    unmarked = [key for key in before if key not in marked]
    look.wait_until(lambda: [key for key in look.results() if key in unmarked] != unmarked)


def test_the_shown_ranking_becomes_the_ranking_of_the_service(look: Any, digits: Any) -> None:
    _mark_two(look, digits)
    k = 25  # the page size, and the item marked as alike
    look.wait_until(
        lambda: look.results()[:k] == [one["key"] for one in digits.client.search("d-07", k=k)["matches"]]
    )


def test_moved_results_show_the_number_of_ranks(look: Any, digits: Any) -> None:
    look.open(digits.name, like="d-07")
    last = look.results()[-1]
    look.tile(last).locator(".mark.similar").click()
    expect(look.tile(last).locator(".moved")).to_contain_text("▲23")


def test_distances_are_updated_when_the_order_stays(look: Any, empty: Any) -> None:
    client = empty(2, learner="OAHU", parameters={"learning_rate": 0.3})
    client.put(["a", "b", "far"], [[1.0, 0.0], [0.9, 0.3], [-1.0, 0.2]])
    look.open(client.name, like="a")
    before = look.tile("b").locator(".value").text_content()
    client.feedback([{"anchor": "far", "positive": "a", "negative": "b"}])
    expect(look.tile("b").locator(".value")).not_to_have_text(before)


def test_the_weights_chart_changes(look: Any, digits: Any) -> None:
    look.open(digits.name)
    before = look.weights()
    _mark_two(look, digits)
    expect(look.page.locator(".bars .weight")).not_to_have_text(before)


def test_the_weights_chart_shows_the_weights_of_the_service(look: Any, digits: Any) -> None:
    _mark_two(look, digits)
    expect(look.number("version")).to_have_text("2")
    told = digits.client.describe()["weights"]
    shown = [float(text.removesuffix(" %")) / 100 for text in look.weights()]
    assert all(abs(one - other) <= 0.0005 for one, other in zip(shown, told.values(), strict=True))


def test_the_history_chart_changes(look: Any, digits: Any) -> None:
    look.open(digits.name)
    band = look.page.locator(".metric svg path >> nth=0")
    before = band.get_attribute("d")
    assert before is not None
    _mark_two(look, digits)
    expect(band).not_to_have_attribute("d", before)


def test_anchored_oahu_learns_from_marks(look: Any, anchored: Any) -> None:
    _mark_two(look, anchored)
    expect(look.number("constraints")).not_to_have_text("0")


def test_anchored_oahu_changes_its_weights(look: Any, anchored: Any) -> None:
    look.open(anchored.name)
    pieces = [
        {"query": key, "positive": [anchored.similar_to(key)[0]], "negative": [anchored.dissimilar_to(key)[round_]]}
        for round_ in range(5)
        for key in anchored.keys
    ]
    assert look.weights()[0] == "100.0 %"
    anchored.client.feedback(pieces)
    expect(look.page.locator(".bars .weight").first).not_to_have_text("100.0 %")


def test_reloading_keeps_the_marks(look: Any, digits: Any) -> None:
    alike, unlike = _mark_two(look, digits)
    look.page.reload()
    shown = look.results()
    assert (shown[0], shown[-1]) == (alike, unlike)


def test_one_mark_alone_shows_a_hint(look: Any, digits: Any) -> None:
    look.open(digits.name, like="d-07")
    look.mark(look.results()[0], "similar")
    expect(look.page.locator(".query-panel .hint")).to_contain_text("one that is not alike too")


# -- undoing -------------------------------------------------------------------------------------------------


def test_undo_in_the_log_strikes_the_record_through(look: Any, digits: Any) -> None:
    _mark_two(look, digits)
    look.log_row(2).locator(".undo").click()
    expect(look.log_row(2)).to_have_class("undone")


def test_undoing_everything_restores_the_ranking(look: Any, digits: Any) -> None:
    look.open(digits.name, like="d-07")
    before = look.results()
    _mark_two(look, digits)
    look.log_row(2).locator(".undo").click()
    look.log_row(1).locator(".undo").click()
    look.page.wait_for_function(
        "before => [...document.querySelectorAll('.tiles.results > .tile')].map(one => one.dataset.key).join()"
        " === before.join()",
        arg=before,
    )


def test_undo_restores_the_weights(look: Any, digits: Any) -> None:
    look.open(digits.name)
    before = look.weights()
    _mark_two(look, digits)
    expect(look.page.locator(".bars .weight")).not_to_have_text(before)
    look.log_row(2).locator(".undo").click()
    expect(look.page.locator(".bars .weight")).to_have_text(before)


def test_the_same_mark_again_undoes_it(look: Any, digits: Any) -> None:
    look.open(digits.name, like="d-07")
    key = look.results()[3]
    look.mark(key, "similar")
    look.tile(key).locator(".mark.similar").click()
    expect(look.log_row(1)).to_have_class("undone")


def test_undoing_an_implied_mark_shows_a_message(look: Any, digits: Any) -> None:
    first, second, third, *_ = ["d-07", *digits.similar_to("d-07")]
    digits.client.feedback([{"query": second, "positive": [first, third], "negative": []}])
    look.open(digits.name, like=first)
    look.tile(third).locator(".mark.similar").click()
    expect(look.page.locator(".q-notification")).to_contain_text("Other feedback implies this")


def test_the_log_has_pages(look: Any, digits: Any) -> None:
    pieces = [{"query": key, "positive": [digits.similar_to(key)[0]], "negative": []} for key in digits.keys[:20]]
    digits.client.feedback(pieces)
    look.open(digits.name)
    look.page.click(".log >> text=Older")
    expect(look.log_row(1)).to_be_visible()


def test_clicking_an_item_in_the_log_searches_for_it(look: Any, digits: Any) -> None:
    _mark_two(look, digits)
    look.go(f"/collections/{digits.name}")
    look.log_row(1).locator(".small >> nth=0").click()
    expect(look.page.locator(".query-panel h2")).to_have_text("d-07")


# -- contradictions ------------------------------------------------------------------------------------------


def _contradict(look: Any, digits: Any) -> tuple[str, str, str]:
    """Mark two items as not alike that are both similar to a third."""
    third, first, second, *_ = ["d-07", *digits.similar_to("d-07")]
    digits.client.feedback([{"first": third, "second": first, "same": True}])
    digits.client.feedback([{"first": third, "second": second, "same": True}])
    look.open(digits.name, like=first)
    look.tile(second).locator(".mark.dissimilar").click()
    expect(look.page.locator(".contradiction")).to_be_visible()
    return first, second, third


def test_a_contradiction_shows_its_proof(look: Any, digits: Any) -> None:
    first, second, third = _contradict(look, digits)
    links = look.page.locator(".contradiction li")
    told = [set(links.nth(at).locator("em").all_text_contents()) for at in range(links.count())]
    assert told == [{first, third}, {third, second}]


def test_undoing_contradicting_feedback_stores_the_new_feedback(look: Any, digits: Any) -> None:
    _, second, _ = _contradict(look, digits)
    look.page.click(".contradiction >> text=Undo 2")
    expect(look.tile(second).locator(".badge")).to_have_text("≠ not alike")
    assert list(digits.client.feedback_log())[-1]["negative"] == [second]


def test_keeping_the_earlier_feedback_changes_nothing(look: Any, digits: Any) -> None:
    _contradict(look, digits)
    look.page.click("text=Keep the earlier feedback")
    expect(look.page.locator(".contradiction")).to_be_hidden()
    assert len(list(digits.client.feedback_log())) == 2


# -- others --------------------------------------------------------------------------------------------------


def test_feedback_appears_in_the_ranking_of_another_browser(window: Any, address: str, digits: Any) -> None:
    mine, yours = window(address), window(address)
    yours.open(digits.name, like="d-07")
    alike, _ = _mark_two(mine, digits)
    expect(yours.tile(alike).locator(".badge")).to_have_text("= alike")


def test_feedback_changes_the_chart_in_another_browser(window: Any, address: str, digits: Any) -> None:
    mine, yours = window(address), window(address)
    yours.open(digits.name)
    before = yours.weights()
    _mark_two(mine, digits)
    expect(yours.page.locator(".bars .weight")).not_to_have_text(before)


def test_undo_appears_in_another_browser(window: Any, address: str, digits: Any) -> None:
    mine, yours = window(address), window(address)
    yours.open(digits.name)
    _mark_two(mine, digits)
    mine.log_row(1).locator(".undo").click()
    expect(yours.log_row(1)).to_have_class("undone")


# -- what goes wrong -----------------------------------------------------------------------------------------


def test_deleting_the_query_shows_the_catalogue_and_a_message(look: Any, digits: Any) -> None:
    look.open(digits.name, like="d-07")
    look.results()
    digits.client.delete_items(["d-07"])
    expect(look.page.locator(".q-notification")).to_contain_text("There is no item 'd-07'")
    assert "d-07" not in look.catalogue()


def test_a_result_that_is_deleted_disappears(look: Any, digits: Any) -> None:
    look.open(digits.name, like="d-07")
    first = look.results()[0]
    digits.client.delete_items([first])
    expect(look.tile(first)).to_have_count(0)


def test_deleted_items_stay_in_the_log_by_their_keys(look: Any, digits: Any) -> None:
    alike, _ = _mark_two(look, digits)
    digits.client.delete_items([alike])
    expect(look.log_row(1).locator(".small >> nth=1")).to_be_disabled()


def test_a_failed_learner_shows_a_message(look: Any, digits: Any) -> None:
    look.open(digits.name)
    httpx.post(f"{look.address}/fail/{digits.name}").raise_for_status()
    expect(look.page.locator(".metric .banner")).to_contain_text("The learner has failed")


def test_a_rejected_mark_shows_the_reason(look: Any, digits: Any) -> None:
    look.open(digits.name, like="d-07")
    httpx.post(f"{look.address}/fail/{digits.name}").raise_for_status()
    look.tile(look.results()[0]).locator(".mark.similar").click()
    expect(look.page.locator(".q-notification")).to_contain_text("has failed")


def test_a_deleted_collection_shows_a_message(look: Any, digits: Any) -> None:
    look.open(digits.name)
    digits.client.delete()
    expect(look.page.locator(".workspace > .banner")).to_have_text("This collection was deleted.")
