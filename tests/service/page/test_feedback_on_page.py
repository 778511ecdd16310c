"""Feedback on the page: ranking, weights and log follow it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def _mark_two(window: Any, digits: Any, query: str = "d-07") -> tuple[str, str]:
    """Mark one shown result as alike and one as not alike. Return both."""
    shown = window.results()
    alike = next(key for key in reversed(shown) if key in digits.similar_to(query))
    not_alike = next(key for key in shown if key in digits.dissimilar_to(query))
    window.mark(alike, "similar")
    window.mark(not_alike, "dissimilar")
    return alike, not_alike


def test_marks_are_stored_and_sort_the_results(window: Any, digits: Any) -> None:
    window.open(digits.name, like="d-07")
    alike, not_alike = _mark_two(window, digits)
    shown = window.results()
    assert (shown[0], shown[-1]) == (alike, not_alike)
    expect(window.tile(alike).locator(".badge")).to_have_text("= alike")
    expect(window.tile(not_alike).locator(".badge")).to_have_text("≠ not alike")
    stored = [(one["query"], one["positive"], one["negative"]) for one in digits.client.feedback_log()]
    assert stored == [("d-07", [alike], []), ("d-07", [], [not_alike])]
    window.page.reload()
    shown = window.results()
    assert (shown[0], shown[-1]) == (alike, not_alike)


def test_marks_change_the_ranking_and_undo_restores_it(window: Any, digits: Any) -> None:
    window.open(digits.name, like="d-07")
    before = window.results()
    marked = _mark_two(window, digits)
    unmarked = [key for key in before if key not in marked]
    window.wait_until(lambda: [key for key in window.results() if key in unmarked] != unmarked)
    k = 25  # the page size, and the item marked as alike
    window.wait_until(
        lambda: window.results()[:k] == [one["key"] for one in digits.client.search("d-07", k=k)["matches"]]
    )
    for seq in (2, 1):
        window.log_row(seq).locator(".undo").click()
        expect(window.log_row(seq)).to_have_class("undone")
    window.wait_until(lambda: window.results() == before)


def test_marks_change_the_charts_and_undo_restores_the_weights(window: Any, digits: Any) -> None:
    window.open(digits.name, like="d-07")
    weights, history = window.page.locator(".bars .weight"), window.page.locator(".metric svg path >> nth=0")
    before, history_before = window.weights(), history.get_attribute("d")
    assert history_before is not None
    _mark_two(window, digits)
    expect(window.number("version")).to_have_text("2")
    expect(weights).not_to_have_text(before)
    expect(history).not_to_have_attribute("d", history_before)
    expected = digits.client.describe()["weights"]
    shown = [float(text.removesuffix(" %")) / 100 for text in window.weights()]
    assert all(abs(one - other) <= 0.0005 for one, other in zip(shown, expected.values(), strict=True))
    window.log_row(2).locator(".undo").click()
    expect(weights).to_have_text(before)


def test_a_moved_result_shows_how_many_ranks_it_moved(window: Any, digits: Any) -> None:
    window.open(digits.name, like="d-07")
    last = window.results()[-1]
    window.mark(last, "similar")
    expect(window.tile(last).locator(".moved")).to_contain_text("▲23")
    expect(window.page.locator(".query-panel .hint")).to_contain_text("Also mark a result that is not alike")
    window.tile(last).locator(".mark.similar").click()  # the same mark again undoes it
    expect(window.log_row(1)).to_have_class("undone")


def test_distances_are_updated_when_the_order_stays(window: Any, create_empty: Any) -> None:
    client = create_empty(2, learner="OAHU", parameters={"learning_rate": 0.3})
    client.put(["a", "b", "far"], [[1.0, 0.0], [0.9, 0.3], [-1.0, 0.2]])
    window.open(client.name, like="a")
    before = window.tile("b").locator(".value").text_content()
    client.feedback([{"anchor": "far", "positive": "a", "negative": "b"}])
    expect(window.tile("b").locator(".value")).not_to_have_text(before)


def test_anchored_oahu_learns_from_marks_and_changes_its_weights(window: Any, anchored_digits: Any) -> None:
    window.open(anchored_digits.name, like="d-07")
    before = window.weights()
    assert len(before) == 8
    _mark_two(window, anchored_digits)
    expect(window.number("constraints")).not_to_have_text("0")
    records = [
        {
            "query": key,
            "positive": [anchored_digits.similar_to(key)[0]],
            "negative": [anchored_digits.dissimilar_to(key)[round_]],
        }
        for round_ in range(5)
        for key in anchored_digits.keys
    ]
    anchored_digits.client.feedback(records)
    window.wait_until(lambda: window.weights() != before)


def test_undoing_an_implied_mark_shows_a_message(window: Any, digits: Any) -> None:
    first, second, third, *_ = ["d-07", *digits.similar_to("d-07")]
    digits.client.feedback([{"query": second, "positive": [first, third], "negative": []}])
    window.open(digits.name, like=first)
    window.tile(third).locator(".mark.similar").click()
    expect(window.page.locator(".q-notification")).to_contain_text("Other feedback implies this mark")


def test_the_log_has_pages_and_links_to_its_items(window: Any, digits: Any) -> None:
    records = [{"query": key, "positive": [digits.similar_to(key)[0]], "negative": []} for key in digits.keys[:20]]
    digits.client.feedback(records)
    window.open(digits.name)
    window.page.click(".log >> text=Older")
    window.log_row(1).locator(".small >> nth=0").click()
    expect(window.page.locator(".query-panel h2")).to_have_text(digits.keys[0])


# -- contradictions ------------------------------------------------------------------------------------------


def _send_contradiction(window: Any, digits: Any) -> tuple[str, str, str]:
    """Mark two items as not alike, although both are marked as similar to a third item."""
    third, first, second, *_ = ["d-07", *digits.similar_to("d-07")]
    digits.client.feedback([{"first": third, "second": first, "same": True}])
    digits.client.feedback([{"first": third, "second": second, "same": True}])
    window.open(digits.name, like=first)
    window.tile(second).locator(".mark.dissimilar").click()
    expect(window.page.locator(".contradiction")).to_be_visible()
    return first, second, third


def test_undoing_contradicting_feedback_stores_the_new_feedback(window: Any, digits: Any) -> None:
    _, second, _ = _send_contradiction(window, digits)
    window.page.click(".contradiction >> text=Undo 2")
    expect(window.tile(second).locator(".badge")).to_have_text("≠ not alike")
    assert list(digits.client.feedback_log())[-1]["negative"] == [second]


def test_a_contradiction_shows_its_proof_and_changes_nothing(window: Any, digits: Any) -> None:
    first, second, third = _send_contradiction(window, digits)
    links = window.page.locator(".contradiction li")
    shown = [set(links.nth(at).locator("em").all_text_contents()) for at in range(links.count())]
    assert shown == [{first, third}, {third, second}]
    window.page.click("text=Keep the earlier feedback")
    expect(window.page.locator(".contradiction")).to_be_hidden()
    assert len(list(digits.client.feedback_log())) == 2


# -- other browsers ------------------------------------------------------------------------------------------


def test_feedback_and_undo_appear_in_another_browser(
    window: Any, open_window: Any, address: str, digits: Any
) -> None:
    other_window = open_window(address)
    other_window.open(digits.name, like="d-07")
    before = other_window.weights()
    window.open(digits.name, like="d-07")
    alike, _ = _mark_two(window, digits)
    expect(other_window.tile(alike).locator(".badge")).to_have_text("= alike")
    expect(other_window.page.locator(".bars .weight")).not_to_have_text(before)
    window.log_row(1).locator(".undo").click()
    expect(other_window.log_row(1)).to_have_class("undone")


# -- deleted items and failures ------------------------------------------------------------------------------


def test_deleted_items_disappear_except_from_the_log(window: Any, digits: Any) -> None:
    window.open(digits.name, like="d-07")
    alike, _ = _mark_two(window, digits)
    digits.client.delete_items([alike])
    expect(window.tile(alike)).to_have_count(0)
    expect(window.log_row(1).locator(".small >> nth=1")).to_be_disabled()
    digits.client.delete_items(["d-07"])
    expect(window.page.locator(".q-notification")).to_contain_text("There is no item 'd-07'")
    assert "d-07" not in window.catalogue()


def test_a_failed_learner_shows_a_message_and_rejects_marks(window: Any, digits: Any) -> None:
    window.open(digits.name, like="d-07")
    httpx.post(f"{window.address}/fail/{digits.name}").raise_for_status()
    expect(window.page.locator(".metric .banner")).to_contain_text("The learner has failed")
    window.tile(window.results()[0]).locator(".mark.similar").click()
    expect(window.page.locator(".q-notification")).to_contain_text("has failed")
    # The other tests share the server, which is not ready as long as a learner has failed.
    httpx.delete(f"{window.address}/v1/collections/{digits.name}").raise_for_status()


def test_a_deleted_collection_shows_a_message(window: Any, digits: Any) -> None:
    window.open(digits.name)
    digits.client.delete()
    expect(window.page.locator(".workspace > .banner")).to_have_text("This collection was deleted.")


def test_a_collection_that_was_encoded_again_shows_a_message(window: Any, digits: Any) -> None:
    teas = digits.client.collection("encoded-again").create(dimension=4, encoder="lsa")
    teas.put(["a", "b"], texts=["green tea", "black tea"])
    window.open(teas.name)
    teas.refit_encoder()
    expect(window.page.locator(".workspace > .banner")).to_contain_text("encoded again. Reload the page.")
    teas.delete()
