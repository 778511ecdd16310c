"""Answers are those of one metric over all items; only which items are candidates may be a little old."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from threading import Event, Semaphore, Thread
from typing import Any

import numba
import numpy as np
import pytest

from oahu import Classifier, Comparator, Retriever
from oahu.service import query_engine
from oahu.service.catalogue_index import CatalogueIndex
from oahu.service.feature_store import FeatureStore
from oahu.service.query_engine import QueryEngine
from oahu.service.records import Calibration, CatalogueChange, PublishedMetric

PATIENCE = 120.0
D = 5
N = 80
KINDS = ["Euclidean", "Cosine", "OASIS", "LEGO", "AnchoredOAHU", "OAHU"]
ROWS = np.random.default_rng(0).normal(size=(N + 1, D)).astype(np.float32)  # by number; number 0 is nobody's
LABELS: list[str | None] = [None, *([None, "a", "b", "b"][n % 4] for n in range(1, N + 1))]
QUERIES = np.random.default_rng(1).normal(size=(6, D)).astype(np.float32)


class World:
    """Items, a metric that can be moved, and a searcher."""

    def __init__(
        self, published: PublishedMetric, vote: Any = "experts", n: int = N, n_candidates: int = 12
    ) -> None:
        self.published, self.vote = published, vote
        self.vectors = FeatureStore(D, np.dtype(np.float32))
        self.vectors.add(list(range(1, N + 1)), [f"k{n}" for n in range(1, N + 1)], ROWS[1:].tobytes())
        self.searcher = QueryEngine(self.vectors, lambda: self.published, vote, n_candidates)
        self.there = list(range(1, n + 1))
        self.searcher.load(self.there, LABELS[1 : n + 1])

    def search(self, query: Any, k: int, **options: Any) -> Any:
        return self.searcher.search(query, k, lambda: self.published, **options)

    def keys(self, query: Any, k: int, **options: Any) -> list[int]:
        return [match.key for _, match, _ in self.search(query, k, **options).matches]

    def retriever(self, numbers: list[int] | None = None) -> Retriever:
        """Over all items, or some."""
        numbers = self.there if numbers is None else numbers
        made = Retriever(self.published.metric, self.vote)
        return made.add(numbers, ROWS[numbers]) if numbers else made


class Told:
    """What is known of a query."""

    def __init__(self, alike: list[int], unlike: list[int]) -> None:
        self._alike, self._unlike = alike, unlike

    def alike(self) -> list[int]:
        return self._alike

    def unlike(self, others: list[int]) -> set[int]:
        return set(others) & set(self._unlike)


@pytest.fixture(scope="module")
def world(trained: Callable[..., PublishedMetric]) -> Callable[..., World]:
    def make(learner: str = "Euclidean", n_learned: int = 60, **options: Any) -> World:
        return World(trained(learner, n_learned), **options)

    return make


@contextmanager
def going_on(*works: Callable[[], Any]) -> Iterator[None]:
    """Do some things again and again meanwhile, each in a thread."""
    stop = Event()

    def repeat(work: Callable[[], Any]) -> None:
        while not stop.is_set():
            work()

    threads = [Thread(target=repeat, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def in_order(metric: Any, query: Any, found: list[int], numbers: list[int]) -> bool:
    """Whether what was found is the best of some items, best first, up to ties."""
    score = {number: float(metric.score(query[None], ROWS[number][None])[0]) for number in numbers}
    best = sorted(score.values(), reverse=True)[: len(found)]
    return len(set(found)) == len(found) and bool(
        np.allclose([score[n] for n in found], best, rtol=1e-5, atol=1e-6)
    )


# -- a fresh catalogue -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", ["Euclidean", "Cosine", "OASIS", "LEGO"])
@pytest.mark.parametrize("k", [1, 5, 20])
def test_search_is_brute_force_by_score(world: Any, learner: str, k: int) -> None:
    one = world(learner)
    for query in QUERIES:
        found = one.keys(query, k)
        assert len(found) == k
        assert in_order(one.published.metric, query, found, one.there)


@pytest.mark.parametrize("learner", ["OAHU", "AnchoredOAHU"])
def test_a_joint_search_is_brute_force_by_score(world: Any, learner: str) -> None:
    one = world(learner, vote="joint")
    for query in QUERIES:
        assert in_order(one.published.metric, query, one.keys(query, 7), one.there)


@pytest.mark.parametrize("learner", KINDS)
@pytest.mark.parametrize("vote", ["experts", "joint"])
@pytest.mark.parametrize("k", [1, 6, 25])
def test_search_is_that_of_a_retriever_over_all(world: Any, learner: str, vote: str, k: int) -> None:
    one = world(learner, vote=vote)
    everything = one.retriever()
    for query in QUERIES:
        assert one.keys(query, k) == everything.search(query, k).keys


@pytest.mark.parametrize("learner", KINDS)
def test_search_for_an_item_leaves_it_out(world: Any, learner: str) -> None:
    one = world(learner)
    everything = one.retriever()
    for number in (1, 7, 33):
        found = one.keys(ROWS[number], 5, without=number)
        assert found == everything.search(ROWS[number], 5, exclude=number).keys


@pytest.mark.parametrize("learner", KINDS)
@pytest.mark.parametrize("trust", [True, False])
def test_of_what_nothing_is_known_all_is_as_the_metric_says(world: Any, learner: str, trust: bool) -> None:
    one = world(learner)
    everything = one.retriever()
    for number in range(1, 20):
        found = one.keys(ROWS[number], 5, without=number, known=Told([], []), trust=trust)
        assert found == everything.search(ROWS[number], 5, exclude=number).keys


@pytest.mark.parametrize("learner", KINDS)
def test_scores_and_similarities_are_those_of_the_metric(world: Any, learner: str) -> None:
    one = world(learner)
    found = one.search(QUERIES[0], 8)
    expected = one.retriever().search(QUERIES[0], 8)
    for (_, match, said), wanted in zip(found.matches, expected, strict=True):
        assert said is None
        assert match.similarity == pytest.approx(wanted.similarity, rel=1e-5, abs=1e-6)
        assert match.votes[0].score == pytest.approx(wanted.votes[0].score, rel=1e-4)
        exact = one.published.metric.score(QUERIES[0][None], ROWS[match.key][None])[0]
        assert match.similarity == pytest.approx(exact, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("label", ["a", "b", "nobody's"])
@pytest.mark.parametrize("learner", ["Euclidean", "OAHU"])
def test_of_a_label_only_its_items_are_found(world: Any, learner: str, label: str) -> None:
    one = world(learner)
    members = [n for n in one.there if LABELS[n] == label]
    for query in QUERIES:
        found = one.keys(query, 6, label=label)
        assert found == (one.retriever(members).search(query, 6).keys if members else [])


def test_without_a_label_items_without_one_are_found_too(world: Any) -> None:
    found = world().keys(QUERIES[0], N)
    assert {LABELS[number] for number in found} == {None, "a", "b"}


def test_more_than_there_is_are_all(world: Any) -> None:
    one = world(n=9)
    assert sorted(one.keys(QUERIES[0], 1000)) == one.there
    assert sorted(one.keys(QUERIES[0], 1000, label="a")) == [1, 5, 9]


def test_an_empty_catalogue_answers_with_nothing(world: Any) -> None:
    one = world(n=0)
    assert one.search(QUERIES[0], 5).matches == ()
    assert one.search(QUERIES[0], 5, label="a").matches == ()
    assert one.search(QUERIES[0], 5, known=Told([1], [2])).matches == ()
    classified = one.searcher.classify(QUERIES[0], 5, lambda: one.published, None)
    assert classified.labels == ()


def test_a_catalogue_of_one_finds_nothing_but_itself(world: Any) -> None:
    one = world(n=1)
    assert one.keys(ROWS[1], 5, without=1) == []
    assert one.keys(QUERIES[0], 5) == [1]


# -- what is known ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", ["Euclidean", "OAHU"])
@pytest.mark.parametrize("label", [None, "b"])
@pytest.mark.parametrize("k", [4, 9, N])
def test_what_is_known_alike_comes_first_and_unlike_last(
    world: Any, learner: str, label: str | None, k: int
) -> None:
    one = world(learner)
    far = one.retriever().search(ROWS[1], N, exclude=1).keys[::-1]
    members = [n for n in one.there if n != 1 and label in (None, LABELS[n])]
    groups = {
        "alike": [n for n in members if n in far[:6]],
        None: [n for n in members if n not in far[:6] + far[-6:]],
        "unlike": [n for n in members if n in far[-6:]],
    }
    expected: list[Any] = []
    for said, group in groups.items():
        if len(expected) < k and group:
            expected += [(n, said) for n in one.retriever(group).search(ROWS[1], k - len(expected)).keys]
    matches = one.search(ROWS[1], k, label=label, without=1, known=Told(far[:6], far[-6:])).matches
    assert [(match.key, said) for _, match, said in matches] == expected


def test_what_is_known_alike_is_found_however_far_it_is(world: Any) -> None:
    one = world()
    farthest = one.retriever().search(ROWS[1], N, exclude=1).keys[-1]
    (_, first, said), *_ = one.search(ROWS[1], 3, without=1, known=Told([farthest], [])).matches
    assert (first.key, said) == (farthest, "alike")


@pytest.mark.parametrize("learner", ["Euclidean", "OAHU"])
def test_what_is_not_known_unlike_is_found_however_much_is(world: Any, learner: str) -> None:
    one = world(learner)
    unlike = one.retriever().search(ROWS[1], N, exclude=1).keys[:60]  # many more than there are candidates
    matches = one.search(ROWS[1], 5, without=1, known=Told([], unlike)).matches
    assert [said for *_, said in matches] == [None] * 5


def test_behind_what_is_known_unlike_the_nearest_others_are_found(world: Any) -> None:
    one = world()
    unlike = one.retriever().search(ROWS[1], N, exclude=1).keys[:60]
    others = [n for n in one.there if n != 1 and n not in unlike]
    found = one.keys(ROWS[1], 5, without=1, known=Told([], unlike))
    assert found == one.retriever(others).search(ROWS[1], 5).keys


def test_of_many_that_are_known_alike_the_nearest_come_first(world: Any) -> None:
    one = world()
    alike = list(range(2, 62))
    matches = one.search(ROWS[1], 7, without=1, known=Told(alike, [])).matches
    assert [match.key for _, match, _ in matches] == one.retriever(alike).search(ROWS[1], 7).keys
    assert {said for *_, said in matches} == {"alike"}


def test_without_trust_what_is_known_is_told_and_changes_nothing(world: Any) -> None:
    one = world()
    order = one.retriever().search(ROWS[1], 10, exclude=1).keys
    matches = one.search(ROWS[1], 10, without=1, known=Told(order[5:7], order[:2]), trust=False).matches
    assert [match.key for _, match, _ in matches] == order
    assert [said for *_, said in matches] == ["unlike"] * 2 + [None] * 3 + ["alike"] * 2 + [None] * 3


def test_what_is_known_of_items_that_are_gone_is_of_no_use(world: Any) -> None:
    one = world(n=20)
    matches = one.search(ROWS[1], 30, without=1, known=Told([50, 3], [60, 4])).matches
    assert matches[0][1].key == 3
    assert matches[-1][1].key == 4
    assert len(matches) == 19


# -- a metric that moves ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", ["OASIS", "OAHU", "AnchoredOAHU"])
def test_before_a_refresh_old_candidates_are_ranked_by_the_live_metric(
    world: Any, trained: Any, learner: str
) -> None:
    one = world(learner, 5)
    old = one.published
    one.published = live = trained(learner, 400)
    for query in QUERIES:
        candidates = CatalogueIndex.of(old, "experts", one.vectors.table, one.there, LABELS[1:])
        numbers = sorted(candidates.candidates(query[None], 12, candidates.gallery, None).tolist())
        found = one.search(query, 5)
        assert (found.published, found.candidates) == (live, old)
        assert [match.key for _, match, _ in found.matches] == one.retriever(numbers).search(query, 5).keys


@pytest.mark.parametrize("ask", ["search", "classify"])
def test_candidates_are_there_before_the_live_metric_is_waited_for(
    world: Any, ask: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, order = world("OASIS", 5), []
    find = CatalogueIndex.candidates

    def candidates(*given: Any) -> Any:
        order.append("candidates")
        return find(*given)

    def live() -> Any:
        order.append("live")
        return one.published

    monkeypatch.setattr(CatalogueIndex, "candidates", candidates)
    if ask == "search":
        one.searcher.search(QUERIES[0], 5, live)
    else:
        one.searcher.classify(QUERIES[0], 5, live, None)
    assert order == ["candidates", "live"]


def test_what_can_wait_waits_until_nobody_is_being_answered(world: Any) -> None:
    searcher = world("OASIS", 5).searcher
    waiting, over = Event(), Event()

    def wait() -> None:
        waiting.set()
        searcher.asking.wait_until_over(PATIENCE)
        over.set()

    with searcher.answering():
        with searcher.answering():
            searcher.asking.wait_until_over(0.01)  # or until time runs out
            thread = Thread(target=wait)
            thread.start()
            assert waiting.wait(PATIENCE)
        assert not over.wait(0.05)
    assert over.wait(PATIENCE)
    thread.join()
    searcher.asking.wait_until_over(PATIENCE)


def test_an_answer_takes_one_thread_unless_there_is_much_to_read(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    searcher, before = world("OASIS", 5).searcher, numba.get_num_threads()
    with searcher.answering():
        assert numba.get_num_threads() == 1
    monkeypatch.setattr(query_engine, "_BY_ONE", 1)
    with searcher.answering():
        assert numba.get_num_threads() == before
    assert numba.get_num_threads() == before


@pytest.mark.parametrize("learner", ["OASIS", "OAHU"])
def test_after_a_refresh_candidates_are_those_of_the_live_metric(world: Any, trained: Any, learner: str) -> None:
    one = world(learner, 5)
    one.published = trained(learner, 400)
    assert one.searcher.is_stale
    one.searcher.refresh()
    assert not one.searcher.is_stale
    assert one.search(QUERIES[0], 1).candidates is one.published
    everything = one.retriever()
    for query in QUERIES:
        assert one.keys(query, 6) == everything.search(query, 6).keys


def test_an_answer_is_by_the_metric_that_was_asked_for(world: Any, trained: Any) -> None:
    one, asked = world("OASIS", 5), trained("OASIS", 50)
    one.published = trained("OASIS", 400)
    found = one.searcher.search(QUERIES[0], 5, lambda: asked)
    assert found.published is asked
    for _, match, _ in found.matches:
        exact = asked.metric.score(QUERIES[0][None], ROWS[match.key][None])[0]
        assert match.similarity == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize("learner", ["OASIS", "OAHU"])
def test_no_ranking_is_ever_of_two_metrics(world: Any, trained: Any, learner: str) -> None:
    one = world(learner, 3)
    metrics = [trained(learner, n) for n in (3, 30, 90, 270)]
    answers: list[Any] = []
    queries, answered = cycle(QUERIES), Semaphore(0)

    def search() -> None:
        query = next(queries)
        answers.append((query, one.search(query, 6)))
        answered.release()

    with going_on(search, search, one.searcher.refresh):
        for turn in range(60):
            one.published = metrics[turn % len(metrics)]
            for _ in range(4):
                assert answered.acquire(timeout=60)
    assert {answer.published.version for _, answer in answers} == {3, 30, 90, 270}
    assert len({answer.candidates.version for _, answer in answers}) > 1
    for query, answer in answers:
        numbers = [match.key for _, match, _ in answer.matches]
        exact = answer.published.metric.score(np.repeat(query[None], len(numbers), axis=0), ROWS[numbers])
        np.testing.assert_allclose(
            [match.similarity for _, match, _ in answer.matches], exact, rtol=1e-4, atol=1e-6
        )
        assert len(numbers) == 6


# -- items that change -----------------------------------------------------------------------------------------


def added(*numbers: int) -> CatalogueChange:
    return CatalogueChange(added=[(n, f"k{n}", LABELS[n], b"") for n in numbers])


def test_an_item_that_was_added_is_found_at_once(world: Any) -> None:
    one = world(n=30)
    one.searcher.change(added(50))
    assert one.keys(ROWS[50], 1) == [50]
    assert 50 in one.keys(ROWS[50], 5, label=LABELS[50])


def test_an_item_that_was_removed_is_never_found(world: Any) -> None:
    one = world(n=30)
    one.searcher.change(CatalogueChange(removed=[7]))
    assert 7 not in one.keys(ROWS[7], 100)
    assert 7 not in one.keys(ROWS[7], 100, label=LABELS[7])
    assert 7 not in one.keys(ROWS[1], 100, known=Told([7], []))


def test_a_label_that_was_changed_counts_at_once(world: Any) -> None:
    one = world(n=30)
    assert LABELS[5] == "a"
    one.searcher.change(CatalogueChange(labelled=[(5, "b"), (6, None)]))
    assert 5 in one.keys(QUERIES[0], 100, label="b")
    assert 5 not in one.keys(QUERIES[0], 100, label="a")
    assert 6 not in one.keys(QUERIES[0], 100, label="b")


def test_changes_count_in_their_order(world: Any) -> None:
    one = world(n=10)
    for change in (added(40), CatalogueChange(removed=[40]), added(41), CatalogueChange(labelled=[(41, "x")])):
        one.searcher.change(change)
    assert one.keys(QUERIES[0], 100, label="x") == [41]
    assert 40 not in one.keys(QUERIES[0], 100)


def test_what_changes_during_a_refresh_is_not_lost(
    world: Any, trained: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = world("OASIS", 5, n=30)
    one.published = trained("OASIS", 50)
    embed = CatalogueIndex.of

    def slowly(*given: Any) -> CatalogueIndex:
        made = embed(*given)
        one.searcher.change(CatalogueChange([(70, "k70", "new", b"")], [(2, "other")], [3]))
        assert 70 in one.keys(QUERIES[0], 100)  # takes it in, into the old one
        one.searcher.change(added(71))  # which nobody has taken in yet
        return made

    monkeypatch.setattr(query_engine.CatalogueIndex, "of", slowly)
    one.searcher.refresh()
    numbers = one.keys(QUERIES[0], 100)
    assert set(numbers) == (set(range(1, 31)) - {3}) | {70, 71}
    assert one.keys(QUERIES[0], 100, label="new") == [70]
    assert one.keys(QUERIES[0], 100, label="other") == [2]
    assert not one.searcher.is_stale


def test_a_refresh_that_fails_leaves_the_catalogue_and_changes_go_on(
    world: Any, trained: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = world("OASIS", 5, n=10)

    def broken(*_: Any) -> CatalogueIndex:
        raise ZeroDivisionError

    monkeypatch.setattr(query_engine.CatalogueIndex, "of", broken)
    with pytest.raises(ZeroDivisionError):
        one.searcher.refresh()
    monkeypatch.undo()
    one.searcher.change(added(40))
    assert len(one.keys(QUERIES[0], 100)) == 11
    one.published = trained("OASIS", 50)
    one.searcher.refresh()
    assert len(one.keys(QUERIES[0], 100)) == 11


def test_items_that_come_and_go_while_all_is_going_on_are_all_right_in_the_end(world: Any, trained: Any) -> None:
    one = world("OASIS", 5, n=40)
    metrics = [trained("OASIS", n) for n in (5, 50)]
    wrong: list[set[int]] = []

    def refresh() -> None:
        one.published = metrics[one.published is metrics[0]]
        one.searcher.refresh()

    def search() -> None:
        missing = set(range(1, 41)) - set(one.keys(QUERIES[0], 100))
        wrong.extend([missing] if missing else [])

    there = set(range(1, 41))
    with going_on(refresh, search):
        for turn in range(150):
            number = 41 + turn % 40
            one.searcher.change(CatalogueChange(removed=[number]) if number in there else added(number))
            there ^= {number}
            assert (number in one.keys(ROWS[number], 100)) == (number in there)
    assert not wrong
    assert set(one.keys(QUERIES[0], 100)) == there


# -- classifying -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", KINDS)
@pytest.mark.parametrize("k", [1, 5, 1000])
def test_classify_is_that_of_a_classifier_over_all_that_are_labelled(world: Any, learner: str, k: int) -> None:
    one = world(learner)
    labelled = [n for n in one.there if LABELS[n] is not None]
    everything = Classifier(one.published.metric, k=k, vote=one.vote).fit(
        ROWS[labelled], [LABELS[n] for n in labelled]
    )
    for query in QUERIES:
        found = one.searcher.classify(query, k, lambda: one.published, None)
        shares = dict(zip(everything.classes_.tolist(), everything.predict_proba(query[None])[0], strict=True))
        assert dict(found.labels) == pytest.approx({label: share for label, share in shares.items() if share > 0})
        assert found.labels[0][0] == everything.predict(query[None])[0]
        assert found.familiarity == pytest.approx(everything.familiarity(query[None])[0], rel=1e-4)


def test_an_item_has_no_vote_about_itself(world: Any) -> None:
    one = world()
    one.searcher.change(CatalogueChange(labelled=[(9, "alone")]))
    with_itself = one.searcher.classify(ROWS[9], 1, lambda: one.published, None)
    without = one.searcher.classify(ROWS[9], 1, lambda: one.published, 9)
    assert with_itself.labels == (("alone", 1.0),)
    assert "alone" not in dict(without.labels)


def test_where_nothing_is_labelled_nothing_is_answered(world: Any) -> None:
    one = world(n=10)
    one.searcher.change(CatalogueChange(labelled=[(n, None) for n in range(1, 11)]))
    found = one.searcher.classify(QUERIES[0], 5, lambda: one.published, None)
    assert found.labels == ()


def test_classify_names_the_metrics_that_it_went_by(world: Any, trained: Any) -> None:
    one = world("OASIS", 5)
    old, one.published = one.published, trained("OASIS", 50)
    found = one.searcher.classify(QUERIES[0], 5, lambda: one.published, None)
    assert (found.published, found.candidates) == (one.published, old)


# -- comparing -------------------------------------------------------------------------------------------------

PAIRS = tuple((int(a), int(b), bool(a % 2 == b % 2)) for a, b in np.random.default_rng(2).integers(1, N, (40, 2)))


@pytest.mark.parametrize("learner", ["Cosine", "OAHU", "AnchoredOAHU"])
def test_compare_is_that_of_a_comparator(world: Any, learner: str) -> None:
    one = world(learner)
    comparator = Comparator(one.published.metric)
    for query in QUERIES[1:]:
        found = one.searcher.compare(QUERIES[0], query, one.published)
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
def test_thresholds_are_chosen_anew_for_every_metric(
    world: Any, trained: Any, learner: str, target: dict[str, Any]
) -> None:
    one = world(learner, 5)
    one.searcher.calibration = Calibration(PAIRS, target, 0)
    for n in (5, 200):
        one.published = trained(learner, n)
        expected = Comparator(one.published.metric).calibrate(
            ROWS[[pair[:2] for pair in PAIRS]], [pair[2] for pair in PAIRS], **target
        )
        found = one.searcher.compare(QUERIES[0], QUERIES[1], one.published)
        assert (found.yes_below, found.no_from, found.calibrated) == (*expected.thresholds, True)
        compared = expected.compare(QUERIES[0], QUERIES[1])
        assert (found.answer, found.probability) == (compared.answer, compared.probability)


def test_another_calibration_counts_at_once(world: Any) -> None:
    one = world()
    seen = set()
    for target in ("f1", "accuracy", "eer"):
        for some in (PAIRS[:20], PAIRS[20:]):
            one.searcher.calibration = Calibration(some, {"target": target}, 0)
            expected = Comparator(one.published.metric).calibrate(
                ROWS[[pair[:2] for pair in some]], [pair[2] for pair in some], target=target
            )
            found = one.searcher.compare(QUERIES[0], QUERIES[1], one.published)
            assert found.yes_below == expected.yes_below_
            seen.add(found.yes_below)
    assert len(seen) > 1


def test_an_older_metric_is_not_answered_by_the_thresholds_of_a_newer(world: Any, trained: Any) -> None:
    one = world("OASIS", 5)
    one.searcher.calibration = Calibration(PAIRS, {"target": "f1"}, 0)
    old, new = one.published, trained("OASIS", 300)
    before = one.searcher.compare(QUERIES[0], QUERIES[1], old)
    one.searcher.compare(QUERIES[0], QUERIES[1], new)
    assert one.searcher.compare(QUERIES[0], QUERIES[1], old) == before
