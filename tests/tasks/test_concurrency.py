"""Searches from many threads while the metric and the items change: every result belongs to one state."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count, cycle, islice, product
from threading import Event
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from oahu import OAHU, EuclideanMetric, MahalanobisMetric, RetrievalResult, Retriever
from oahu.metrics import Metric
from oahu.tasks import retrieval
from oahu.tasks.indexed_items import VOTE_MODES, VoteMode

Array = NDArray[Any]

D, K, N = 5, 7, 60
RNG = np.random.default_rng(3)
TIMEOUT = 60  # seconds
MOST = 100_000  # limit on the number of changes

# Integers, so that linear metrics with integer factors do not round, whatever the batch size.
ITEMS: Array = RNG.integers(-999, 1000, (N, D))
QUERIES: Array = RNG.integers(-999, 1000, (4, D))
LINEAR = {v: MahalanobisMetric(RNG.integers(-9, 10, (3, D)).astype(float), v) for v in (1, 2, 3)}


@pytest.fixture(scope="module", params=["linear", "learned"])
def metrics(request: pytest.FixtureRequest) -> dict[int, Metric]:
    """Metrics of the versions 1, 2 and 3: linear ones, or learned ones with several spaces."""
    if request.param == "linear":
        return dict(LINEAR)
    learners = {v: OAHU(n_layers=2, hidden_size=8, embedding_size=4, random_state=v) for v in (1, 2, 3)}
    triplets = np.random.default_rng(0).normal(size=(3, 3, D))
    return {v: learner.partial_fit(triplets[:v]).metric() for v, learner in learners.items()}


@pytest.fixture(autouse=True)
def _impatient_threads() -> Iterator[None]:
    """Switch between threads often."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


@contextmanager
def repeating(*loops: Callable[[int], object]) -> Iterator[Callable[[], bool]]:
    """Repeat each loop body in its own thread. Errors are raised at the end.

    Yields a function that returns whether all threads are still running. Each body runs at least once.
    """
    stop = Event()

    def go(body: Callable[[int], object]) -> None:
        for turn in count():
            body(turn)
            if stop.is_set():
                return

    with ThreadPoolExecutor(len(loops)) as pool:
        threads: list[Future[None]] = [pool.submit(go, body) for body in loops]
        try:
            yield lambda: not any(thread.done() for thread in threads)
        finally:
            stop.set()
        for thread in threads:
            thread.result(TIMEOUT)


Ask = Callable[[Retriever], list[RetrievalResult]]

ASKING: dict[str, Ask] = {
    "search": lambda retriever: [retriever.search(QUERIES[0], K)],
    "search_batch": lambda retriever: list(retriever.search_batch(QUERIES, K, exclude=[None, 1, [2, 3], ["none"]])),
    "similar_to": lambda retriever: [retriever.similar_to(5, K)],
}


def filled(metric: Metric, vote: VoteMode = "experts") -> Retriever:
    return Retriever(metric, vote).add(range(N), ITEMS)


# -- replacing the metric ------------------------------------------------------------------------------


@pytest.mark.parametrize("vote", VOTE_MODES)
def test_every_result_uses_one_metric_while_metrics_are_replaced(
    metrics: dict[int, Metric], vote: VoteMode
) -> None:
    expected = {
        (name, version): ask(filled(metric, vote))
        for (name, ask), (version, metric) in product(ASKING.items(), metrics.items())
    }
    retriever = filled(metrics[1], vote)
    seen: set[tuple[str, int]] = set()

    def asking(name: str) -> Callable[[int], None]:
        def body(_: int) -> None:
            results = ASKING[name](retriever)
            (version,) = {result.version for result in results}
            assert results == expected[name, version]
            seen.add((name, version))

        return body

    with repeating(*map(asking, ASKING)) as all_well:
        for n_swaps, version in enumerate(islice(cycle(metrics), MOST)):
            retriever.set_metric(metrics[version])
            if not all_well() or (n_swaps >= 60 and seen == expected.keys()):
                break
    assert seen == expected.keys()


@pytest.mark.parametrize("name", ASKING)
def test_the_replaced_metrics_give_different_results(name: str, metrics: dict[int, Metric]) -> None:
    """Otherwise the test above would be vacuous."""
    answers = {tuple(result.keys[0] for result in ASKING[name](filled(metric))) for metric in metrics.values()}
    assert len(answers) > 1


def test_results_read_later_belong_to_the_metric_of_the_search() -> None:
    retriever = filled(LINEAR[1])
    results = {}
    for version, metric in LINEAR.items():
        retriever.set_metric(metric)
        results[version] = retriever.search_batch(QUERIES, K)
    assert {version: list(each) for version, each in results.items()} == {
        version: list(filled(metric).search_batch(QUERIES, K)) for version, metric in LINEAR.items()
    }


class SlowMetric(EuclideanMetric):
    """A metric that waits before it encodes the items."""

    begun, allowed = Event(), Event()

    def transform_checked(self, items: Array) -> Array:
        if len(items) == N:
            self.begun.set()
            assert self.allowed.wait(TIMEOUT)
        return super().transform_checked(items)


def test_searches_use_the_old_metric_until_the_new_one_is_ready() -> None:
    retriever = filled(LINEAR[1])
    expected = {name: ask(retriever) for name, ask in ASKING.items()}
    with ThreadPoolExecutor(1) as pool:
        swapping = pool.submit(retriever.set_metric, SlowMetric(D, version=9))
        try:
            assert SlowMetric.begun.wait(TIMEOUT)
            meanwhile = {name: ask(retriever) for name, ask in ASKING.items()}
        finally:
            SlowMetric.allowed.set()
        swapping.result(TIMEOUT)
    assert meanwhile == expected
    assert retriever.search(QUERIES[0]).version == 9


# -- changing items ------------------------------------------------------------------------------------

VISITORS = ["visitor 1", "visitor 2", "visitor 3"]
WANDERER = "wanderer"
NEAR: Array = QUERIES[0] + np.arange(1, 6) * [[1], [2], [3], [4], [5]]  # among the nearest of the first query


def catalogue(metric: Metric, wanders: int, visited: bool) -> Retriever:
    made = filled(metric).add([WANDERER], NEAR[wanders : wanders + 1])
    return made.add(VISITORS, NEAR[2:]) if visited else made


@pytest.mark.parametrize("few", [retrieval._COMPACT_FROM, 0], ids=["default", "compacted often"])
def test_every_result_belongs_to_one_metric_and_one_set_of_items(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrieval, "_COMPACT_FROM", few)
    possible = {
        (name, version): [ask(catalogue(metric, *state)) for state in product((0, 1), (False, True))]
        for (name, ask), (version, metric) in product(ASKING.items(), LINEAR.items())
    }
    retriever = catalogue(LINEAR[1], 0, False)
    seen: set[int] = set()  # the states of the items that results belonged to

    def asking(name: str) -> Callable[[int], None]:
        def body(_: int) -> None:
            results = ASKING[name](retriever)
            (version,) = {result.version for result in results}
            seen.add(possible[name, version].index(results))

        return body

    def come_and_go(_: int) -> None:
        retriever.add(VISITORS, NEAR[2:])
        retriever.remove(VISITORS)

    def wander(turn: int) -> None:
        at = (turn + 1) % 2
        retriever.update([WANDERER], NEAR[at : at + 1])

    with repeating(*map(asking, ASKING), come_and_go, wander) as all_well:
        for n_swaps, version in enumerate(islice(cycle(LINEAR), MOST)):
            retriever.set_metric(LINEAR[version])
            if not all_well() or (n_swaps >= 50 and len(seen) == 4):
                break
    assert seen == {0, 1, 2, 3}


def test_the_compared_sets_of_items_give_different_results() -> None:
    """Otherwise the test above would be vacuous."""
    answers = [catalogue(LINEAR[1], *state).search(QUERIES[0], K) for state in product((0, 1), (False, True))]
    assert len(set(answers)) == 4


@pytest.mark.parametrize("few", [retrieval._COMPACT_FROM, 0], ids=["default", "compacted often"])
def test_items_updated_together_become_visible_together(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrieval, "_COMPACT_FROM", few)
    pair, features = ["left", "right"], np.array([[[0.0] * D, [1.0] * D], [[10.0] * D, [11.0] * D]])
    retriever = Retriever(EuclideanMetric(D)).add(["fixed"], [[5.0] * D]).add(pair, features[0])
    away = [float(np.sqrt(D)) * np.arange(2) + float(np.sqrt(D)) * 10 * moment for moment in (0, 1)]
    seen = set()

    def look(_: int) -> None:
        found = {match.key: match.distance for match in retriever.search([0.0] * D, k=10)}
        where = [found["left"], found["right"]]
        (moment,) = (m for m in (0, 1) if where == pytest.approx(list(away[m])))
        seen.add(moment)

    def look_for_all(_: int) -> None:
        assert sorted(map(str, retriever.search([0.0] * D, k=10).keys)) == ["fixed", *pair]
        assert sorted(map(str, retriever.keys)) == ["fixed", *pair]

    def look_from_within(_: int) -> None:
        assert sorted(map(str, retriever.similar_to("left").keys)) == ["fixed", "right"]
        assert ("left" in retriever, len(retriever)) == (True, 3)

    with repeating(look, look_for_all, look_from_within) as all_well:
        for turn in range(MOST):
            retriever.update(pair, features[(turn + 1) % 2])
            if not all_well() or (turn >= 200 and seen == {0, 1}):
                break
    assert seen == {0, 1}


def test_approximate_results_have_distinct_existing_items_while_items_change() -> None:
    retriever = Retriever(EuclideanMetric(D), approximate=True).add(range(N), ITEMS).add([WANDERER], NEAR[:1])
    everyone = {*range(N), WANDERER, *VISITORS}

    def look(_: int) -> None:
        for keys in retriever.search_batch(QUERIES, N + 4).keys:
            assert len(set(keys)) == len(keys)
            assert everyone.issuperset(keys)
            assert set(range(N)).issubset(keys)

    def look_closely(_: int) -> None:
        (match,) = (match for match in retriever.search(ITEMS[3], N + 4) if match.key == 3)
        assert match.distance == 0.0

    def come_and_go(_: int) -> None:
        retriever.add(VISITORS, NEAR[2:])
        retriever.remove(VISITORS)

    with repeating(look, look, look_closely, come_and_go) as all_well:
        for turn in range(100):
            retriever.update([WANDERER], NEAR[turn % 2 : turn % 2 + 1])
            if not all_well():
                break


def test_items_added_by_many_threads_are_all_present() -> None:
    retriever = Retriever(EuclideanMetric(D))

    def adding(thread: int) -> None:
        for at in range(thread, N, 4):
            retriever.add([at], ITEMS[at : at + 1])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(adding, range(4)))
    assert [retriever.search(x, k=1).keys for x in ITEMS] == [[at] for at in range(N)]


def test_one_of_many_threads_that_add_the_same_key_succeeds() -> None:
    retriever = Retriever(EuclideanMetric(D))

    def add(at: int) -> bool:
        try:
            retriever.add(["key"], ITEMS[at : at + 1])
        except ValueError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        added = list(pool.map(add, range(N)))
    assert added.count(True) == 1
    assert retriever.search(ITEMS[added.index(True)])[0].distance == 0.0


def test_a_file_saved_during_changes_is_consistent(tmp_path: Any) -> None:
    import oahu

    retriever = catalogue(LINEAR[1], 0, False)
    possible = [
        catalogue(LINEAR[version], 0, visited).search(QUERIES[0], K)
        for version, visited in product(LINEAR, (False, True))
    ]

    def come_and_go(_: int) -> None:
        retriever.add(VISITORS, NEAR[2:])
        retriever.remove(VISITORS)

    def swap(turn: int) -> None:
        retriever.set_metric(LINEAR[1 + turn % 3])

    with repeating(come_and_go, swap):
        for _ in range(30):
            retriever.save(tmp_path / "retriever")
            assert oahu.load(tmp_path / "retriever").search(QUERIES[0], K) in possible
