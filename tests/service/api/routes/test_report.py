"""The report through the HTTP API: interleaved searches, clicks that are never learned, and the guard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oahu
from oahu.service.api.app import create_app
from oahu.service.outcomes import is_held_out, query_id
from oahu.service.report import MIN_QUERIES
from oahu.service.settings import Settings

RNG = np.random.default_rng(3)
N_ITEMS = 60
LABELS = RNG.integers(2, size=N_ITEMS)
#: The first feature is the label, and the others are larger noise. So learning can improve the search.
ROWS = np.column_stack([2 * LABELS - 1, 3 * RNG.normal(size=(N_ITEMS, 5))]).astype(np.float32)
KEYS = [f"item {at}" for at in range(N_ITEMS)]
K = 10


def new_collection(server: Any, **config: Any) -> str:
    path: str = server.new_collection(0, 6, **config)
    items = [{"key": key, "vector": row.tolist()} for key, row in zip(KEYS, ROWS, strict=True)]
    server.request("PUT", f"{path}/items", json={"items": items})
    return path


def search(server: Any, path: str, query: int, **options: Any) -> Any:
    return server.request(
        "POST", f"{path}/search", json={"key": KEYS[query], "k": K, "use_feedback": False, **options}
    )


def click(server: Any, path: str, query: int, alike: Any = None, **options: Any) -> int:
    """Search, and mark all results. Return the sequence number of the click."""
    found = search(server, path, query, **options)
    shown = [KEYS.index(match["key"]) for match in found["matches"]]
    is_alike = [(LABELS[row] == LABELS[query]) if alike is None else alike(query, row) for row in shown]
    marked = {"query": KEYS[query], "impression": found["impression"], "positive": [], "negative": []}
    for row, one in zip(shown, is_alike, strict=True):
        marked["positive" if one else "negative"].append(KEYS[row])
    return int(server.add_feedback(path, marked)["last_seq"])


def report(server: Any, path: str, **params: Any) -> Any:
    search(server, path, 0)  # waits until everything is learned, and so evaluated
    return server.request("GET", f"{path}/report", params=params)


def model(server: Any, path: str) -> bytes:
    search(server, path, 0)
    content: bytes = server.http.get(f"{path}/model").content
    return content


def ranking(server: Any, path: str, query: int, **options: Any) -> list[str]:
    return [match["key"] for match in search(server, path, query, **options)["matches"]]


# -- the estimates -------------------------------------------------------------------------------------------


def test_a_new_collection_has_not_enough_feedback(server: Any) -> None:
    found = report(server, new_collection(server))
    assert found["all"]["state"] == "not enough feedback"
    assert found["all"]["missing"] == MIN_QUERIES
    assert found["all"]["comparison"] is None
    assert found["recent"] is None
    assert found["guard"]["factor"] == 1


def test_clicks_on_interleaved_searches_give_a_comparison(server: Any) -> None:
    path = new_collection(server, interleave=1.0)
    for query in range(MIN_QUERIES - 1):
        click(server, path, query)
    assert report(server, path)["all"]["missing"] == 1
    click(server, path, MIN_QUERIES - 1)
    found = report(server, path, last=10)
    everything, recent = found["all"], found["recent"]
    assert (everything["state"], everything["missing"]) == ("measured", 0)
    assert everything["interleaved"] == everything["searches"] == MIN_QUERIES
    assert 0 < everything["clicks"] <= MIN_QUERIES  # a click without both kinds of marks cannot be ordered
    comparison = everything["comparison"]
    assert comparison["depth"] == K // 2
    improvement = comparison["improvement"]
    assert improvement["low"] < improvement["value"] < improvement["high"]
    assert improvement["value"] == pytest.approx(
        comparison["precision_now"]["value"] - comparison["precision_before"]["value"]
    )
    wins = comparison["wins"]
    assert wins["learned"] + wins["unlearned"] + wins["ties"] == MIN_QUERIES
    assert (recent["searches"], recent["missing"]) == (10, MIN_QUERIES - 10)


def test_precisions_are_those_of_the_two_rankings(server: Any) -> None:
    """Every query is measured with both complete rankings: the report is exact for the queries that were asked."""
    path = new_collection(server, interleave=1.0, held_out=1.0)  # nothing is learned: both rankings stay the same
    for query in range(MIN_QUERIES):
        click(server, path, query)
    tops = [ranking(server, path, query, k=K // 2, interleave=0) for query in range(MIN_QUERIES)]
    correct = [LABELS[KEYS.index(key)] == LABELS[query] for query, top in enumerate(tops) for key in top]
    comparison = report(server, path)["held_out"]["comparison"]
    assert comparison["precision_now"]["value"] == pytest.approx(np.mean(correct))
    assert comparison["precision_before"]["value"] == pytest.approx(np.mean(correct))
    assert comparison["improvement"]["low"] < 0 < comparison["improvement"]["high"]


def test_other_searches_give_the_precision_of_the_shown_list(server: Any) -> None:
    path = new_collection(server, held_out=1.0)
    correct = []
    for query in range(MIN_QUERIES):
        correct += [LABELS[KEYS.index(key)] == LABELS[query] for key in ranking(server, path, query)]
        click(server, path, query)
    found = report(server, path)["all"]
    assert found["shown_precision"]["value"] == pytest.approx(np.mean(correct))
    assert (found["interleaved"], found["comparison"]) == (0, None)


def test_a_click_is_evaluated_before_it_is_learned(server: Any, wait_until: Any) -> None:
    """The first click is ordered equally by both metrics, because nothing was learned before."""
    path = new_collection(server)
    click(server, path, 0)
    search(server, path, 0)
    collection = server.service.collection(path.rpartition("/")[2])
    (one,) = wait_until(lambda: collection._store.orderings(collection.id))
    assert one.learned == one.unlearned
    assert one.query == query_id(KEYS[0])


def test_a_request_can_interleave_its_own_search(server: Any) -> None:
    path = new_collection(server)
    click(server, path, 1)
    click(server, path, 2, interleave=1)
    found = report(server, path)["all"]
    assert (found["searches"], found["interleaved"]) == (2, 1)


def test_the_response_does_not_tell_the_sides(server: Any) -> None:
    path = new_collection(server)
    plain, interleaved = search(server, path, 1), search(server, path, 1, interleave=1)
    assert plain.keys() == interleaved.keys()
    assert [match.keys() for match in plain["matches"]] == [match.keys() for match in interleaved["matches"]]


def test_an_interleaved_search_contains_changes_of_the_catalogue(server: Any) -> None:
    path = new_collection(server)
    search(server, path, 1, interleave=1)  # builds the index of the unlearned ranking
    server.request("PUT", f"{path}/items", json={"items": [{"key": "twin", "vector": ROWS[1].tolist()}]})
    assert "twin" in ranking(server, path, 1, interleave=1)
    server.request("POST", f"{path}/items/delete", json={"keys": ["twin"]})
    assert "twin" not in ranking(server, path, 1, interleave=1)


@pytest.mark.parametrize("options", [{"interleave": 1.1}, {"interleave": -0.1}, {"interleave": "often"}])
def test_an_invalid_share_is_refused(server: Any, options: Any) -> None:
    path = new_collection(server)
    server.request("POST", f"{path}/search", 422, json={"key": KEYS[0], **options})
    server.request("PATCH", path, 422, json=options)
    server.request("GET", f"{path}/report", 422, params={"last": 0})


# -- retries, undos, restarts --------------------------------------------------------------------------------


def test_a_repeated_request_counts_once(server: Any) -> None:
    path = new_collection(server)
    found = search(server, path, 0, interleave=1)
    marked = {"query": KEYS[0], "positive": [found["matches"][0]["key"]], "impression": found["impression"]}
    for _ in range(3):
        server.add_feedback(path, marked, headers={"Idempotency-Key": "once"})
    assert report(server, path)["all"]["searches"] == 1


def test_undone_clicks_leave_the_report(server: Any) -> None:
    path = new_collection(server, interleave=1.0)
    seqs = [click(server, path, query) for query in range(5)]
    before = report(server, path)["all"]
    assert (before["searches"], before["clicks"]) == (5, 5)
    undo = server.request("DELETE", f"{path}/feedback/{seqs[2]}")["seq"]
    after = report(server, path)["all"]
    assert (after["searches"], after["clicks"]) == (4, 4)
    server.request("POST", f"{path}/restore", json={"metric_version": undo - 1})  # undoes the undo
    assert report(server, path)["all"] == before


def test_clicks_of_an_undone_source_leave_the_report(server: Any) -> None:
    path = new_collection(server)
    for source in ("ann", "bob"):
        found = search(server, path, 0, interleave=1)
        marked = {"query": KEYS[0], "positive": [found["matches"][0]["key"]], "impression": found["impression"]}
        server.add_feedback(path, {**marked, "source": source})
    server.request("DELETE", f"{path}/sources/ann")
    assert report(server, path)["all"]["searches"] == 1
    server.request("PUT", f"{path}/sources/ann", json={"weight": 1})
    assert report(server, path)["all"]["searches"] == 2


def test_the_report_survives_a_restart_and_a_rebuild(run_app: Any, tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, page=False, fresh_wait=600)
    with run_app(create_app(settings)) as server:
        path = new_collection(server, interleave=0.8)
        for query in range(40):
            click(server, path, query)
        server.request("DELETE", f"{path}/feedback/3")
        before = report(server, path, last=15)
        assert before["all"]["state"] == "measured" or before["all"]["missing"] > 0
    for file in (tmp_path / "snapshots").rglob("*.oahu"):
        file.unlink()  # the model is learned again from the log
    with run_app(create_app(settings)) as server:
        assert report(server, path, last=15) == before
        server.request("PATCH", path, json={"parameters": {"learning_rate": 0.1}})  # learns the log again
        assert report(server, path, last=15) == before


# -- held-out queries ----------------------------------------------------------------------------------------


def held_out(query: int, share: float) -> bool:
    return is_held_out(query_id(KEYS[query]), share)


def test_held_out_clicks_are_not_learned(server: Any) -> None:
    path, learned_only = new_collection(server, held_out=0.5), new_collection(server)
    for query in range(20):
        marked = {"query": KEYS[query], "positive": [KEYS[20 + query]], "negative": [KEYS[40 + query]]}
        server.add_feedback(path, marked)
        if not held_out(query, 0.5):
            server.add_feedback(learned_only, marked)
    n_held = sum(held_out(query, 0.5) for query in range(20))
    assert 0 < n_held < 20
    search(server, path, 0)
    search(server, learned_only, 0)
    assert server.request("GET", path)["constraints"] == 20 - n_held
    weights = [server.request("GET", one)["weights"] for one in (path, learned_only)]
    assert weights[0] == weights[1]
    found = report(server, path)
    assert (found["held_out"]["clicks"], found["all"]["clicks"]) == (n_held, 20)


@pytest.mark.parametrize("contradictions", ["newest", "refuse", "ignore"])
def test_the_share_can_be_changed_later(server: Any, contradictions: str) -> None:
    """The model is the one that the new share gives from the beginning."""
    clicks = [{"query": KEYS[at], "positive": [KEYS[20 + at]], "negative": [KEYS[40 + at]]} for at in range(15)]
    changed = new_collection(server, closure=1, contradictions=contradictions)
    server.add_feedback(changed, *clicks)
    everything_learned = model(server, changed)
    server.request("PATCH", changed, json={"held_out": 0.4})
    from_start = new_collection(server, closure=1, contradictions=contradictions, held_out=0.4)
    server.add_feedback(from_start, *clicks)
    assert model(server, changed) == model(server, from_start) != everything_learned
    server.request("PATCH", changed, json={"held_out": 0})
    assert model(server, changed) == everything_learned


# -- the guard -----------------------------------------------------------------------------------------------


def wrong(query: int, row: int) -> bool:
    return bool(LABELS[row] != LABELS[query])


def only_unlearned(server: Any, path: str, query: int) -> dict[str, Any]:
    """Search, and mark as alike what only the unlearned ranking has among its best. Return the click."""
    unlearned = UNLEARNED[path][query]
    found = search(server, path, query, interleave=1)
    keys = [match["key"] for match in found["matches"]]
    learned = set(keys) - set(unlearned)
    return {
        "query": KEYS[query],
        "positive": [key for key in keys if key not in learned],
        "negative": sorted(learned),
        "impression": found["impression"],
    }


UNLEARNED: dict[str, dict[int, list[str]]] = {}


def losing_collection(server: Any) -> str:
    """Return a collection whose learned metric has learned the opposite of what users now mark."""
    path = new_collection(server, held_out=0.5, parameters={"random_state": 1})
    held = [query for query in range(N_ITEMS) if held_out(query, 0.5)]
    UNLEARNED[path] = {query: ranking(server, path, query, k=K // 2, interleave=0) for query in held}
    for query in range(N_ITEMS):
        if query not in held:
            click(server, path, query, wrong, interleave=0)
    return path


def test_a_losing_metric_is_no_longer_used_until_it_recovers(server: Any) -> None:
    path = losing_collection(server)
    held = list(UNLEARNED[path])
    n = 0
    while report(server, path)["guard"]["factor"] and n < 300:
        server.add_feedback(path, only_unlearned(server, path, held[n % len(held)]))
        n += 1
    guard = report(server, path)["guard"]
    assert guard["factor"] == 0
    assert [one["factor"] for one in guard["switches"]] == [0]
    for query in held[:10]:  # searches use the unlearned metric, and say which log entries are learned
        assert ranking(server, path, query, k=K // 2, interleave=0) == UNLEARNED[path][query]
    found = search(server, path, held[0], interleave=0)
    assert found["metric_version"] == server.request("GET", path)["last_seq"]
    assert f'oahu_learned_factor{{collection="{path.rpartition("/")[2]}"}} 0.0' in server.http.get("/metrics").text

    while not report(server, path)["guard"]["factor"] and n < 900:  # now users like what was learned
        marked = only_unlearned(server, path, held[n % len(held)])
        marked["positive"], marked["negative"] = marked["negative"], marked["positive"]
        if marked["positive"]:
            server.add_feedback(path, marked)
        n += 1
    assert [one["factor"] for one in report(server, path)["guard"]["switches"]] == [0, 1]


def test_the_guard_is_the_same_after_a_restart_and_an_undo_takes_evidence_back(
    run_app: Any, tmp_path: Path
) -> None:
    settings = Settings(data=tmp_path, page=False, fresh_wait=600)
    with run_app(create_app(settings)) as server:
        path = losing_collection(server)
        held = list(UNLEARNED[path])
        last = server.request("GET", path)["last_seq"]
        n = 0
        while report(server, path)["guard"]["factor"] and n < 300:
            server.add_feedback(path, only_unlearned(server, path, held[n % len(held)]))
            n += 1
        before = report(server, path)
        assert before["guard"]["factor"] == 0
    with run_app(create_app(settings)) as server:
        assert report(server, path) == before
        assert ranking(server, path, held[0], k=K // 2, interleave=0) == UNLEARNED[path][held[0]]
        server.request("POST", f"{path}/restore", json={"metric_version": last})
        guard = report(server, path)["guard"]
        assert (guard["factor"], guard["evidence"], guard["switches"]) == (1, 1, [])


# -- the client and the gauges -------------------------------------------------------------------------------


def test_the_client_returns_the_report(server: Any) -> None:
    path = new_collection(server)
    with oahu.Client(server.url, path.rpartition("/")[2]) as client:
        found = client.search(KEYS[0], k=K, interleave=1.0)
        client.feedback(query=KEYS[0], positive=[found["matches"][0]["key"]], impression=found["impression"])
        assert client.update(interleave=0.25)["interleave"] == 0.25
        result = client.report(last=5)
    assert (result["all"]["interleaved"], result["recent"]["searches"], result["last"]) == (1, 1, 5)


def test_gauges(server: Any) -> None:
    path = new_collection(server, interleave=1.0)
    name = path.rpartition("/")[2]

    def gauge(of: str) -> float:
        lines = server.http.get("/metrics").text.splitlines()
        return float(next(one for one in lines if one.startswith(f'{of}{{collection="{name}"}}')).split()[-1])

    assert gauge("oahu_report_missing") == MIN_QUERIES
    assert np.isnan(gauge("oahu_improvement"))
    for query in range(MIN_QUERIES):
        click(server, path, query)
    improvement = report(server, path)["all"]["comparison"]["improvement"]
    assert gauge("oahu_report_missing") == 0
    assert gauge("oahu_improvement") == improvement["value"]
    assert gauge("oahu_improvement_low") == improvement["low"]
    assert gauge("oahu_learned_factor") == 1
