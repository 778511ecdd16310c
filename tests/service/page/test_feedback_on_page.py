"""Saying what is alike and watching the ranking, the weights and the log follow."""

from __future__ import annotations

from typing import Any

import httpx
from playwright.sync_api import expect


def _teach(look: Any, digits: Any, query: str = "d-07") -> tuple[str, str]:
    """Mark one result as alike and one as not; which."""
    look.at(digits.name, like=query)
    shown = look.results()
    alike = next(key for key in reversed(shown) if key in digits.like(query))
    unlike = next(key for key in shown if key in digits.unlike(query))
    look.mark(alike, "similar")
    look.mark(unlike, "dissimilar")
    return alike, unlike


def test_what_is_marked_as_alike_comes_first_with_a_badge(look: Any, digits: Any) -> None:
    alike, _ = _teach(look, digits)
    assert look.results()[0] == alike
    expect(look.tile(alike).locator(".badge")).to_have_text("= alike")


def test_what_is_marked_as_unlike_comes_last_with_a_badge(look: Any, digits: Any) -> None:
    _, unlike = _teach(look, digits)
    assert look.results()[-1] == unlike
    expect(look.tile(unlike).locator(".badge")).to_have_text("≠ not alike")


def test_a_mark_is_in_the_services_log(look: Any, digits: Any) -> None:
    alike, unlike = _teach(look, digits)
    said = [(one["query"], one["positive"], one["negative"]) for one in digits.client.feedback_log()]
    assert said == [("d-07", [alike], []), ("d-07", [], [unlike])]


def test_the_ranking_of_what_was_not_marked_moves(look: Any, digits: Any) -> None:
    look.at(digits.name, like="d-07")
    before = look.results()
    marked = _teach(look, digits)
    unmarked = [key for key in before if key not in marked]
    look.until(lambda: [key for key in look.results() if key in unmarked] != unmarked)


def test_the_ranking_becomes_the_services(look: Any, digits: Any) -> None:
    _teach(look, digits)
    k = 25  # as many as at first, and the one that is known to be alike
    look.until(lambda: look.results()[:k] == [one["key"] for one in digits.client.search("d-07", k=k)["matches"]])


def test_what_moved_tells_by_how_many_ranks(look: Any, digits: Any) -> None:
    look.at(digits.name, like="d-07")
    last = look.results()[-1]
    look.tile(last).locator(".mark.similar").click()
    expect(look.tile(last).locator(".moved")).to_contain_text("▲23")


def test_distances_follow_the_metric_also_where_the_order_stays(look: Any, empty: Any) -> None:
    client = empty(2, learner="OAHU", parameters={"learning_rate": 0.3})
    client.put(["a", "b", "far"], [[1.0, 0.0], [0.9, 0.3], [-1.0, 0.2]])
    look.at(client.name, like="a")
    before = look.tile("b").locator(".value").text_content()
    client.feedback([{"anchor": "far", "positive": "a", "negative": "b"}])
    expect(look.tile("b").locator(".value")).not_to_have_text(before)


def test_the_chart_of_weights_moves(look: Any, digits: Any) -> None:
    look.at(digits.name)
    before = look.weights()
    _teach(look, digits)
    expect(look.page.locator(".bars .weight")).not_to_have_text(before)


def test_the_chart_shows_the_weights_that_the_service_tells(look: Any, digits: Any) -> None:
    _teach(look, digits)
    expect(look.dial("version")).to_have_text("2")
    told = digits.client.describe()["weights"]
    shown = [float(text.removesuffix(" %")) / 100 for text in look.weights()]
    assert all(abs(one - other) <= 0.0005 for one, other in zip(shown, told.values(), strict=True))


def test_the_history_of_the_weights_is_drawn(look: Any, digits: Any) -> None:
    look.at(digits.name)
    band = look.page.locator(".metric svg path >> nth=0")
    before = band.get_attribute("d")
    assert before is not None
    _teach(look, digits)
    expect(band).not_to_have_attribute("d", before)


def test_an_anchored_collection_learns_from_marks_too(look: Any, anchored: Any) -> None:
    _teach(look, anchored)
    expect(look.dial("constraints")).not_to_have_text("0")


def test_an_anchored_collection_moves_its_weights(look: Any, anchored: Any) -> None:
    look.at(anchored.name)
    pieces = [
        {"query": key, "positive": [anchored.like(key)[0]], "negative": [anchored.unlike(key)[round_]]}
        for round_ in range(5)
        for key in anchored.keys
    ]
    assert look.weights()[0] == "100.0 %"
    anchored.client.feedback(pieces)
    expect(look.page.locator(".bars .weight").first).not_to_have_text("100.0 %")


def test_reloading_keeps_what_was_said(look: Any, digits: Any) -> None:
    alike, unlike = _teach(look, digits)
    look.page.reload()
    shown = look.results()
    assert (shown[0], shown[-1]) == (alike, unlike)


def test_one_mark_alone_asks_for_its_opposite(look: Any, digits: Any) -> None:
    look.at(digits.name, like="d-07")
    look.mark(look.results()[0], "similar")
    expect(look.page.locator(".query-panel .hint")).to_contain_text("one that is not alike too")


# -- undoing -------------------------------------------------------------------------------------------------


def test_undoing_in_the_log_strikes_it_through(look: Any, digits: Any) -> None:
    _teach(look, digits)
    look.entry(2).locator(".undo").click()
    expect(look.entry(2)).to_have_class("undone")


def test_undoing_everything_brings_back_the_ranking(look: Any, digits: Any) -> None:
    look.at(digits.name, like="d-07")
    before = look.results()
    _teach(look, digits)
    look.entry(2).locator(".undo").click()
    look.entry(1).locator(".undo").click()
    look.page.wait_for_function(
        "before => [...document.querySelectorAll('.tiles.results > .tile')].map(one => one.dataset.key).join()"
        " === before.join()",
        arg=before,
    )


def test_undoing_brings_back_the_weights(look: Any, digits: Any) -> None:
    look.at(digits.name)
    before = look.weights()
    _teach(look, digits)
    expect(look.page.locator(".bars .weight")).not_to_have_text(before)
    look.entry(2).locator(".undo").click()
    expect(look.page.locator(".bars .weight")).to_have_text(before)


def test_the_same_mark_again_takes_it_back(look: Any, digits: Any) -> None:
    look.at(digits.name, like="d-07")
    key = look.results()[3]
    look.mark(key, "similar")
    look.tile(key).locator(".mark.similar").click()
    expect(look.entry(1)).to_have_class("undone")


def test_a_mark_that_follows_from_others_says_so(look: Any, digits: Any) -> None:
    first, second, third, *_ = ["d-07", *digits.like("d-07")]
    digits.client.feedback([{"query": second, "positive": [first, third], "negative": []}])
    look.at(digits.name, like=first)
    look.tile(third).locator(".mark.similar").click()
    expect(look.page.locator(".q-notification")).to_contain_text("Other feedback implies this")


def test_the_log_is_read_in_pages(look: Any, digits: Any) -> None:
    pieces = [{"query": key, "positive": [digits.like(key)[0]], "negative": []} for key in digits.keys[:20]]
    digits.client.feedback(pieces)
    look.at(digits.name)
    look.page.click(".log >> text=Older")
    expect(look.entry(1)).to_be_visible()


def test_the_log_searches_for_what_it_is_about(look: Any, digits: Any) -> None:
    _teach(look, digits)
    look.go(f"/collections/{digits.name}")
    look.entry(1).locator(".small >> nth=0").click()
    expect(look.page.locator(".query-panel h2")).to_have_text("d-07")


# -- contradictions ------------------------------------------------------------------------------------------


def _contradict(look: Any, digits: Any) -> tuple[str, str, str]:
    """Say that two are not alike that are both like a third."""
    third, first, second, *_ = ["d-07", *digits.like("d-07")]
    digits.client.feedback([{"first": third, "second": first, "same": True}])
    digits.client.feedback([{"first": third, "second": second, "same": True}])
    look.at(digits.name, like=first)
    look.tile(second).locator(".mark.dissimilar").click()
    expect(look.page.locator(".contradiction")).to_be_visible()
    return first, second, third


def test_a_contradiction_is_explained_link_by_link(look: Any, digits: Any) -> None:
    first, second, third = _contradict(look, digits)
    links = look.page.locator(".contradiction li")
    told = [set(links.nth(at).locator("em").all_text_contents()) for at in range(links.count())]
    assert told == [{first, third}, {third, second}]


def test_undoing_what_is_in_the_way_says_it_instead(look: Any, digits: Any) -> None:
    _, second, _ = _contradict(look, digits)
    look.page.click(".contradiction >> text=Undo 2")
    expect(look.tile(second).locator(".badge")).to_have_text("≠ not alike")
    assert list(digits.client.feedback_log())[-1]["negative"] == [second]


def test_leaving_a_contradiction_changes_nothing(look: Any, digits: Any) -> None:
    _contradict(look, digits)
    look.page.click("text=Keep the earlier feedback")
    expect(look.page.locator(".contradiction")).to_be_hidden()
    assert len(list(digits.client.feedback_log())) == 2


# -- others --------------------------------------------------------------------------------------------------


def test_what_one_says_another_sees_in_the_ranking(window: Any, address: str, digits: Any) -> None:
    mine, yours = window(address), window(address)
    yours.at(digits.name, like="d-07")
    alike, _ = _teach(mine, digits)
    expect(yours.tile(alike).locator(".badge")).to_have_text("= alike")


def test_what_one_says_moves_the_chart_of_another(window: Any, address: str, digits: Any) -> None:
    mine, yours = window(address), window(address)
    yours.at(digits.name)
    before = yours.weights()
    _teach(mine, digits)
    expect(yours.page.locator(".bars .weight")).not_to_have_text(before)


def test_what_one_undoes_is_struck_through_for_another(window: Any, address: str, digits: Any) -> None:
    mine, yours = window(address), window(address)
    yours.at(digits.name)
    _teach(mine, digits)
    mine.entry(1).locator(".undo").click()
    expect(yours.entry(1)).to_have_class("undone")


# -- what goes wrong -----------------------------------------------------------------------------------------


def test_when_what_was_searched_for_is_deleted_the_gallery_is_shown_and_that_is_told(
    look: Any, digits: Any
) -> None:
    look.at(digits.name, like="d-07")
    look.results()
    digits.client.delete_items(["d-07"])
    expect(look.page.locator(".q-notification")).to_contain_text("There is no item 'd-07'")
    assert "d-07" not in look.gallery()


def test_a_result_that_is_deleted_disappears(look: Any, digits: Any) -> None:
    look.at(digits.name, like="d-07")
    first = look.results()[0]
    digits.client.delete_items([first])
    expect(look.tile(first)).to_have_count(0)


def test_deleted_items_stay_in_the_log_by_their_keys(look: Any, digits: Any) -> None:
    alike, _ = _teach(look, digits)
    digits.client.delete_items([alike])
    expect(look.entry(1).locator(".small >> nth=1")).to_be_disabled()


def test_a_learner_that_has_stopped_is_told(look: Any, digits: Any) -> None:
    look.at(digits.name)
    httpx.post(f"{look.address}/fail/{digits.name}").raise_for_status()
    expect(look.page.locator(".metric .banner")).to_contain_text("The learner has failed")


def test_a_mark_that_is_not_accepted_says_why(look: Any, digits: Any) -> None:
    look.at(digits.name, like="d-07")
    httpx.post(f"{look.address}/fail/{digits.name}").raise_for_status()
    look.tile(look.results()[0]).locator(".mark.similar").click()
    expect(look.page.locator(".q-notification")).to_contain_text("has failed")


def test_a_collection_that_is_deleted_says_so(look: Any, digits: Any) -> None:
    look.at(digits.name)
    digits.client.delete()
    expect(look.page.locator(".workspace > .banner")).to_have_text("This collection was deleted.")
