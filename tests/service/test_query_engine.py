"""Results are those of one metric over all items; only the choice of candidates may be slightly outdated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from threading import Event, Thread
from typing import Any

import numba
import numpy as np
import pytest

from oahu import Classifier, Comparator, Retriever
from oahu.service import query_engine
from oahu.service.catalogue_index import CatalogueIndex
from oahu.service.feature_store import FeatureStore
from oahu.service.query_engine import QueryEngine
from oahu.service.records import AddedItem, Calibration, CatalogueChange, PublishedMetric

TIMEOUT = 600.0  # seconds; only a real hang exceeds it
D = 5
N = 80
KINDS = ["Euclidean", "Cosine", "OASIS", "LEGO", "AnchoredOAHU", "OAHU"]
ROWS = np.random.default_rng(0).normal(size=(N + 1, D)).astype(np.float32)  # by number; there is no item 0
LABELS: list[str | None] = [None, *([None, "a", "b", "b"][n % 4] for n in range(1, N + 1))]
QUERIES = np.random.default_rng(1).normal(size=(6, D)).astype(np.float32)


class Items:
    """Stands for the catalogue: the features of items with keys k1, k2, ..."""

    def __init__(self, n: int) -> None:
        self._n = n
        self.features = FeatureStore(D, np.dtype(np.float32))
        self.features.add(list(range(1, N + 1)), [f"k{n}" for n in range(1, N + 1)], ROWS[1:].tobytes())

    def all_items(self) -> tuple[list[int], list[str | None]]:
        return list(range(1, self._n + 1)), LABELS[1 : self._n + 1]

    def vectors(self, keys: list[str]) -> dict[str, tuple[int, Any]]:
        return {key: (int(key[1:]), ROWS[int(key[1:])]) for key in keys}


class Facts:
    """Stands for the feedback log: what feedback says about every query that is an item."""

    def __init__(self) -> None:
        self.last_seq, self.similar, self.dissimilar_items = 0, list[int](), list[int]()

    def similar_to(self, number: int) -> list[int]:
        return self.similar

    def dissimilar(self, number: int, others: list[int]) -> set[int]:
        return set(others) & set(self.dissimilar_items)


class Metrics:
    """Stands for the learner loop: the metric that the test publishes."""

    def __init__(self, published: PublishedMetric) -> None:
        self.published = published
        self.before_waiting: Callable[[], None] = lambda: None
        self.after_waiting: Callable[[], None] = lambda: None

    def request(self, seq: int) -> None:
        pass

    def wait_for(self, seq: int, timeout: float) -> PublishedMetric:
        self.before_waiting()
        published = self.published
        self.after_waiting()
        return published


class World:
    """Items, a metric that the test can replace, and a query engine."""

    def __init__(
        self, published: PublishedMetric, vote: Any = "experts", n: int = N, n_candidates: int = 12
    ) -> None:
        self.vote, self.numbers = vote, list(range(1, n + 1))
        self.catalogue, self.facts, self.metrics = Items(n), Facts(), Metrics(published)
        catalogue: Any = self.catalogue
        self.engine = QueryEngine(catalogue, self.facts, self.metrics, vote, n_candidates)
        self.engine.load()

    @property
    def published(self) -> PublishedMetric:
        return self.metrics.published

    @published.setter
    def published(self, published: PublishedMetric) -> None:
        self.metrics.published = published

    def search(
        self,
        query: Any,
        k: int,
        similar: list[int] | None = None,
        dissimilar: list[int] | None = None,
        **options: Any,
    ) -> Any:
        """Search for features, or for an item by number, with feedback about it."""
        self.facts.similar, self.facts.dissimilar_items = similar or [], dissimilar or []
        return self.engine.search(f"k{query}" if isinstance(query, int) else query, k, **options)

    def found(self, query: Any, k: int, **options: Any) -> list[int]:
        return [item.match.key for item in self.search(query, k, **options).matches]

    def retriever(self, numbers: list[int] | None = None) -> Retriever:
        """Return a retriever over all items, or over some."""
        numbers = self.numbers if numbers is None else numbers
        made = Retriever(self.published.metric, self.vote)
        return made.add(numbers, ROWS[numbers]) if numbers else made


@pytest.fixture(scope="module")
def world(trained: Callable[..., PublishedMetric]) -> Callable[..., World]:
    def make(learner: str = "Euclidean", n_learned: int = 60, **options: Any) -> World:
        return World(trained(learner, n_learned), **options)

    return make


@contextmanager
def repeating(*calls: Callable[[], Any]) -> Iterator[None]:
    """Repeat each call in a thread of its own during the block."""
    stop = Event()

    def repeat(call: Callable[[], Any]) -> None:
        while not stop.is_set():
            call()

    threads = [Thread(target=repeat, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def in_order(metric: Any, query: Any, found: list[int], numbers: list[int]) -> bool:
    """Return whether the found items are the best of some items, best first, up to ties."""
    score = {number: float(metric.score(query[None], ROWS[number][None])[0]) for number in numbers}
    best = sorted(score.values(), reverse=True)[: len(found)]
    return len(set(found)) == len(found) and bool(
        np.allclose([score[n] for n in found], best, rtol=1e-5, atol=1e-6)
    )


# -- an index of the newest metric -----------------------------------------------------------------------------


@pytest.mark.parametrize("learner", ["Euclidean", "Cosine", "OASIS", "LEGO"])
def test_search_equals_brute_force_by_score(world: Any, learner: str) -> None:
    one = world(learner)
    for query, k in product(QUERIES, (1, 5, 20)):
        found = one.found(query, k)
        assert len(found) == k
        assert in_order(one.published.metric, query, found, one.numbers)


@pytest.mark.parametrize("learner", ["OAHU", "AnchoredOAHU"])
def test_joint_search_equals_brute_force_by_score(world: Any, learner: str) -> None:
    one = world(learner, vote="joint")
    for query in QUERIES:
        assert in_order(one.published.metric, query, one.found(query, 7), one.numbers)


@pytest.mark.parametrize("learner", KINDS)
@pytest.mark.parametrize("vote", ["experts", "joint"])
def test_search_equals_a_retriever_over_all_items(world: Any, learner: str, vote: str) -> None:
    one = world(learner, vote=vote)
    everything = one.retriever()
    for query, k in product(QUERIES, (1, 6, 25)):
        assert one.found(query, k) == everything.search(query, k).keys


@pytest.mark.parametrize("learner", KINDS)
def test_search_for_an_item_excludes_it(world: Any, learner: str) -> None:
    one = world(learner)
    everything = one.retriever()
    for number in (1, 7, 33):
        found = one.found(number, 5)
        assert found == everything.search(ROWS[number], 5, exclude=number).keys


@pytest.mark.parametrize("learner", KINDS)
def test_without_feedback_the_metric_alone_ranks(world: Any, learner: str) -> None:
    one = world(learner)
    everything = one.retriever()
    for number, use_feedback in product(range(1, 10), (True, False)):
        found = one.found(number, 5, use_feedback=use_feedback)
        assert found == everything.search(ROWS[number], 5, exclude=number).keys


@pytest.mark.parametrize("learner", KINDS)
def test_scores_and_similarities_are_those_of_the_metric(world: Any, learner: str) -> None:
    one = world(learner)
    found = one.search(QUERIES[0], 8)
    expected = one.retriever().search(QUERIES[0], 8)
    for (_, match, relation), wanted in zip(found.matches, expected, strict=True):
        assert relation is None
        assert match.similarity == pytest.approx(wanted.similarity, rel=1e-5, abs=1e-6)
        assert match.votes[0].score == pytest.approx(wanted.votes[0].score, rel=1e-4)
        exact = one.published.metric.score(QUERIES[0][None], ROWS[match.key][None])[0]
        assert match.similarity == pytest.approx(exact, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("learner", ["Euclidean", "OAHU"])
def test_a_label_restricts_the_results(world: Any, learner: str) -> None:
    one = world(learner)
    for query, label in product(QUERIES, ("a", "b", "unused")):
        members = [n for n in one.numbers if LABELS[n] == label]
        found = one.found(query, 6, label=label)
        assert found == (one.retriever(members).search(query, 6).keys if members else [])


def test_without_a_label_unlabelled_items_are_found_too(world: Any) -> None:
    found = world().found(QUERIES[0], N)
    assert {LABELS[number] for number in found} == {None, "a", "b"}


def test_a_large_k_returns_all_items(world: Any) -> None:
    one = world(n=9)
    assert sorted(one.found(QUERIES[0], 1000)) == one.numbers
    assert sorted(one.found(QUERIES[0], 1000, label="a")) == [1, 5, 9]


def test_an_empty_catalogue_gives_no_results(world: Any) -> None:
    one = world(n=0)
    assert one.search(QUERIES[0], 5).matches == ()
    assert one.search(QUERIES[0], 5, label="a").matches == ()
    assert one.search(1, 5, similar=[1], dissimilar=[2]).matches == ()
    classified = one.engine.classify(QUERIES[0], 5)
    assert classified.labels == ()


def test_a_catalogue_of_one_item(world: Any) -> None:
    one = world(n=1)
    assert one.found(1, 5) == []
    assert one.found(QUERIES[0], 5) == [1]


# -- feedback --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", ["Euclidean", "OAHU"])
@pytest.mark.parametrize("label", [None, "b"])
@pytest.mark.parametrize("k", [4, 9, N])
def test_similar_items_come_first_and_dissimilar_items_last(
    world: Any, learner: str, label: str | None, k: int
) -> None:
    one = world(learner)
    far = one.retriever().search(ROWS[1], N, exclude=1).keys[::-1]
    members = [n for n in one.numbers if n != 1 and label in (None, LABELS[n])]
    groups = {
        "similar": [n for n in members if n in far[:6]],
        None: [n for n in members if n not in far[:6] + far[-6:]],
        "dissimilar": [n for n in members if n in far[-6:]],
    }
    expected: list[Any] = []
    for relation, group in groups.items():
        if len(expected) < k and group:
            expected += [(n, relation) for n in one.retriever(group).search(ROWS[1], k - len(expected)).keys]
    matches = one.search(1, k, label=label, similar=far[:6], dissimilar=far[-6:]).matches
    assert [(item.match.key, item.relation) for item in matches] == expected


def test_a_similar_item_is_found_however_far_it_is(world: Any) -> None:
    one = world()
    farthest = one.retriever().search(ROWS[1], N, exclude=1).keys[-1]
    (_, first, relation), *_ = one.search(1, 3, similar=[farthest]).matches
    assert (first.key, relation) == (farthest, "similar")


@pytest.mark.parametrize("learner", ["Euclidean", "OAHU"])
def test_other_items_are_found_behind_many_dissimilar_ones(world: Any, learner: str) -> None:
    one = world(learner)
    dissimilar = one.retriever().search(ROWS[1], N, exclude=1).keys[:60]  # many more than there are candidates
    matches = one.search(1, 5, dissimilar=dissimilar).matches
    assert [item.relation for item in matches] == [None] * 5


def test_the_nearest_other_items_are_found_behind_dissimilar_ones(world: Any) -> None:
    one = world()
    dissimilar = one.retriever().search(ROWS[1], N, exclude=1).keys[:60]
    others = [n for n in one.numbers if n != 1 and n not in dissimilar]
    found = one.found(1, 5, dissimilar=dissimilar)
    assert found == one.retriever(others).search(ROWS[1], 5).keys


def test_of_many_similar_items_the_nearest_come_first(world: Any) -> None:
    one = world()
    similar = list(range(2, 62))
    matches = one.search(1, 7, similar=similar).matches
    assert [item.match.key for item in matches] == one.retriever(similar).search(ROWS[1], 7).keys
    assert {item.relation for item in matches} == {"similar"}


def test_feedback_can_be_reported_without_changing_the_ranking(world: Any) -> None:
    one = world()
    order = one.retriever().search(ROWS[1], 10, exclude=1).keys
    matches = one.search(1, 10, similar=order[5:7], dissimilar=order[:2], use_feedback=False).matches
    assert [item.match.key for item in matches] == order
    assert [item.relation for item in matches] == ["dissimilar"] * 2 + [None] * 3 + ["similar"] * 2 + [None] * 3


def test_feedback_about_removed_items_is_ignored(world: Any) -> None:
    one = world(n=20)
    matches = one.search(1, 30, similar=[50, 3], dissimilar=[60, 4]).matches
    assert matches[0].match.key == 3
    assert matches[-1].match.key == 4
    assert len(matches) == 19


# -- a newer metric --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", ["OASIS", "OAHU", "AnchoredOAHU"])
def test_before_a_refresh_old_candidates_are_ranked_by_the_newest_metric(
    world: Any, trained: Any, learner: str
) -> None:
    one = world(learner, 5)
    old = one.published
    one.published = newest = trained(learner, 400)
    for query in QUERIES:
        candidates = CatalogueIndex.build(old, "experts", one.catalogue.features.table, one.numbers, LABELS[1:])
        numbers = sorted(candidates.candidates(query[None], 12, candidates.gallery, None).tolist())
        found = one.search(query, 5)
        assert (found.published, found.candidates) == (newest, old)
        assert [item.match.key for item in found.matches] == one.retriever(numbers).search(query, 5).keys


@pytest.mark.parametrize("query", ["search", "classify"])
def test_candidates_are_collected_before_waiting_for_the_metric(
    world: Any, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, order = world("OASIS", 5), []
    find = CatalogueIndex.candidates

    def candidates(*given: Any) -> Any:
        order.append("candidates")
        return find(*given)

    monkeypatch.setattr(CatalogueIndex, "candidates", candidates)
    monkeypatch.setattr(one.metrics, "request", lambda seq: order.append("request"))
    one.metrics.before_waiting = lambda: order.append("wait")
    getattr(one.engine, query)(QUERIES[0], 5)
    assert order == ["request", "candidates", "wait"]


def test_background_work_can_wait_until_no_query_is_running(world: Any) -> None:
    engine = world("OASIS", 5).engine
    waiting, order = Event(), []

    def wait() -> None:
        waiting.set()
        engine.active.wait_until_none(TIMEOUT)
        order.append("background work")

    with engine._answering():
        with engine._answering():
            engine.active.wait_until_none(0.01)  # ends at the timeout
            thread = Thread(target=wait)
            thread.start()
            assert waiting.wait(TIMEOUT)
            order.append("first query")
        order.append("second query")
    thread.join()
    assert order == ["first query", "second query", "background work"]
    engine.active.wait_until_none(TIMEOUT)


def test_a_query_uses_one_thread_unless_the_index_is_large(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, before = world("OASIS", 5).engine, numba.get_num_threads()
    with engine._answering():
        assert numba.get_num_threads() == 1
    monkeypatch.setattr(query_engine, "_PER_THREAD", 1)
    with engine._answering():
        assert numba.get_num_threads() == before
    assert numba.get_num_threads() == before


@pytest.mark.parametrize("learner", ["OASIS", "OAHU"])
def test_after_a_refresh_candidates_are_those_of_the_newest_metric(world: Any, trained: Any, learner: str) -> None:
    one = world(learner, 5)
    one.published = trained(learner, 400)
    assert one.engine.is_outdated
    one.engine.refresh()
    assert not one.engine.is_outdated
    assert one.search(QUERIES[0], 1).candidates is one.published
    everything = one.retriever()
    for query in QUERIES:
        assert one.found(query, 6) == everything.search(query, 6).keys


@pytest.mark.parametrize("learner", ["OASIS", "OAHU"])
def test_a_ranking_comes_from_one_metric_even_if_it_changes_during_the_search(
    world: Any, trained: Any, learner: str
) -> None:
    metrics = [trained(learner, n) for n in (3, 30, 90, 270)]
    one = world(learner, 3)
    for turn, query in enumerate(QUERIES):
        before, during, after = (metrics[(turn + shift) % len(metrics)] for shift in range(3))
        one.published = before
        one.engine.refresh()
        index = one.engine.index

        def change_before(metric: Any = during) -> None:  # the candidates are known, the metric is not yet
            one.published = metric
            one.engine.refresh()

        def change_after(metric: Any = after) -> None:  # the search has its metric
            one.published = metric
            one.engine.refresh()

        one.metrics.before_waiting, one.metrics.after_waiting = change_before, change_after
        result = one.search(query, 6)
        one.metrics.before_waiting = one.metrics.after_waiting = lambda: None
        assert (result.published, result.candidates) == (during, before)
        numbers = [item.match.key for item in result.matches]
        candidates = index.candidates(query[None], 12, index.gallery, None).tolist()
        assert numbers == Retriever(during.metric, one.vote).add(candidates, ROWS[candidates]).search(query, 6).keys
        exact = during.metric.score(np.repeat(query[None], len(numbers), axis=0), ROWS[numbers])
        np.testing.assert_allclose([item.match.similarity for item in result.matches], exact, rtol=1e-4, atol=1e-6)


# -- catalogue changes -----------------------------------------------------------------------------------------


def added(*numbers: int) -> CatalogueChange:
    return CatalogueChange(added=[AddedItem(n, f"k{n}", LABELS[n], b"") for n in numbers])


def test_an_added_item_is_found_at_once(world: Any) -> None:
    one = world(n=30)
    one.engine.add_change(added(50))
    assert one.found(ROWS[50], 1) == [50]
    assert 50 in one.found(ROWS[50], 5, label=LABELS[50])


def test_a_removed_item_is_not_found(world: Any) -> None:
    one = world(n=30)
    one.engine.add_change(CatalogueChange(removed=[7]))
    assert 7 not in one.found(ROWS[7], 100)
    assert 7 not in one.found(ROWS[7], 100, label=LABELS[7])
    assert 7 not in one.found(1, 100, similar=[7])


def test_a_changed_label_takes_effect_at_once(world: Any) -> None:
    one = world(n=30)
    assert LABELS[5] == "a"
    one.engine.add_change(CatalogueChange(relabelled=[(5, "b"), (6, None)]))
    assert 5 in one.found(QUERIES[0], 100, label="b")
    assert 5 not in one.found(QUERIES[0], 100, label="a")
    assert 6 not in one.found(QUERIES[0], 100, label="b")


def test_changes_are_applied_in_order(world: Any) -> None:
    one = world(n=10)
    for change in (added(40), CatalogueChange(removed=[40]), added(41), CatalogueChange(relabelled=[(41, "x")])):
        one.engine.add_change(change)
    assert one.found(QUERIES[0], 100, label="x") == [41]
    assert 40 not in one.found(QUERIES[0], 100)


def test_changes_during_a_refresh_are_not_lost(world: Any, trained: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    one = world("OASIS", 5, n=30)
    one.published = trained("OASIS", 50)
    embed = CatalogueIndex.build

    def slowly(*given: Any) -> CatalogueIndex:
        made = embed(*given)
        one.engine.add_change(CatalogueChange([AddedItem(70, "k70", "new", b"")], [(2, "other")], [3]))
        assert 70 in one.found(QUERIES[0], 100)  # applies the change to the old index
        one.engine.add_change(added(71))  # not applied yet
        return made

    monkeypatch.setattr(query_engine.CatalogueIndex, "build", slowly)
    one.engine.refresh()
    numbers = one.found(QUERIES[0], 100)
    assert set(numbers) == (set(range(1, 31)) - {3}) | {70, 71}
    assert one.found(QUERIES[0], 100, label="new") == [70]
    assert one.found(QUERIES[0], 100, label="other") == [2]
    assert not one.engine.is_outdated


def test_a_failed_refresh_leaves_the_index_and_later_changes_intact(
    world: Any, trained: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = world("OASIS", 5, n=10)

    def broken(*_: Any) -> CatalogueIndex:
        raise ZeroDivisionError

    monkeypatch.setattr(query_engine.CatalogueIndex, "build", broken)
    with pytest.raises(ZeroDivisionError):
        one.engine.refresh()
    monkeypatch.undo()
    one.engine.add_change(added(40))
    assert len(one.found(QUERIES[0], 100)) == 11
    one.published = trained("OASIS", 50)
    one.engine.refresh()
    assert len(one.found(QUERIES[0], 100)) == 11


def test_concurrent_changes_searches_and_refreshes(world: Any, trained: Any) -> None:
    one = world("OASIS", 5, n=40)
    metrics = [trained("OASIS", n) for n in (5, 50)]
    missed: list[set[int]] = []

    def refresh() -> None:
        one.published = metrics[one.published is metrics[0]]
        one.engine.refresh()

    def search() -> None:
        missing = set(range(1, 41)) - set(one.found(QUERIES[0], 100))
        missed.extend([missing] if missing else [])

    expected = set(range(1, 41))
    with repeating(refresh, search):
        for turn in range(150):
            number = 41 + turn % 40
            one.engine.add_change(CatalogueChange(removed=[number]) if number in expected else added(number))
            expected ^= {number}
            assert (number in one.found(ROWS[number], 100)) == (number in expected)
    assert not missed
    assert set(one.found(QUERIES[0], 100)) == expected


# -- classify --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", KINDS)
def test_classify_equals_a_classifier_over_all_labelled_items(world: Any, learner: str) -> None:
    one = world(learner)
    labelled = [n for n in one.numbers if LABELS[n] is not None]
    for query, k in product(QUERIES[:3], (1, 5, 1000)):
        everything = Classifier(one.published.metric, k=k, vote=one.vote).fit(
            ROWS[labelled], [LABELS[n] for n in labelled]
        )
        found = one.engine.classify(query, k)
        shares = dict(zip(everything.classes_.tolist(), everything.predict_proba(query[None])[0], strict=True))
        assert dict(found.labels) == pytest.approx({label: share for label, share in shares.items() if share > 0})
        assert found.labels[0][0] == everything.predict(query[None])[0]
        assert found.familiarity == pytest.approx(everything.familiarity(query[None])[0], rel=1e-4)


def test_an_item_does_not_vote_for_itself(world: Any) -> None:
    one = world()
    one.engine.add_change(CatalogueChange(relabelled=[(9, "alone")]))
    with_itself = one.engine.classify(ROWS[9], 1)
    without = one.engine.classify("k9", 1)
    assert with_itself.labels == (("alone", 1.0),)
    assert "alone" not in dict(without.labels)


def test_without_labelled_items_there_is_no_label(world: Any) -> None:
    one = world(n=10)
    one.engine.add_change(CatalogueChange(relabelled=[(n, None) for n in range(1, 11)]))
    found = one.engine.classify(QUERIES[0], 5)
    assert found.labels == ()


def test_classify_reports_its_metrics(world: Any, trained: Any) -> None:
    one = world("OASIS", 5)
    old, one.published = one.published, trained("OASIS", 50)
    found = one.engine.classify(QUERIES[0], 5)
    assert (found.published, found.candidates) == (one.published, old)


# -- compare ---------------------------------------------------------------------------------------------------

PAIRS = tuple((int(a), int(b), bool(a % 2 == b % 2)) for a, b in np.random.default_rng(2).integers(1, N, (40, 2)))


@pytest.mark.parametrize("learner", ["Cosine", "OAHU", "AnchoredOAHU"])
def test_compare_equals_a_comparator(world: Any, learner: str) -> None:
    one = world(learner)
    comparator = Comparator(one.published.metric)
    for query in QUERIES[1:]:
        found = one.engine.compare(QUERIES[0], query)
        expected = comparator.compare(QUERIES[0], query)
        assert (found.answer, found.probability, found.vote_share, found.score) == (
            expected.answer,
            None,
            expected.vote_share,
            expected.score,
        )
        assert (found.yes_below, found.no_from, found.calibrated) == (*comparator.thresholds, False)


@pytest.mark.filterwarnings("ignore:target_f.* needs .* pairs:UserWarning")
@pytest.mark.parametrize("learner", ["Euclidean", "OASIS", "OAHU"])
@pytest.mark.parametrize("target", [{"target": "f1"}, {"target_far": 0.1}, {"target_far": 0.1, "target_frr": 0.1}])
def test_thresholds_are_calibrated_for_every_metric(
    world: Any, trained: Any, learner: str, target: dict[str, Any]
) -> None:
    one = world(learner, 5)
    one.engine.calibration = Calibration(PAIRS, target, 0)
    for n in (5, 200):
        one.published = trained(learner, n)
        expected = Comparator(one.published.metric).calibrate(
            ROWS[[pair[:2] for pair in PAIRS]], [pair[2] for pair in PAIRS], **target
        )
        found = one.engine.compare(QUERIES[0], QUERIES[1])
        assert (found.yes_below, found.no_from, found.calibrated) == (*expected.thresholds, True)
        compared = expected.compare(QUERIES[0], QUERIES[1])
        assert (found.answer, found.probability) == (compared.answer, compared.probability)


def test_a_new_calibration_takes_effect_at_once(world: Any) -> None:
    one = world()
    seen = set()
    for target in ("f1", "accuracy", "eer"):
        for some in (PAIRS[:20], PAIRS[20:]):
            one.engine.calibration = Calibration(some, {"target": target}, 0)
            expected = Comparator(one.published.metric).calibrate(
                ROWS[[pair[:2] for pair in some]], [pair[2] for pair in some], target=target
            )
            found = one.engine.compare(QUERIES[0], QUERIES[1])
            assert found.yes_below == expected.yes_below_
            seen.add(found.yes_below)
    assert len(seen) > 1


def test_an_older_metric_does_not_use_the_thresholds_of_a_newer_one(world: Any, trained: Any) -> None:
    one = world("OASIS", 5)
    one.engine.calibration = Calibration(PAIRS, {"target": "f1"}, 0)
    old, new = one.published, trained("OASIS", 300)
    before = one.engine.compare(QUERIES[0], QUERIES[1])
    one.published = new
    assert one.engine.compare(QUERIES[0], QUERIES[1]) != before
    one.published = old
    assert one.engine.compare(QUERIES[0], QUERIES[1]) == before
