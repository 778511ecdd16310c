"""The model is the log, learned in order: bit for bit what a few lines of plain Python make of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oahu.learners
from oahu import LEARNERS
from oahu.constraints import ConstraintGraph, Pair, Triplet
from oahu.exceptions import OverflowedItemError, RejectedConstraintError
from oahu.io import model_files
from oahu.learners.kinds import PairLearner
from oahu.service import learner_loop
from oahu.service.errors import InvalidRequestError, LearnerFailedError
from oahu.service.learner_loop import _spread, new_learner
from oahu.service.records import Click, CollectionConfig, ModelReplacement, Undo
from oahu.service.settings import Settings

PATIENCE = 120.0
DIMENSION = 5
N_ITEMS = 24


# -- the oracle ------------------------------------------------------------------------------------------------


def constraints_in(change: Any) -> list[Any]:
    """What a piece of feedback says: a click names every positive and every negative once, in turn."""
    if not isinstance(change, Click):
        return [change]
    query, likes, unlikes = change
    if not likes or not unlikes:
        return [Pair(query, other, bool(likes)) for other in likes + unlikes]
    longer = max(len(likes), len(unlikes))
    turns = [(likes * longer)[:longer], (unlikes * longer)[:longer]]
    return [Triplet(query, like, unlike) for like, unlike in zip(*turns, strict=True)]


def replayed(config: CollectionConfig, log: list[Any], rows: Any, models: dict[int, bytes]) -> tuple[Any, int]:
    """A log, learned one by one in order, and how much was refused; a place is a sequence number, from 1."""
    kind = getattr(oahu.learners, config.learner)
    learner = kind(**{"random_state": 0, **config.parameters}).initialize(config.dimension)
    graph = ConstraintGraph("newest" if config.contradictions == "newest" else "raise")
    undone = {seq for one in log if isinstance(one, Undo) for seq in range(one.first, one.last + 1)}
    n_refused = 0
    for seq, change in enumerate(log, 1):
        if isinstance(change, ModelReplacement):
            learner = model_files.from_bytes(models[seq], "model")
        elif not isinstance(change, Undo) and seq not in undone:
            rng = np.random.default_rng(seq)
            for constraint in constraints_in(change):
                graph.add(constraint)
                for lesson in lessons(graph, constraint, config.closure, rng, isinstance(learner, PairLearner)):
                    n_refused += not taught(learner, lesson, rows)
    return learner, n_refused


def lessons(graph: ConstraintGraph, said: Any, closure: int, rng: Any, of_pairs: bool) -> Iterator[Any]:
    """A constraint, and some that follow from it; or what triplets a pair completes."""
    if of_pairs:
        for pair in said.pairs if isinstance(said, Triplet) else [said]:
            yield pair
            yield from graph.variants(pair, closure, rng)
    elif isinstance(said, Triplet):
        yield said
        yield from graph.variants(said, closure, rng)
    else:
        yield from graph.completions(said, closure + 1, rng)


def taught(learner: Any, lesson: Any, rows: Any) -> bool:
    """Whether one constraint was learned, and not refused."""
    try:
        if isinstance(lesson, Pair):
            learner.partial_fit(rows[[lesson[:2]]], [lesson.same])
        else:
            learner.partial_fit(rows[[lesson]])
    except (RejectedConstraintError, OverflowedItemError):
        return False
    return True


def oracle(one: Any) -> bytes:
    """What the log of a lab makes, as a file."""
    return model_files.to_bytes(replayed(one.config, one.log, one.rows, one.models)[0])


@pytest.fixture
def small_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a turn of the loop be short, so that there are many."""
    monkeypatch.setattr(learner_loop, "_AT_ONCE", 3)
    monkeypatch.setattr(learner_loop, "_CATCHING_UP", 7)


# -- the model is the log --------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", LEARNERS)
def test_the_model_is_the_log_learned_one_by_one(lab: Any, learner: str) -> None:
    one = lab(learner, closure=3)
    one.say(*one.pieces(30))
    assert one.model() == oracle(one)


def other_model(config: CollectionConfig, seed: int = 9) -> bytes:
    learner = new_learner(config)
    rows = np.random.default_rng(seed).normal(size=(7, 3, config.dimension)).astype(np.float32)
    return model_files.to_bytes(learner.partial_fit(rows))


def happen(one: Any, rng: Any) -> None:
    """Something, by chance."""
    what = rng.integers(6)
    if what == 0 and one.log:
        first = int(rng.integers(1, len(one.log) + 1))
        one.say(*[Undo(first, first)] * (not isinstance(one.log[first - 1], Undo | ModelReplacement)))
    elif what == 1 and rng.random() < 0.5:
        one.say(ModelReplacement("x"), model=other_model(one.config))
    elif what == 2:
        one.restart(kill=bool(rng.random() < 0.5))
    elif what == 3:
        one.learn()
    else:
        one.say(*one.pieces(int(rng.integers(1, 10)), int(rng.integers(1000))))


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.usefixtures("small_turns")
def test_the_model_is_the_log_whatever_happens_on_the_way(lab: Any, learner: str, seed: int) -> None:
    rng = np.random.default_rng([seed, LEARNERS.index(learner)])
    one = lab(learner, closure=seed, options={"snapshot_every": 9, "keep_snapshots": 4})
    for _ in range(15):
        happen(one, rng)
    assert one.model() == oracle(one)


@pytest.mark.parametrize("learner", ["OASIS", "LEGO", "AnchoredOAHU"])
@pytest.mark.parametrize("closure", [0, 1, 5])
def test_what_follows_is_learned_as_far_as_was_asked_for(lab: Any, learner: str, closure: int) -> None:
    one = lab(learner, closure=closure)
    one.say(*one.pieces(40, closure))
    assert one.model() == oracle(one)


def test_more_is_learned_if_more_may_follow(lab: Any) -> None:
    seen = []
    for closure in (0, 1, 5):
        one = lab(name=f"things {closure}", closure=closure)
        one.say(*one.pieces(20))
        seen.append(one.learn().constraints)
        one.store.close()
    assert seen[0] < seen[1] < seen[2]


@pytest.mark.parametrize("learner", ["OASIS", "LEGO"])
def test_the_newest_is_believed_by_the_learner_too(lab: Any, learner: str) -> None:
    one = lab(learner, closure=4, contradictions="newest")
    rng = np.random.default_rng(3)
    for _ in range(40):  # true of nothing
        a, b, c = (1 + rng.permutation(8)[:3]).tolist()
        one.say(Pair(a, b, bool(rng.integers(2))) if rng.integers(2) else Triplet(a, b, c))
    one.learn()
    one.restart()
    one.say(Undo(5, 9), *one.pieces(5))
    assert one.model() == oracle(one)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_learner_learns_in_its_own_numbers(lab: Any, dtype: str) -> None:
    one = lab("OASIS", parameters={"dtype": dtype})
    one.say(*one.pieces(20))
    assert one.model() == oracle(one)


def test_a_pair_that_completes_nothing_teaches_a_learner_of_triplets_nothing(lab: Any) -> None:
    one = lab("OASIS")
    one.say(Pair(1, 4, True), Pair(2, 5, True))
    assert one.learn().constraints == 0
    one.say(Pair(1, 2, False))
    assert one.learn().constraints > 0
    assert one.model() == oracle(one)


# -- undoing ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_turns")
@pytest.mark.parametrize("seed", range(4))
def test_undoing_in_any_order_is_the_log_without(lab: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    one = lab(closure=2, options={"snapshot_every": 8, "keep_snapshots": 5})
    one.say(*one.pieces(25, seed))
    one.learn()
    for first in (1 + rng.permutation(25)[:6]).tolist():
        one.say(Undo(first, first), *one.pieces(2, first))
        if rng.random() < 0.5:
            one.learn()
    assert one.model() == oracle(one)


def test_undoing_everything_leaves_a_learner_that_has_learned_nothing(lab: Any) -> None:
    one = lab()
    one.say(*one.pieces(10))
    one.learn()
    one.say(Undo(1, 10))
    assert one.model() == model_files.to_bytes(new_learner(one.config))
    assert one.loop.published.constraints == 0


def test_going_back_to_a_version_is_the_model_of_that_version(lab: Any) -> None:
    one = lab(options={"snapshot_every": 5})
    one.say(*one.pieces(12))
    before = one.model()
    one.say(*one.pieces(9, 1))
    assert one.model() != before
    one.say(Undo(13, 21))
    assert one.model() == before


def test_a_range_may_cover_what_was_undone_before(lab: Any) -> None:
    one = lab()
    one.say(*one.pieces(12))
    one.learn()
    one.say(Undo(4, 4), Undo(2, 6), *one.pieces(4, 2), Undo(1, 15))
    assert one.model() == oracle(one)


def test_what_is_said_and_undone_at_once_is_never_learned(lab: Any) -> None:
    one = lab()
    said = one.pieces(8)
    one.say(*said, Undo(3, 3), Undo(8, 8))
    assert one.model() == oracle(one)


# -- a model from a file ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_turns")
@pytest.mark.parametrize("learner", ["OASIS", "LEGO"])
def test_a_model_that_takes_over_is_learned_on_top_of(lab: Any, learner: str) -> None:
    one = lab(learner, closure=2)
    one.say(*one.pieces(9))
    one.learn()
    one.say(ModelReplacement("x"), model=other_model(one.config))
    one.say(*one.pieces(9, 1))
    assert one.model() == oracle(one)


def test_right_after_it_took_over_the_model_is_that_of_the_file(lab: Any) -> None:
    one = lab()
    one.say(*one.pieces(9))
    data = other_model(one.config)
    one.say(ModelReplacement("x"), model=data)
    assert one.model() == data


@pytest.mark.usefixtures("small_turns")
@pytest.mark.parametrize("first", [2, 9, 12, 17])
def test_undoing_before_and_after_a_model_took_over(lab: Any, first: int) -> None:
    one = lab(closure=2, options={"snapshot_every": 7})
    one.say(*one.pieces(9))
    one.say(ModelReplacement("x"), model=other_model(one.config))
    one.say(*one.pieces(9, 1))
    one.learn()
    one.say(Undo(first, first))
    assert one.model() == oracle(one)
    one.restart()
    assert one.model() == oracle(one)


@pytest.mark.parametrize("kill", [False, True])
def test_a_model_that_took_over_is_still_there_after_a_restart(lab: Any, kill: bool) -> None:
    one = lab()
    one.say(*one.pieces(5))
    one.say(ModelReplacement("x"), model=other_model(one.config))
    one.say(*one.pieces(5, 1))
    one.learn()
    one.restart(kill)
    assert one.model() == oracle(one)


def test_a_model_may_have_seen_less_or_more_than_the_log(lab: Any) -> None:
    one = lab(options={"snapshot_every": 3})
    for data in (model_files.to_bytes(new_learner(one.config)), other_model(one.config)):
        one.say(*one.pieces(6, len(one.log)))
        one.learn()
        one.say(ModelReplacement("x"), model=data)
        one.learn()
        one.restart()
    one.say(*one.pieces(3, 5))
    assert one.model() == oracle(one)


# -- what is refused -------------------------------------------------------------------------------------------


def mixed_rows() -> Any:
    """Items as large as the service lets in, among small ones."""
    rows = np.random.default_rng(2).normal(size=(N_ITEMS, DIMENSION))
    rows[::4] *= 1e9 / np.linalg.norm(rows[::4], axis=1, keepdims=True)
    return rows


@pytest.mark.parametrize("learner", LEARNERS)
def test_what_would_overflow_is_left_out_and_the_rest_is_learned(lab: Any, learner: str) -> None:
    one = lab(learner, rows=mixed_rows(), closure=2)
    one.say(*one.pieces(30))
    assert one.model() == oracle(one)


def test_what_was_left_out_is_counted(lab: Any) -> None:
    one = lab("LEGO", rows=mixed_rows(), closure=2)
    one.say(*one.pieces(30))
    one.learn()
    learner, n_refused = replayed(one.config, one.log, one.rows, {})
    assert n_refused > 0
    assert (one.loop.n_refused, one.loop.published.constraints) == (n_refused, learner.n_seen_)


# -- what is kept ----------------------------------------------------------------------------------------------


@pytest.fixture
def n_learned(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many constraints were learned by anyone but a thread that warms up, since the last call."""
    learned: list[int] = []
    teach = learner_loop._Student._teach

    def counted(self: Any, values: Any, same: Any) -> None:
        learned.append(len(values))
        teach(self, values, same)

    monkeypatch.setattr(learner_loop._Student, "_teach", counted)

    def since() -> int:
        total = sum(learned)
        learned.clear()
        return total

    return since


def test_a_restart_learns_nothing_again(lab: Any, n_learned: Callable[[], int]) -> None:
    one = lab()
    one.say(*one.pieces(20))
    before = one.model()
    assert n_learned() > 0
    one.restart()
    assert one.model() == before
    assert n_learned() == 0


def test_a_restart_after_an_undoing_learns_nothing_again(lab: Any, n_learned: Callable[[], int]) -> None:
    one = lab()
    one.say(*one.pieces(20))
    one.learn()
    one.say(Undo(3, 3))
    before = one.model()
    one.restart()
    n_learned()
    assert one.model() == before
    assert n_learned() == 0


def test_after_a_kill_only_what_came_after_the_last_snapshot_is_learned_again(
    lab: Any, n_learned: Callable[[], int]
) -> None:
    one = lab(options={"snapshot_every": 10}, closure=0)
    for seed in range(8):
        one.say(*one.pieces(4, seed))
        one.learn()
    all_of_it = n_learned()
    one.restart(kill=True)
    assert one.model() == oracle(one)
    assert n_learned() < all_of_it / 2


def test_snapshots_of_a_longer_log_that_was_here_before_are_dropped(lab: Any) -> None:
    one = lab()
    one.say(*one.pieces(20))
    one.learn()
    for seq in (500, 510, 520, 530):  # as if an older copy of the log had been put in place of it
        one.store.save_snapshot(one.id, seq, one.loop._student.learner, {})
    before = one.model()
    one.restart()
    assert max(one.store.snapshots(one.id)) == 20
    assert one.model() == before


def test_closing_without_news_keeps_no_other_snapshot(lab: Any) -> None:
    one = lab()
    one.say(*one.pieces(5))
    one.learn()
    one.restart()
    kept = one.store.snapshots(one.id)
    one.restart()
    assert one.store.snapshots(one.id) == kept == [5]


def test_undoing_drops_the_snapshots_that_had_learned_it(lab: Any) -> None:
    one = lab(options={"snapshot_every": 1, "keep_snapshots": 10}, closure=0)
    for seed in range(5):
        one.say(Triplet(1, 4, 2 + 3 * seed))
        one.learn()
    one.say(Undo(4, 4))
    one.learn()
    assert all(seq < 4 or seq == 6 for seq in one.store.snapshots(one.id))


def test_snapshots_that_were_kept_of_a_half_undone_log_are_not_trusted(lab: Any) -> None:
    one = lab()
    one.say(*one.pieces(10))
    one.learn()
    one.restart()  # keeps what has learned all ten
    one.say(Undo(4, 4))
    one.restart(kill=True)
    assert one.model() == oracle(one)


def test_a_disk_that_takes_no_snapshots_does_not_stop_the_learner(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = lab(options={"snapshot_every": 1})

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(one.store, "save_snapshot", full)
    one.say(*one.pieces(5))
    one.learn()
    one.say(*one.pieces(5, 1))
    assert one.model() == oracle(one)


# -- handing out -----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_turns")
def test_versions_that_are_handed_out_only_go_up(lab: Any) -> None:
    one = lab()
    one.say(*one.pieces(12))
    one.learn()
    one.say(Undo(2, 2), *one.pieces(6, 1))
    one.learn()
    versions = [published.version for published in one.published]
    assert versions == sorted(set(versions))
    assert versions[-1] == len(one.log)


@pytest.mark.usefixtures("small_turns")
def test_a_metric_that_is_handed_out_is_that_of_its_version(lab: Any) -> None:
    one = lab("OASIS")
    one.say(*one.pieces(14))
    one.learn()
    some = np.random.default_rng(0).normal(size=(4, DIMENSION)).astype(np.float32)
    for published in one.published:
        learner, _ = replayed(one.config, one.log[: published.version], one.rows, {})
        np.testing.assert_array_equal(
            published.metric.score(some[:2], some[2:]), learner.metric().score(some[:2], some[2:])
        )
        assert published.constraints == learner.n_seen_


def test_nobody_waits_for_what_was_learned(lab: Any) -> None:
    one = lab()
    one.say(*one.pieces(3))
    one.learn()
    assert one.loop.wait_for(2, PATIENCE) is one.loop.published


def test_waiting_ends_when_time_runs_out(lab: Any) -> None:
    one = lab()  # which was not started
    one.say(*one.pieces(3))
    one.loop.wake(3)
    assert one.loop.wait_for(3, 0.01).version == 0
    assert one.loop.wait_for(3, 0).version == 0


@pytest.mark.parametrize("timeout", [np.inf, 1e300])
def test_one_can_wait_as_long_as_it_takes(lab: Any, timeout: float) -> None:
    one = lab()
    one.say(*one.pieces(3))
    one.loop.start()
    one.loop.wake(3)
    assert one.loop.wait_for(3, timeout).version == 3


def learned(one: Any, seq: int) -> None:
    """Wait until that is learned, without wanting it."""
    until = time.monotonic() + PATIENCE
    while one.loop.published.version < seq:
        assert time.monotonic() < until
        time.sleep(0.005)


def test_a_few_pieces_wait_for_more_until_somebody_wants_them(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner_loop, "_LINGER", PATIENCE)
    one = lab()
    one.say(*one.pieces(3))
    one.loop.start()
    one.loop.wake(3)
    time.sleep(0.05)
    assert one.loop.published.version == 0
    one.loop.want(3)
    learned(one, 3)


def test_enough_pieces_do_not_wait_for_more(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner_loop, "_LINGER", PATIENCE)
    monkeypatch.setattr(learner_loop, "_ENOUGH", 5)
    one = lab()
    one.say(*one.pieces(5))
    one.loop.start()
    one.loop.wake(5)
    learned(one, 5)


def test_how_much_is_behind_is_told(lab: Any) -> None:
    one = lab()
    one.say(*one.pieces(7))
    one.loop.wake(7)
    assert one.loop.behind == 7
    one.learn()
    assert one.loop.behind == 0


def test_a_surprise_is_a_loss_of_one_and_a_known_thing_of_none(lab: Any) -> None:
    rows = np.array([[0.0] * 5, [1.0] * 5, [9.0] * 5])
    one = lab("Euclidean", rows=rows)
    one.say(Triplet(1, 2, 3))  # as near as Euclid says
    assert one.learn().loss == 0.0
    one.say(Undo(1, 1), Triplet(1, 3, 2))
    assert one.learn().loss == pytest.approx(0.02)


@pytest.mark.parametrize(("n", "n_asked"), [(3, 3), (16, 16), (17, 9), (40, 14)])
def test_the_loss_is_of_a_sample_from_first_to_last(
    lab: Any, n: int, n_asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(learner_loop._Student, "_ask", lambda _, metric, triplets: asked.append(triplets))
    one = lab("Euclidean", closure=0)
    said = [Triplet(1, 4, 2 + 3 * (at % 5)) for at in range(n)]
    one.say(*said)
    one.learn()
    assert [len(triplets) for triplets in asked] == [n_asked]
    step = -(-n // 16)
    wanted = one.rows[np.array([list(triplet) for triplet in said[::step]])]
    np.testing.assert_allclose(asked[0], wanted, rtol=1e-6)


def test_the_history_is_what_was_handed_out(lab: Any) -> None:
    one = lab("OAHU", closure=0)
    for seed in range(4):
        one.say(*one.pieces(3, seed))
        one.learn()
    one.restart()
    history = {moment.version: moment for moment in one.store.history(one.id)}
    for published in one.published:
        assert history[published.version] == published.moment


def test_the_history_forgets_what_was_undone(lab: Any) -> None:
    one = lab(closure=0)
    for seed in range(6):
        one.say(Triplet(1, 4, 2 + 3 * seed))
        one.learn()
    one.say(Undo(3, 3))
    one.learn()
    one.restart()
    assert [moment.version for moment in one.store.history(one.id)] == [1, 2, 7]


# -- stopping --------------------------------------------------------------------------------------------------


def test_a_loop_that_is_stopped_has_no_thread(lab: Any) -> None:
    one = lab()
    one.say(*one.pieces(3))
    one.learn()
    name = one.loop._thread.name
    one.loop.close()
    assert name not in [thread.name for thread in threading.enumerate()]


def test_a_loop_that_was_never_started_can_be_closed(lab: Any) -> None:
    one = lab()
    one.loop.close()
    assert one.store.snapshots(one.id) == []


def test_an_error_stops_the_loop_and_is_told(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    one = lab()
    one.say(*one.pieces(3))
    one.learn()

    def broken(*_: Any) -> None:
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr(learner_loop._Student, "_teach", broken)
    one.say(*one.pieces(3, 1))
    one.loop.wake(6)
    assert one.loop.wait_for(6, PATIENCE).version == 3  # and does not wait for what will not come
    with pytest.raises(LearnerFailedError, match="of all things"):
        one.loop.check()
    monkeypatch.undo()
    one.restart()
    assert one.model() == oracle(one)


# -- learners --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (CollectionConfig("a", 3, "Nobody"), "no learner 'Nobody'.*AnchoredOAHU"),
        (CollectionConfig("a", 3, "__init__"), "no learner"),
        (CollectionConfig("a", 3, "OASIS", {"speed": 3}), "no parameter 'speed'"),
        (CollectionConfig("a", 3, "OASIS", {"preprocessor": [[1]]}), "no parameter 'preprocessor'"),
        (CollectionConfig("a", 3, "OAHU", {"tau": 3.0}), "'tau'"),
        (CollectionConfig("a", 3, "OAHU", {"n_layers": "two"}), "'n_layers'"),
        (CollectionConfig("a", 3, "OAHU", {"n_layers": 1.5}), "'n_layers'"),
        (CollectionConfig("a", 3, "OASIS", {"dtype": "float16"}), "'dtype'"),
        (CollectionConfig("a", 3, "OASIS", {"dtype": ["float32"]}), "'dtype'"),
        (CollectionConfig("a", 3, "OASIS", {"random_state": None}), "'random_state'"),
        (CollectionConfig("a", 3, "OASIS", {"random_state": -1}), "'random_state'"),
        (CollectionConfig("a", 3, "OASIS", {"random_state": True}), "'random_state'"),
        (CollectionConfig("a", 3, "OASIS", {"random_state": {}}), "'random_state'"),
        (CollectionConfig("a", 0, "OASIS"), "n_features"),
        (CollectionConfig("a", -1, "OAHU"), "n_features"),
    ],
)
def test_a_learner_that_cannot_be_is_refused(config: CollectionConfig, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        new_learner(config)


@pytest.mark.parametrize("learner", [name for name in LEARNERS if name not in ("Euclidean", "Cosine")])
def test_a_model_that_takes_more_than_is_allowed_is_refused(learner: str) -> None:
    config = CollectionConfig("a", 400, learner)
    size = len(model_files.to_bytes(new_learner(config)))
    with pytest.raises(InvalidRequestError, match="MiB"):
        new_learner(config, size / 2.5)


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_model_for_many_features_is_allowed_by_default(learner: str) -> None:
    assert new_learner(CollectionConfig("a", 784, learner), Settings().max_model).n_features_in_ == 784


@pytest.mark.parametrize(
    "parameters", [{"hidden_size": 10**9}, {"n_layers": 10**9}, {"embedding_size": 10**12}, {"window": 10**12}]
)
def test_a_model_of_any_size_is_refused_at_once(parameters: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError):
        new_learner(CollectionConfig("a", 100, "AnchoredOAHU", parameters), 2**29)


# -- which snapshots to keep -----------------------------------------------------------------------------------

SEQS = st.lists(st.integers(1, 10**6), min_size=1, max_size=40, unique=True).map(lambda s: sorted(s, reverse=True))


@given(SEQS, st.integers(3, 15))
def test_of_snapshots_some_are_kept_with_the_newest_two_and_the_oldest(seqs: list[int], most: int) -> None:
    kept = _spread(seqs, most)
    assert len(kept) <= most
    assert kept == sorted(set(kept) & set(seqs), reverse=True)
    assert kept[:2] == seqs[:2]
    assert kept[-1] == seqs[-1]


@given(SEQS, st.integers(3, 15))
def test_no_snapshot_is_dropped_while_there_is_room(seqs: list[int], most: int) -> None:
    assert len(_spread(seqs, most)) == min(most, len(seqs))


@pytest.mark.parametrize("n", [50, 400, 2000])
def test_snapshots_stay_spread_as_the_log_grows(n: int) -> None:
    kept: list[int] = []
    for at in range(1, n + 1):
        kept = _spread([at, *kept], 12)
    # Whatever is undone, there is a snapshot before it that is not much further back.
    for undone in range(2, n):
        below = max(seq for seq in kept if seq < undone)
        assert n - below <= 6 * (n - undone + 1)
