"""A search gives the ranking of the newest metric. Only the choice of candidates can be outdated."""

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
from oahu.service.payload_index import PayloadIndex
from oahu.service.query_engine import QueryEngine
from oahu.service.records import AddedItem, Calibration, CatalogueChange, PublishedMetric

TIMEOUT = 600.0  # seconds; only a real hang exceeds it
D = 5
N = 80
KINDS = ["Euclidean", "Cosine", "OASIS", "LEGO", "AnchoredOAHU", "OAHU"]
ROWS = np.random.default_rng(0).normal(size=(N + 1, D)).astype(np.float32)  # by number; there is no item 0
LABELS: list[str | None] = [None, *([None, "a", "b", "b"][n % 4] for n in range(1, N + 1))]
QUERIES = np.random.default_rng(1).normal(size=(6, D)).astype(np.float32)


class FakeCatalogue:
    """A catalogue of items with keys k1, k2, ..."""

    def __init__(self, n: int) -> None:
        self._n = n
        self.features = FeatureStore(D, np.dtype(np.float32))
        self.features.add(list(range(1, N + 1)), [f"k{n}" for n in range(1, N + 1)], ROWS[1:].tobytes())
        self.payload_index = PayloadIndex(lambda: iter(()))

    def all_items(self) -> tuple[list[int], list[str | None]]:
        return list(range(1, self._n + 1)), LABELS[1 : self._n + 1]

    def find_vector(self, features: Any) -> None:
        return None

    def vectors(self, keys: list[str]) -> dict[str, tuple[int, Any]]:
        return {key: (int(key[1:]), ROWS[int(key[1:])]) for key in keys}


class FakeRelations:
    """A feedback log with the same similar and dissimilar items for every query."""

    def __init__(self) -> None:
        self.last_seq, self.similar, self.dissimilar_items = 0, list[int](), list[int]()

    def similar_to(self, number: int) -> list[int]:
        return self.similar

    def dissimilar(self, number: int, others: list[int]) -> set[int]:
        return set(others) & set(self.dissimilar_items)


class FakeMetricSource:
    """A learner loop with a metric that the test sets."""

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


class EngineHarness:
    """A query engine with items and a metric that the test can replace."""

    def __init__(
        self, published: PublishedMetric, vote: Any = "experts", n: int = N, n_candidates: int = 12
    ) -> None:
        self.vote, self.numbers = vote, list(range(1, n + 1))
        self.catalogue, self.relations, self.metrics = (
            FakeCatalogue(n),
            FakeRelations(),
            FakeMetricSource(published),
        )
        catalogue: Any = self.catalogue
        self.engine = QueryEngine(catalogue, self.relations, self.metrics, vote, n_candidates)
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
        """Search for features, or for an item by its number, with the given feedback."""
        self.relations.similar, self.relations.dissimilar_items = similar or [], dissimilar or []
        return self.engine.search(f"k{query}" if isinstance(query, int) else query, k, **options)

    def found(self, query: Any, k: int, **options: Any) -> list[int]:
        return [item.match.key for item in self.search(query, k, **options).matches]

    def retriever(self, numbers: list[int] | None = None) -> Retriever:
        """Return a retriever over all items, or over the given items."""
        numbers = self.numbers if numbers is None else numbers
        made = Retriever(self.published.metric, self.vote)
        return made.add(numbers, ROWS[numbers]) if numbers else made


@pytest.fixture(scope="module")
def make_engine(trained_metric: Callable[..., PublishedMetric]) -> Callable[..., EngineHarness]:
    def make(learner: str = "Euclidean", n_learned: int = 60, **options: Any) -> EngineHarness:
        return EngineHarness(trained_metric(learner, n_learned), **options)

    return make


@contextmanager
def repeated_in_threads(*calls: Callable[[], Any]) -> Iterator[None]:
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
    """Return whether the found items are the best of the given items, in order, up to ties."""
    score = {number: float(metric.score(query[None], ROWS[number][None])[0]) for number in numbers}
    best = sorted(score.values(), reverse=True)[: len(found)]
    return len(set(found)) == len(found) and bool(
        np.allclose([score[n] for n in found], best, rtol=1e-5, atol=1e-6)
    )


# -- the index has the newest metric -----------------------------------------------------------------------------


@pytest.mark.parametrize("learner", ["Euclidean", "Cosine", "OASIS", "LEGO"])
def test_search_equals_brute_force_by_score(make_engine: Any, learner: str) -> None:
    harness = make_engine(learner)
    for query, k in product(QUERIES, (1, 5, 20)):
        found = harness.found(query, k)
        assert len(found) == k
        assert in_order(harness.published.metric, query, found, harness.numbers)


@pytest.mark.parametrize("learner", ["OAHU", "AnchoredOAHU"])
def test_joint_search_equals_brute_force_by_score(make_engine: Any, learner: str) -> None:
    harness = make_engine(learner, vote="joint")
    for query in QUERIES:
        assert in_order(harness.published.metric, query, harness.found(query, 7), harness.numbers)


@pytest.mark.parametrize("learner", KINDS)
@pytest.mark.parametrize("vote", ["experts", "joint"])
def test_search_equals_a_retriever_over_all_items(make_engine: Any, learner: str, vote: str) -> None:
    harness = make_engine(learner, vote=vote)
    reference = harness.retriever()
    for query, k in product(QUERIES, (1, 6, 25)):
        assert harness.found(query, k) == reference.search(query, k).keys


@pytest.mark.parametrize("learner", KINDS)
def test_search_for_an_item_excludes_it(make_engine: Any, learner: str) -> None:
    harness = make_engine(learner)
    reference = harness.retriever()
    for number in (1, 7, 33):
        found = harness.found(number, 5)
        assert found == reference.search(ROWS[number], 5, exclude=number).keys


@pytest.mark.parametrize("learner", KINDS)
def test_without_feedback_only_the_metric_ranks(make_engine: Any, learner: str) -> None:
    harness = make_engine(learner)
    reference = harness.retriever()
    for number, use_feedback in product(range(1, 10), (True, False)):
        found = harness.found(number, 5, use_feedback=use_feedback)
        assert found == reference.search(ROWS[number], 5, exclude=number).keys


@pytest.mark.parametrize("learner", KINDS)
def test_scores_and_similarities_equal_the_metric(make_engine: Any, learner: str) -> None:
    harness = make_engine(learner)
    found = harness.search(QUERIES[0], 8)
    expected = harness.retriever().search(QUERIES[0], 8)
    for (_, match, relation), wanted_match in zip(found.matches, expected, strict=True):
        assert relation is None
        assert match.similarity == pytest.approx(wanted_match.similarity, rel=1e-5, abs=1e-6)
        assert match.votes[0].score == pytest.approx(wanted_match.votes[0].score, rel=1e-4)
        exact = harness.published.metric.score(QUERIES[0][None], ROWS[match.key][None])[0]
        assert match.similarity == pytest.approx(exact, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("learner", ["Euclidean", "OAHU"])
def test_a_label_restricts_the_results(make_engine: Any, learner: str) -> None:
    harness = make_engine(learner)
    for query, label in product(QUERIES, ("a", "b", "unused")):
        members = [n for n in harness.numbers if LABELS[n] == label]
        found = harness.found(query, 6, label=label)
        assert found == (harness.retriever(members).search(query, 6).keys if members else [])


def test_without_a_label_unlabelled_items_are_found_too(make_engine: Any) -> None:
    found = make_engine().found(QUERIES[0], N)
    assert {LABELS[number] for number in found} == {None, "a", "b"}


def test_a_large_k_returns_all_items(make_engine: Any) -> None:
    harness = make_engine(n=9)
    assert sorted(harness.found(QUERIES[0], 1000)) == harness.numbers
    assert sorted(harness.found(QUERIES[0], 1000, label="a")) == [1, 5, 9]


def test_an_empty_catalogue_gives_no_results(make_engine: Any) -> None:
    harness = make_engine(n=0)
    assert harness.search(QUERIES[0], 5).matches == ()
    assert harness.search(QUERIES[0], 5, label="a").matches == ()
    assert harness.search(1, 5, similar=[1], dissimilar=[2]).matches == ()
    classified = harness.engine.classify(QUERIES[0], 5)
    assert classified.labels == ()


def test_a_catalogue_of_one_item(make_engine: Any) -> None:
    harness = make_engine(n=1)
    assert harness.found(1, 5) == []
    assert harness.found(QUERIES[0], 5) == [1]


# -- feedback --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", ["Euclidean", "OAHU"])
@pytest.mark.parametrize("label", [None, "b"])
@pytest.mark.parametrize("k", [4, 9, N])
def test_similar_items_come_first_and_dissimilar_items_last(
    make_engine: Any, learner: str, label: str | None, k: int
) -> None:
    harness = make_engine(learner)
    far = harness.retriever().search(ROWS[1], N, exclude=1).keys[::-1]
    members = [n for n in harness.numbers if n != 1 and label in (None, LABELS[n])]
    groups = {
        "similar": [n for n in members if n in far[:6]],
        None: [n for n in members if n not in far[:6] + far[-6:]],
        "dissimilar": [n for n in members if n in far[-6:]],
    }
    expected: list[Any] = []
    for relation, group in groups.items():
        if len(expected) < k and group:
            expected += [(n, relation) for n in harness.retriever(group).search(ROWS[1], k - len(expected)).keys]
    matches = harness.search(1, k, label=label, similar=far[:6], dissimilar=far[-6:]).matches
    assert [(item.match.key, item.relation) for item in matches] == expected


def test_a_similar_item_is_found_at_any_distance(make_engine: Any) -> None:
    harness = make_engine()
    farthest = harness.retriever().search(ROWS[1], N, exclude=1).keys[-1]
    (_, first, relation), *_ = harness.search(1, 3, similar=[farthest]).matches
    assert (first.key, relation) == (farthest, "similar")


@pytest.mark.parametrize("learner", ["Euclidean", "OAHU"])
def test_other_items_are_found_behind_many_dissimilar_ones(make_engine: Any, learner: str) -> None:
    harness = make_engine(learner)
    dissimilar = (
        harness.retriever().search(ROWS[1], N, exclude=1).keys[:60]
    )  # many more than the number of candidates
    matches = harness.search(1, 5, dissimilar=dissimilar).matches
    assert [item.relation for item in matches] == [None] * 5


def test_the_nearest_other_items_are_found_behind_dissimilar_ones(make_engine: Any) -> None:
    harness = make_engine()
    dissimilar = harness.retriever().search(ROWS[1], N, exclude=1).keys[:60]
    others = [n for n in harness.numbers if n != 1 and n not in dissimilar]
    found = harness.found(1, 5, dissimilar=dissimilar)
    assert found == harness.retriever(others).search(ROWS[1], 5).keys


def test_the_nearest_of_many_similar_items_come_first(make_engine: Any) -> None:
    harness = make_engine()
    similar = list(range(2, 62))
    matches = harness.search(1, 7, similar=similar).matches
    assert [item.match.key for item in matches] == harness.retriever(similar).search(ROWS[1], 7).keys
    assert {item.relation for item in matches} == {"similar"}


def test_feedback_can_be_reported_without_changing_the_ranking(make_engine: Any) -> None:
    harness = make_engine()
    order = harness.retriever().search(ROWS[1], 10, exclude=1).keys
    matches = harness.search(1, 10, similar=order[5:7], dissimilar=order[:2], use_feedback=False).matches
    assert [item.match.key for item in matches] == order
    assert [item.relation for item in matches] == ["dissimilar"] * 2 + [None] * 3 + ["similar"] * 2 + [None] * 3


def test_feedback_about_removed_items_is_ignored(make_engine: Any) -> None:
    harness = make_engine(n=20)
    matches = harness.search(1, 30, similar=[50, 3], dissimilar=[60, 4]).matches
    assert matches[0].match.key == 3
    assert matches[-1].match.key == 4
    assert len(matches) == 19


# -- a newer metric --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", ["OASIS", "OAHU", "AnchoredOAHU"])
def test_before_a_refresh_old_candidates_are_ranked_by_the_newest_metric(
    make_engine: Any, trained_metric: Any, learner: str
) -> None:
    harness = make_engine(learner, 5)
    old = harness.published
    harness.published = newest = trained_metric(learner, 400)
    for query in QUERIES:
        candidates = CatalogueIndex.build(
            old, "experts", harness.catalogue.features.table, harness.numbers, LABELS[1:]
        )
        numbers = sorted(candidates.candidates(query[None], 12, candidates.gallery, None).tolist())
        found = harness.search(query, 5)
        assert (found.published, found.candidates) == (newest, old)
        assert [item.match.key for item in found.matches] == harness.retriever(numbers).search(query, 5).keys


@pytest.mark.parametrize("query", ["search", "classify"])
def test_candidates_are_collected_before_waiting_for_the_metric(
    make_engine: Any, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness, order = make_engine("OASIS", 5), []
    find = CatalogueIndex.candidates

    def candidates(*given: Any) -> Any:
        order.append("candidates")
        return find(*given)

    monkeypatch.setattr(CatalogueIndex, "candidates", candidates)
    monkeypatch.setattr(harness.metrics, "request", lambda seq: order.append("request"))
    harness.metrics.before_waiting = lambda: order.append("wait")
    getattr(harness.engine, query)(QUERIES[0], 5)
    assert order == ["request", "candidates", "wait"]


def test_background_work_can_wait_until_no_query_is_running(make_engine: Any) -> None:
    engine = make_engine("OASIS", 5).engine
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


def test_a_query_uses_one_thread_unless_the_index_is_large(
    make_engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, before = make_engine("OASIS", 5).engine, numba.get_num_threads()
    with engine._answering():
        assert numba.get_num_threads() == 1
    monkeypatch.setattr(query_engine, "_PER_THREAD", 1)
    with engine._answering():
        assert numba.get_num_threads() == before
    assert numba.get_num_threads() == before


@pytest.mark.parametrize("learner", ["OASIS", "OAHU"])
def test_after_a_refresh_the_newest_metric_selects_the_candidates(
    make_engine: Any, trained_metric: Any, learner: str
) -> None:
    harness = make_engine(learner, 5)
    harness.published = trained_metric(learner, 400)
    assert harness.engine.is_outdated
    harness.engine.refresh()
    assert not harness.engine.is_outdated
    assert harness.search(QUERIES[0], 1).candidates is harness.published
    reference = harness.retriever()
    for query in QUERIES:
        assert harness.found(query, 6) == reference.search(query, 6).keys


@pytest.mark.parametrize("learner", ["OASIS", "OAHU"])
def test_a_ranking_comes_from_one_metric_even_if_it_changes_during_the_search(
    make_engine: Any, trained_metric: Any, learner: str
) -> None:
    metrics = [trained_metric(learner, n) for n in (3, 30, 90, 270)]
    harness = make_engine(learner, 3)
    for turn, query in enumerate(QUERIES):
        before, during, after = (metrics[(turn + shift) % len(metrics)] for shift in range(3))
        harness.published = before
        harness.engine.refresh()
        index = harness.engine.index

        def change_before(metric: Any = during) -> None:  # after the candidates, before the metric
            harness.published = metric
            harness.engine.refresh()

        def change_after(metric: Any = after) -> None:  # after the metric
            harness.published = metric
            harness.engine.refresh()

        harness.metrics.before_waiting, harness.metrics.after_waiting = change_before, change_after
        result = harness.search(query, 6)
        harness.metrics.before_waiting = harness.metrics.after_waiting = lambda: None
        assert (result.published, result.candidates) == (during, before)
        numbers = [item.match.key for item in result.matches]
        candidates = index.candidates(query[None], 12, index.gallery, None).tolist()
        assert (
            numbers
            == Retriever(during.metric, harness.vote).add(candidates, ROWS[candidates]).search(query, 6).keys
        )
        exact = during.metric.score(np.repeat(query[None], len(numbers), axis=0), ROWS[numbers])
        np.testing.assert_allclose([item.match.similarity for item in result.matches], exact, rtol=1e-4, atol=1e-6)


# -- catalogue changes -----------------------------------------------------------------------------------------


def added(*numbers: int) -> CatalogueChange:
    return CatalogueChange(added=[AddedItem(n, f"k{n}", LABELS[n], b"") for n in numbers])


def test_an_added_item_is_found_at_once(make_engine: Any) -> None:
    harness = make_engine(n=30)
    harness.engine.add_change(added(50))
    assert harness.found(ROWS[50], 1) == [50]
    assert 50 in harness.found(ROWS[50], 5, label=LABELS[50])


def test_a_removed_item_is_not_found(make_engine: Any) -> None:
    harness = make_engine(n=30)
    harness.engine.add_change(CatalogueChange(removed=[7]))
    assert 7 not in harness.found(ROWS[7], 100)
    assert 7 not in harness.found(ROWS[7], 100, label=LABELS[7])
    assert 7 not in harness.found(1, 100, similar=[7])


def test_a_changed_label_takes_effect_at_once(make_engine: Any) -> None:
    harness = make_engine(n=30)
    assert LABELS[5] == "a"
    harness.engine.add_change(CatalogueChange(relabelled=[(5, "b"), (6, None)]))
    assert 5 in harness.found(QUERIES[0], 100, label="b")
    assert 5 not in harness.found(QUERIES[0], 100, label="a")
    assert 6 not in harness.found(QUERIES[0], 100, label="b")


def test_changes_are_applied_in_order(make_engine: Any) -> None:
    harness = make_engine(n=10)
    for change in (added(40), CatalogueChange(removed=[40]), added(41), CatalogueChange(relabelled=[(41, "x")])):
        harness.engine.add_change(change)
    assert harness.found(QUERIES[0], 100, label="x") == [41]
    assert 40 not in harness.found(QUERIES[0], 100)


def test_a_query_waits_for_a_change_that_another_thread_applies(
    make_engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = make_engine(n=30)
    applying, released = Event(), Event()
    changed = CatalogueIndex.changed

    def slow_change(*given: Any) -> CatalogueIndex:
        applying.set()
        assert released.wait(TIMEOUT)
        return changed(*given)

    monkeypatch.setattr(CatalogueIndex, "changed", slow_change)
    harness.engine.add_change(added(50))
    results: list[list[int]] = []
    threads = [
        Thread(target=harness.engine.apply_changes),
        Thread(target=lambda: results.append(harness.found(ROWS[50], 1))),
    ]
    threads[0].start()
    assert applying.wait(TIMEOUT)
    assert harness.engine._pending  # the second thread waits for the lock
    threads[1].start()
    released.set()
    for thread in threads:
        thread.join()
    assert results == [[50]]


def test_changes_during_a_refresh_are_not_lost(
    make_engine: Any, trained_metric: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = make_engine("OASIS", 5, n=30)
    harness.published = trained_metric("OASIS", 50)
    build = CatalogueIndex.build

    def build_during_changes(*given: Any) -> CatalogueIndex:
        made = build(*given)
        harness.engine.add_change(CatalogueChange([AddedItem(70, "k70", "new", b"")], [(2, "other")], [3]))
        assert 70 in harness.found(QUERIES[0], 100)  # applies the change to the old index
        harness.engine.add_change(added(71))  # not applied yet
        return made

    monkeypatch.setattr(query_engine.CatalogueIndex, "build", build_during_changes)
    harness.engine.refresh()
    numbers = harness.found(QUERIES[0], 100)
    assert set(numbers) == (set(range(1, 31)) - {3}) | {70, 71}
    assert harness.found(QUERIES[0], 100, label="new") == [70]
    assert harness.found(QUERIES[0], 100, label="other") == [2]
    assert not harness.engine.is_outdated


def test_a_failed_refresh_leaves_the_index_and_later_changes_intact(
    make_engine: Any, trained_metric: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = make_engine("OASIS", 5, n=10)

    def broken(*_: Any) -> CatalogueIndex:
        raise ZeroDivisionError

    monkeypatch.setattr(query_engine.CatalogueIndex, "build", broken)
    with pytest.raises(ZeroDivisionError):
        harness.engine.refresh()
    monkeypatch.undo()
    harness.engine.add_change(added(40))
    assert len(harness.found(QUERIES[0], 100)) == 11
    harness.published = trained_metric("OASIS", 50)
    harness.engine.refresh()
    assert len(harness.found(QUERIES[0], 100)) == 11


def test_concurrent_changes_searches_and_refreshes(make_engine: Any, trained_metric: Any) -> None:
    harness = make_engine("OASIS", 5, n=40)
    metrics = [trained_metric("OASIS", n) for n in (5, 50)]
    missed: list[set[int]] = []

    def refresh() -> None:
        harness.published = metrics[harness.published is metrics[0]]
        harness.engine.refresh()

    def search() -> None:
        missing = set(range(1, 41)) - set(harness.found(QUERIES[0], 100))
        missed.extend([missing] if missing else [])

    expected = set(range(1, 41))
    with repeated_in_threads(refresh, search):
        for turn in range(150):
            number = 41 + turn % 40
            harness.engine.add_change(CatalogueChange(removed=[number]) if number in expected else added(number))
            expected ^= {number}
            assert (number in harness.found(ROWS[number], 100)) == (number in expected)
    assert not missed
    assert set(harness.found(QUERIES[0], 100)) == expected


# -- classify --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", KINDS)
def test_classify_equals_a_classifier_over_all_labelled_items(make_engine: Any, learner: str) -> None:
    harness = make_engine(learner)
    labelled = [n for n in harness.numbers if LABELS[n] is not None]
    for query, k in product(QUERIES[:3], (1, 5, 1000)):
        reference = Classifier(harness.published.metric, k=k, vote=harness.vote).fit(
            ROWS[labelled], [LABELS[n] for n in labelled]
        )
        found = harness.engine.classify(query, k)
        shares = dict(zip(reference.classes_.tolist(), reference.predict_proba(query[None])[0], strict=True))
        assert dict(found.labels) == pytest.approx({label: share for label, share in shares.items() if share > 0})
        assert found.labels[0][0] == reference.predict(query[None])[0]
        assert found.familiarity == pytest.approx(reference.familiarity(query[None])[0], rel=1e-4)


def test_classify_searches_once(make_engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    n_searches = 0
    search_blocks = Classifier._search_blocks

    def counted(*given: Any) -> Any:
        nonlocal n_searches
        n_searches += 1
        return search_blocks(*given)

    monkeypatch.setattr(Classifier, "_search_blocks", counted)
    make_engine().engine.classify(QUERIES[0], 5)
    assert n_searches == 1


def test_an_item_does_not_vote_for_itself(make_engine: Any) -> None:
    harness = make_engine()
    harness.engine.add_change(CatalogueChange(relabelled=[(9, "alone")]))
    with_itself = harness.engine.classify(ROWS[9], 1)
    without = harness.engine.classify("k9", 1)
    assert with_itself.labels == (("alone", 1.0),)
    assert "alone" not in dict(without.labels)


def test_without_labelled_items_there_is_no_label(make_engine: Any) -> None:
    harness = make_engine(n=10)
    harness.engine.add_change(CatalogueChange(relabelled=[(n, None) for n in range(1, 11)]))
    found = harness.engine.classify(QUERIES[0], 5)
    assert found.labels == ()


def test_classify_reports_its_metrics(make_engine: Any, trained_metric: Any) -> None:
    harness = make_engine("OASIS", 5)
    old, harness.published = harness.published, trained_metric("OASIS", 50)
    found = harness.engine.classify(QUERIES[0], 5)
    assert (found.published, found.candidates) == (harness.published, old)


# -- compare ---------------------------------------------------------------------------------------------------

PAIRS = tuple((int(a), int(b), bool(a % 2 == b % 2)) for a, b in np.random.default_rng(2).integers(1, N, (40, 2)))


@pytest.mark.parametrize("learner", ["Cosine", "OAHU"])
def test_compare_equals_a_comparator(make_engine: Any, learner: str) -> None:
    harness = make_engine(learner)
    comparator = Comparator(harness.published.metric)
    for query in QUERIES[1:]:
        found = harness.engine.compare(QUERIES[0], query)
        expected = comparator.compare(QUERIES[0], query)
        assert (found.answer, found.probability, found.vote_share, found.score) == (
            expected.answer,
            None,
            expected.vote_share,
            expected.score,
        )
        assert (found.yes_below, found.no_from, found.calibrated) == (*comparator.thresholds, False)


@pytest.mark.filterwarnings("ignore:target_f.* needs .* pairs:UserWarning")
@pytest.mark.parametrize("learner", ["Euclidean", "OASIS", "OAHU", "AnchoredOAHU"])
@pytest.mark.parametrize("target", [{"target": "f1"}, {"target_far": 0.1}, {"target_far": 0.1, "target_frr": 0.1}])
def test_thresholds_are_calibrated_for_every_metric(
    make_engine: Any, trained_metric: Any, learner: str, target: dict[str, Any]
) -> None:
    harness = make_engine(learner, 5)
    harness.engine.calibration = Calibration(PAIRS, target, 0)
    for n in (5, 200):
        harness.published = trained_metric(learner, n)
        expected = Comparator(harness.published.metric).calibrate(
            ROWS[[pair[:2] for pair in PAIRS]], [pair[2] for pair in PAIRS], **target
        )
        found = harness.engine.compare(QUERIES[0], QUERIES[1])
        assert (found.yes_below, found.no_from, found.calibrated) == (*expected.thresholds, True)
        compared = expected.compare(QUERIES[0], QUERIES[1])
        assert (found.answer, found.probability) == (compared.answer, compared.probability)


def test_a_new_calibration_takes_effect_at_once(make_engine: Any) -> None:
    harness = make_engine()
    seen = set()
    for target in ("f1", "accuracy", "eer"):
        for some in (PAIRS[:20], PAIRS[20:]):
            harness.engine.calibration = Calibration(some, {"target": target}, 0)
            expected = Comparator(harness.published.metric).calibrate(
                ROWS[[pair[:2] for pair in some]], [pair[2] for pair in some], target=target
            )
            found = harness.engine.compare(QUERIES[0], QUERIES[1])
            assert found.yes_below == expected.yes_below_
            seen.add(found.yes_below)
    assert len(seen) > 1


def test_an_older_metric_does_not_use_the_thresholds_of_a_newer_one(make_engine: Any, trained_metric: Any) -> None:
    harness = make_engine("OASIS", 5)
    harness.engine.calibration = Calibration(PAIRS, {"target": "f1"}, 0)
    old, new = harness.published, trained_metric("OASIS", 300)
    before = harness.engine.compare(QUERIES[0], QUERIES[1])
    harness.published = new
    assert harness.engine.compare(QUERIES[0], QUERIES[1]) != before
    harness.published = old
    assert harness.engine.compare(QUERIES[0], QUERIES[1]) == before
