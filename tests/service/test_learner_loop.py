"""The learner loop gives bit for bit the same model as a short loop in plain Python on the same log."""

from __future__ import annotations

import threading
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
from oahu.learners.kinds import ClickLearner, PairLearner
from oahu.service import learner_loop
from oahu.service.errors import InvalidRequestError, LearnerFailedError
from oahu.service.learner_factory import new_learner
from oahu.service.learner_loop import _select_snapshots
from oahu.service.records import (
    Click,
    CollectionConfig,
    Feedback,
    ModelReplacement,
    SettingsChange,
    SourceWeight,
    Undo,
)
from oahu.service.settings import Settings

TIMEOUT = 600.0  # seconds; only a real hang exceeds it
DIMENSION = 5
N_ITEMS = 24


# -- the oracle ------------------------------------------------------------------------------------------------


def constraints_in(change: Any) -> list[Any]:
    """Return the constraints of a change. The shorter list of a click is repeated."""
    if not isinstance(change, Click):
        return [change]
    query, positive, negative, _ = change
    if not positive or not negative:
        return [Pair(query, other, bool(positive)) for other in positive + negative]
    longer = max(len(positive), len(negative))
    repeated = [(positive * longer)[:longer], (negative * longer)[:longer]]
    return [Triplet(query, *others) for others in zip(*repeated, strict=True)]


def replay(config: CollectionConfig, log: list[Any], rows: Any, models: dict[int, bytes]) -> tuple[Any, int]:
    """Learn a log one constraint at a time. Return the learner and the number of rejected constraints."""
    learner_class = getattr(oahu.learners, config.learner)
    learner = learner_class(**{"random_state": 0, **config.parameters}).initialize(config.dimension)
    graph = ConstraintGraph("newest" if config.contradictions == "newest" else "raise")
    undone = {seq for undo in log if isinstance(undo, Undo) for seq in range(undo.first, undo.last + 1)}
    n_rejected = 0
    factors = {seq: change for seq, change in enumerate(log, 1) if isinstance(change, SourceWeight)}
    for seq, entry in enumerate(log, 1):
        change, weight, source, _ = Feedback.of(entry)
        later = [factor.weight for at, factor in factors.items() if at > seq and factor.source == source]
        weight *= later[-1] if later else 1.0
        if isinstance(change, ModelReplacement):
            learner = model_files.from_bytes(models[seq], "model")
        elif not isinstance(change, Undo | SourceWeight | SettingsChange) and seq not in undone and weight:
            rng = np.random.default_rng(seq)
            if isinstance(learner, ClickLearner):
                n_rejected += not train_on(learner, change, rows, weight)
            for constraint in constraints_in(change):
                graph.add(constraint)
                for example in examples_of(graph, constraint, config.closure, rng, learner):
                    n_rejected += not train_on(learner, example, rows, weight)
    return learner, n_rejected


def examples_of(graph: ConstraintGraph, constraint: Any, closure: int, rng: Any, learner: Any) -> Iterator[Any]:
    """Yield the training examples of a constraint: itself and implied constraints.

    For a triplet learner, the examples of a pair are the triplets that it completes. A learner of clicks learns the
    whole change before, as one click.
    """
    if isinstance(learner, ClickLearner):
        yield from graph.variants(constraint, closure, rng)
    elif isinstance(learner, PairLearner):
        for pair in constraint.pairs if isinstance(constraint, Triplet) else [constraint]:
            yield pair
            yield from graph.variants(pair, closure, rng)
    elif isinstance(constraint, Triplet):
        yield constraint
        yield from graph.variants(constraint, closure, rng)
    else:
        yield from graph.completions(constraint, closure + 1, rng)


def train_on(learner: Any, example: Any, rows: Any, weight: float = 1.0) -> bool:
    """Train on one constraint. Return whether the learner accepted it."""
    if isinstance(learner, ClickLearner) and not isinstance(example, Click):
        parts = (example[1:2], example[2:]) if isinstance(example, Triplet) else ((), ())
        if isinstance(example, Pair):
            parts = ((example.second,), ()) if example.same else ((), (example.second,))
        example = Click(example[0], *parts)
    try:
        if isinstance(example, Click):
            click = oahu.Click(rows[example[0]], *(rows[list(part)] for part in example[1:]), weight)
            learner.partial_fit([click])
        elif isinstance(example, Pair):
            learner.partial_fit(rows[[example[:2]]], [example.same])
        else:
            learner.partial_fit(rows[[example]])
    except (RejectedConstraintError, OverflowedItemError):
        return False
    return True


def oracle(harness: Any) -> bytes:
    """Return the expected model file for the log of a harness."""
    return model_files.to_bytes(replay(harness.config, harness.log, harness.rows, harness.models)[0])


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the loop learn in many small batches."""
    monkeypatch.setattr(learner_loop, "_BATCH", 3)
    monkeypatch.setattr(learner_loop, "_LARGE_BATCH", 7)


# -- the model depends only on the log ----------------------------------------------------------------------------


def other_model(config: CollectionConfig, seed: int = 9) -> bytes:
    learner = new_learner(config)
    rows = np.random.default_rng(seed).normal(size=(7, 3, config.dimension)).astype(np.float32)
    return model_files.to_bytes(learner.partial_fit(rows))


SETTINGS_CHANGES: list[dict[str, Any]] = [
    {"closure": 0},
    {"closure": 2},
    {"closure": 3},
    {"parameters": {"random_state": 1}},
    {"contradictions": "refuse"},
    {"contradictions": "ignore"},
]


def apply_random_step(harness: Any, rng: Any) -> None:
    """Append feedback, undo, change a weight or a setting, replace the model, restart, or learn."""
    step = rng.integers(8)
    if step == 7:
        harness.change_settings(**SETTINGS_CHANGES[rng.integers(len(SETTINGS_CHANGES))])
    elif step == 6:
        sources = [entry.source for entry in harness.log if isinstance(entry, Feedback) and entry.source]
        if sources:
            weight = float(rng.choice([0, 0.5, 1] if issubclass(learner_of(harness), ClickLearner) else [0, 1]))
            harness.weigh_source(str(rng.choice(sources)), weight)
    elif step == 0 and harness.log:
        first = int(rng.integers(1, len(harness.log) + 1))
        no_feedback = isinstance(harness.log[first - 1], Undo | ModelReplacement | SourceWeight | SettingsChange)
        harness.append(*[Undo(first, first)] * (not no_feedback))
    elif step == 1 and rng.random() < 0.5:
        harness.append(ModelReplacement("x"), model=other_model(harness.config))
    elif step == 2:
        harness.restart(kill=bool(rng.random() < 0.5))
    elif step == 3:
        harness.learn()
    else:
        records = harness.records(int(rng.integers(1, 10)), int(rng.integers(1000)))
        weights = [0.3, 1] if issubclass(learner_of(harness), ClickLearner) else [1]
        sources = [None, "ann", "bob"]
        harness.append(*(Feedback(one, float(rng.choice(weights)), rng.choice(sources)) for one in records))


def learner_of(harness: Any) -> Any:
    return getattr(oahu.learners, harness.config.learner)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learner", "seed"),
    [
        *((learner, 3 - at % 4) for at, learner in enumerate(LEARNERS)),
        *((learner, seed) for learner in ("OASIS", "LEGO", "AnchoredOAHU") for seed in (4, 5)),
    ],
)
@pytest.mark.usefixtures("small_batches")
def test_the_model_depends_only_on_the_log(make_harness: Any, learner: str, seed: int) -> None:
    rng = np.random.default_rng([seed, LEARNERS.index(learner)])
    harness = make_harness(learner, closure=seed % 4, options={"snapshot_every": 9, "keep_snapshots": 4})
    for _ in range(15):
        apply_random_step(harness, rng)
    assert harness.model() == oracle(harness)


@pytest.mark.parametrize("learner", ["OASIS", "LEGO", "AnchoredOAHU"])
@pytest.mark.parametrize("closure", [0, 1, 5])
def test_the_closure_setting_limits_the_implied_constraints(make_harness: Any, learner: str, closure: int) -> None:
    harness = make_harness(learner, closure=closure)
    harness.append(*harness.records(40, closure))
    assert harness.model() == oracle(harness)


def test_a_larger_closure_learns_more_constraints(make_harness: Any) -> None:
    seen = []
    for closure in (0, 1, 5):
        harness = make_harness(name=f"things {closure}", closure=closure)
        harness.append(*harness.records(20))
        seen.append(harness.learn().constraints)
        harness.store.close()
    assert seen[0] < seen[1] < seen[2]


@pytest.mark.parametrize("learner", ["OASIS", "LEGO"])
def test_the_learner_follows_the_newest_feedback(make_harness: Any, learner: str) -> None:
    harness = make_harness(learner, closure=4, contradictions="newest")
    rng = np.random.default_rng(3)
    for _ in range(40):  # contradictory feedback
        a, b, c = (1 + rng.permutation(8)[:3]).tolist()
        harness.append(Pair(a, b, bool(rng.integers(2))) if rng.integers(2) else Triplet(a, b, c))
    harness.learn()
    harness.restart()
    harness.append(Undo(5, 9), *harness.records(5))
    assert harness.model() == oracle(harness)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_learner_uses_its_own_dtype(make_harness: Any, dtype: str) -> None:
    harness = make_harness("OASIS", parameters={"dtype": dtype})
    harness.append(*harness.records(20))
    assert harness.model() == oracle(harness)


@pytest.mark.parametrize(
    ("record", "click"),
    [
        (Click(1, (2, 3), (4, 5, 6)), oahu.Click(1, [2, 3], [4, 5, 6])),
        (Click(1, (2, 3), ()), oahu.Click(1, [2, 3])),
        (Click(1, (), (4,)), oahu.Click(1, [], [4])),
        (Triplet(1, 2, 4), oahu.Click(1, [2], [4])),
        (Pair(1, 2, True), oahu.Click(1, [2])),
        (Pair(1, 4, False), oahu.Click(1, [], [4])),
    ],
)
def test_a_click_learner_learns_each_record_as_one_click(make_harness: Any, record: Any, click: Any) -> None:
    harness = make_harness("AnchoredOAHU")
    harness.append(record)
    assert harness.learn().constraints == 1
    expected = oahu.AnchoredOAHU(random_state=0).initialize(harness.config.dimension)
    expected.partial_fit(oahu.Clicks([click], preprocessor=harness.rows))
    assert harness.loop.model_file() == model_files.to_bytes(expected)


def test_a_triplet_learner_ignores_a_pair_that_completes_no_triplet(make_harness: Any) -> None:
    harness = make_harness("OASIS")
    harness.append(Pair(1, 4, True), Pair(2, 5, True))
    assert harness.learn().constraints == 0
    harness.append(Pair(1, 2, False))
    assert harness.learn().constraints > 0
    assert harness.model() == oracle(harness)


# -- undo ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("seed", range(4))
def test_undo_in_any_order_equals_a_log_without_the_records(make_harness: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    harness = make_harness(closure=2, options={"snapshot_every": 8, "keep_snapshots": 5})
    harness.append(*harness.records(25, seed))
    harness.learn()
    for first in (1 + rng.permutation(25)[:6]).tolist():
        harness.append(Undo(first, first), *harness.records(2, first))
        if rng.random() < 0.5:
            harness.learn()
    assert harness.model() == oracle(harness)


def test_undoing_everything_gives_the_untrained_learner(make_harness: Any) -> None:
    harness = make_harness()
    harness.append(*harness.records(10))
    harness.learn()
    harness.append(Undo(1, 10))
    assert harness.model() == model_files.to_bytes(new_learner(harness.config))
    assert harness.loop.published.constraints == 0


def test_undoing_a_suffix_gives_the_model_of_that_version(make_harness: Any) -> None:
    harness = make_harness(options={"snapshot_every": 5})
    harness.append(*harness.records(12))
    before = harness.model()
    harness.append(*harness.records(9, 1))
    assert harness.model() != before
    harness.append(Undo(13, 21))
    assert harness.model() == before


def test_an_undo_range_may_contain_undone_entries(make_harness: Any) -> None:
    harness = make_harness()
    harness.append(*harness.records(12))
    harness.learn()
    harness.append(Undo(4, 4), Undo(2, 6), *harness.records(4, 2), Undo(1, 15))
    assert harness.model() == oracle(harness)


def test_feedback_that_is_undone_before_it_is_learned(make_harness: Any) -> None:
    harness = make_harness()
    harness.append(*harness.records(8), Undo(3, 3), Undo(8, 8))
    assert harness.model() == oracle(harness)


# -- model replacement -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("learner", ["OASIS", "LEGO"])
def test_learning_continues_from_a_replacement_model(make_harness: Any, learner: str) -> None:
    harness = make_harness(learner, closure=2)
    harness.append(*harness.records(9))
    harness.learn()
    harness.append(ModelReplacement("x"), model=other_model(harness.config))
    harness.append(*harness.records(9, 1))
    assert harness.model() == oracle(harness)


def test_a_replacement_model_is_used_unchanged(make_harness: Any) -> None:
    harness = make_harness()
    harness.append(*harness.records(9))
    data = other_model(harness.config)
    harness.append(ModelReplacement("x"), model=data)
    assert harness.model() == data


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("first", [2, 9, 12, 17])
def test_undo_before_and_after_a_model_replacement(make_harness: Any, first: int) -> None:
    harness = make_harness(closure=2, options={"snapshot_every": 7})
    harness.append(*harness.records(9))
    harness.append(ModelReplacement("x"), model=other_model(harness.config))
    harness.append(*harness.records(9, 1))
    harness.learn()
    harness.append(Undo(first, first))
    assert harness.model() == oracle(harness)
    harness.restart()
    assert harness.model() == oracle(harness)


@pytest.mark.parametrize("kill", [False, True])
def test_a_replacement_model_outlives_a_restart(make_harness: Any, kill: bool) -> None:
    harness = make_harness()
    harness.append(*harness.records(5))
    harness.append(ModelReplacement("x"), model=other_model(harness.config))
    harness.append(*harness.records(5, 1))
    harness.learn()
    harness.restart(kill)
    assert harness.model() == oracle(harness)


def test_a_replacement_model_may_have_learned_less_or_more_than_the_log(make_harness: Any) -> None:
    harness = make_harness(options={"snapshot_every": 3})
    for data in (model_files.to_bytes(new_learner(harness.config)), other_model(harness.config)):
        harness.append(*harness.records(6, len(harness.log)))
        harness.learn()
        harness.append(ModelReplacement("x"), model=data)
        harness.learn()
        harness.restart()
    harness.append(*harness.records(3, 5))
    assert harness.model() == oracle(harness)


# -- rejected constraints --------------------------------------------------------------------------------------


def mixed_rows() -> Any:
    """Return small items mixed with the largest items that the service accepts."""
    rows = np.random.default_rng(2).normal(size=(N_ITEMS, DIMENSION))
    rows[::4] *= 1e9 / np.linalg.norm(rows[::4], axis=1, keepdims=True)
    return rows


@pytest.mark.parametrize("learner", LEARNERS)
def test_constraints_that_would_overflow_are_skipped(make_harness: Any, learner: str) -> None:
    harness = make_harness(learner, rows=mixed_rows(), closure=2)
    harness.append(*harness.records(30))
    assert harness.model() == oracle(harness)


def test_rejected_constraints_are_counted(make_harness: Any) -> None:
    harness = make_harness("LEGO", rows=mixed_rows(), closure=2)
    harness.append(*harness.records(30))
    harness.learn()
    learner, n_rejected = replay(harness.config, harness.log, harness.rows, {})
    assert n_rejected > 0
    assert (harness.loop.n_rejected, harness.loop.published.constraints) == (n_rejected, learner.n_seen_)


# -- snapshots -------------------------------------------------------------------------------------------------


@pytest.fixture
def n_learned(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """A function that returns the number of constraints that were trained since its last call."""
    learned: list[int] = []
    train = learner_loop.LearnerLoop._train

    def counted(self: Any, values: Any, same: Any) -> int:
        learned.append(len(values))
        return train(self, values, same)

    monkeypatch.setattr(learner_loop.LearnerLoop, "_train", counted)

    def since() -> int:
        total = sum(learned)
        learned.clear()
        return total

    return since


def test_a_restart_repeats_no_training(make_harness: Any, n_learned: Callable[[], int]) -> None:
    harness = make_harness()
    harness.append(*harness.records(20))
    before = harness.model()
    assert n_learned() > 0
    harness.restart()
    assert harness.model() == before
    assert n_learned() == 0


def test_a_restart_after_an_undo_repeats_no_training(make_harness: Any, n_learned: Callable[[], int]) -> None:
    harness = make_harness()
    harness.append(*harness.records(20))
    harness.learn()
    harness.append(Undo(3, 3))
    before = harness.model()
    harness.restart()
    n_learned()
    assert harness.model() == before
    assert n_learned() == 0


def test_after_a_kill_training_resumes_at_the_last_snapshot(
    make_harness: Any, n_learned: Callable[[], int]
) -> None:
    harness = make_harness(options={"snapshot_every": 10}, closure=0)
    for seed in range(8):
        harness.append(*harness.records(4, seed))
        harness.learn()
    total = n_learned()
    harness.restart(kill=True)
    assert harness.model() == oracle(harness)
    assert n_learned() < total / 2


def test_snapshots_beyond_the_end_of_the_log_are_dropped(make_harness: Any) -> None:
    harness = make_harness()
    harness.append(*harness.records(20))
    harness.learn()
    for seq in (500, 510, 520, 530):  # as after restoring an older backup of the log
        harness.store.save_snapshot(harness.id, seq, harness.loop._learner, {})
    before = harness.model()
    harness.restart()
    assert max(harness.store.snapshots(harness.id)) == 20
    assert harness.model() == before


def test_closing_without_changes_saves_no_snapshot(make_harness: Any) -> None:
    harness = make_harness()
    harness.append(*harness.records(5))
    harness.learn()
    harness.restart()
    before = harness.store.snapshots(harness.id)
    harness.restart()
    assert harness.store.snapshots(harness.id) == before == [5]


def test_an_undo_drops_the_snapshots_that_contain_the_record(make_harness: Any) -> None:
    harness = make_harness(options={"snapshot_every": 1, "keep_snapshots": 10}, closure=0)
    for seed in range(5):
        harness.append(Triplet(1, 4, 2 + 3 * seed))
        harness.learn()
    harness.append(Undo(4, 4))
    harness.learn()
    assert all(seq < 4 or seq == 6 for seq in harness.store.snapshots(harness.id))


def test_a_snapshot_from_before_an_undo_is_not_used(make_harness: Any) -> None:
    harness = make_harness()
    harness.append(*harness.records(10))
    harness.learn()
    harness.restart()  # saves a snapshot of all ten records
    harness.append(Undo(4, 4))
    harness.restart(kill=True)
    assert harness.model() == oracle(harness)


def test_learning_continues_if_a_snapshot_cannot_be_saved(
    make_harness: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = make_harness(options={"snapshot_every": 1})

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(harness.store, "save_snapshot", fail)
    harness.append(*harness.records(5))
    harness.learn()
    harness.append(*harness.records(5, 1))
    assert harness.model() == oracle(harness)


# -- publishing ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_batches")
def test_published_versions_increase(make_harness: Any) -> None:
    harness = make_harness()
    harness.append(*harness.records(12))
    harness.learn()
    harness.append(Undo(2, 2), *harness.records(6, 1))
    harness.learn()
    versions = [published.version for published in harness.published]
    assert versions == sorted(set(versions))
    assert versions[-1] == len(harness.log)


@pytest.mark.usefixtures("small_batches")
def test_a_published_metric_has_learned_exactly_its_version(make_harness: Any) -> None:
    harness = make_harness("OASIS")
    harness.append(*harness.records(14))
    harness.learn()
    some = np.random.default_rng(0).normal(size=(4, DIMENSION)).astype(np.float32)
    for published in harness.published:
        learner, _ = replay(harness.config, harness.log[: published.version], harness.rows, {})
        np.testing.assert_array_equal(
            published.metric.score(some[:2], some[2:]), learner.metric().score(some[:2], some[2:])
        )
        assert published.constraints == learner.n_seen_


@pytest.mark.parametrize("moment", ["before the read", "during the read", "during the replay"])
@pytest.mark.usefixtures("small_batches")
def test_a_published_metric_never_mixes_the_states_before_and_after_an_undo(
    make_harness: Any, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = make_harness("OASIS", closure=3)
    harness.append(*harness.records(30))
    loop, read = harness.loop, harness.store.training_log
    loop.notify(30)
    loop._advance()  # learns a part of the log; there is no background thread
    undos = [Undo(2, 2)] if moment != "during the replay" else [Undo(2, 2), Undo(5, 5)]
    if moment != "during the read":
        harness.append(undos.pop(0))

    def read_and_undo(*given: Any) -> Any:
        entries = read(*given)
        if undos:
            harness.append(undos.pop(0))
        return entries

    monkeypatch.setattr(harness.store, "training_log", read_and_undo)
    while loop._seq < len(harness.log):
        loop.notify(len(harness.log))
        loop._advance()
    some = np.random.default_rng(0).normal(size=(4, DIMENSION)).astype(np.float32)
    for published in harness.published:
        learner, _ = replay(harness.config, harness.log[: published.version], harness.rows, {})
        np.testing.assert_array_equal(
            published.metric.score(some[:2], some[2:]), learner.metric().score(some[:2], some[2:])
        )
    assert harness.published[-1].version == len(harness.log)
    assert loop.model_file() == oracle(harness)


def test_waiting_for_a_learned_version_returns_at_once(make_harness: Any) -> None:
    harness = make_harness()
    harness.append(*harness.records(3))
    harness.learn()
    assert harness.loop.wait_for(2, TIMEOUT) is harness.loop.published


def test_waiting_ends_at_the_timeout(make_harness: Any) -> None:
    harness = make_harness()  # its thread is not started
    harness.append(*harness.records(3))
    harness.loop.notify(3)
    assert harness.loop.wait_for(3, 0.01).version == 0
    assert harness.loop.wait_for(3, 0).version == 0


@pytest.mark.parametrize("timeout", [np.inf, 1e300])
def test_the_timeout_may_be_infinite(make_harness: Any, timeout: float) -> None:
    harness = make_harness()
    harness.append(*harness.records(3))
    harness.loop.start()
    harness.loop.notify(3)
    assert harness.loop.wait_for(3, timeout).version == 3


def wait_until_published(loop: learner_loop.LearnerLoop, seq: int) -> None:
    """Wait for a version without requesting it."""
    with loop._changed:
        assert loop._changed.wait_for(lambda: loop.published.version >= seq, TIMEOUT)


def test_a_small_batch_waits_for_more_until_it_is_requested(
    make_harness: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner_loop, "_BATCH_DELAY", TIMEOUT)
    harness = make_harness()
    harness.append(*harness.records(3))
    harness.loop.start()
    harness.loop.notify(3)
    assert not harness.loop._is_urgent()
    harness.loop.request(3)
    wait_until_published(harness.loop, 3)


def test_a_full_batch_does_not_wait_for_more(make_harness: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner_loop, "_BATCH_DELAY", TIMEOUT)
    monkeypatch.setattr(learner_loop, "_FULL_BATCH", 5)
    harness = make_harness()
    harness.append(*harness.records(5))
    harness.loop.start()
    harness.loop.notify(5)
    wait_until_published(harness.loop, 5)


def test_the_error_rate_counts_wrongly_ranked_triplets(make_harness: Any) -> None:
    rows = np.array([[0.0] * 5, [1.0] * 5, [9.0] * 5])
    harness = make_harness("Euclidean", rows=rows)
    harness.append(Triplet(1, 2, 3))  # agrees with the Euclidean metric
    assert harness.learn().error_rate == 0.0
    harness.append(Undo(1, 1), Triplet(1, 3, 2))
    assert harness.learn().error_rate == pytest.approx(0.02)


@pytest.mark.parametrize(("n", "n_sampled"), [(3, 3), (16, 16), (17, 9), (40, 14)])
def test_the_error_rate_samples_a_batch_evenly(
    make_harness: Any, n: int, n_sampled: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluated: list[Any] = []
    monkeypatch.setattr(
        learner_loop.LearnerLoop, "_evaluate", lambda _, metric, triplets: evaluated.append(triplets)
    )
    harness = make_harness("Euclidean", closure=0)
    triplets = [Triplet(1, 4, 2 + 3 * (at % 5)) for at in range(n)]
    harness.append(*triplets)
    harness.learn()
    assert [len(triplets) for triplets in evaluated] == [n_sampled]
    step = -(-n // 16)
    expected = harness.rows[np.array([list(triplet) for triplet in triplets[::step]])]
    np.testing.assert_allclose(evaluated[0], expected, rtol=1e-6)


def test_the_history_holds_the_published_weights(make_harness: Any) -> None:
    harness = make_harness("OAHU", closure=0)
    for seed in range(4):
        harness.append(*harness.records(3, seed))
        harness.learn()
    harness.restart()
    history = {point.version: point for point in harness.store.history(harness.id)}
    for published in harness.published:
        assert history[published.version] == published.history_point


def test_an_undo_deletes_later_history(make_harness: Any) -> None:
    harness = make_harness(closure=0)
    for seed in range(6):
        harness.append(Triplet(1, 4, 2 + 3 * seed))
        harness.learn()
    harness.append(Undo(3, 3))
    harness.learn()
    harness.restart()
    assert [point.version for point in harness.store.history(harness.id)] == [1, 2, 7]


# -- stop and failure ------------------------------------------------------------------------------------------


def test_a_closed_loop_has_no_thread(make_harness: Any) -> None:
    harness = make_harness()
    harness.append(*harness.records(3))
    harness.learn()
    name = harness.loop._thread.name
    harness.loop.close()
    assert name not in [thread.name for thread in threading.enumerate()]


def test_a_loop_that_was_never_started_can_be_closed(make_harness: Any) -> None:
    harness = make_harness()
    harness.loop.close()
    assert harness.store.snapshots(harness.id) == []


def test_an_error_stops_the_loop_and_is_reported(make_harness: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = make_harness()
    harness.append(*harness.records(3))
    harness.learn()

    def broken(*_: Any) -> None:
        raise ZeroDivisionError("expected failure")

    monkeypatch.setattr(learner_loop.LearnerLoop, "_train", broken)
    harness.append(*harness.records(3, 1))
    harness.loop.notify(6)
    assert harness.loop.wait_for(6, TIMEOUT).version == 3  # returns without waiting for the timeout
    with pytest.raises(LearnerFailedError, match="expected failure"):
        harness.loop.raise_if_failed()
    monkeypatch.undo()
    harness.restart()
    assert harness.model() == oracle(harness)


# -- learners --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (CollectionConfig("a", 3, "Nobody"), "no learner 'Nobody'.*AnchoredOAHU"),
        (CollectionConfig("a", 3, "__init__"), "no learner"),
        (CollectionConfig("a", 3, "OASIS", {"speed": 3}), "no parameter 'speed'"),
        (CollectionConfig("a", 3, "OASIS", {"preprocessor": [[1]]}), "no parameter 'preprocessor'"),
        (CollectionConfig("a", 3, "AnchoredOAHU", {"background": [[1, 2, 3]]}), "no parameter 'background'"),
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
def test_an_invalid_learner_is_rejected(config: CollectionConfig, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        new_learner(config)


def test_a_model_above_the_size_limit_is_rejected() -> None:
    for learner in (name for name in LEARNERS if name not in ("Euclidean", "Cosine")):
        config = CollectionConfig("a", 400, learner)
        trained = new_learner(config)
        if learner == "AnchoredOAHU":  # its model grows until its background has as many items as features
            trained.partial_fit(np.random.default_rng(0).normal(size=(300, 3, 400)))
        size = sum(array.nbytes for array in trained._fitted_state().arrays.values())
        with pytest.raises(InvalidRequestError, match="MiB"):
            new_learner(config, size / 2.5)


def test_the_default_size_limit_allows_many_features() -> None:
    for learner in LEARNERS:
        assert new_learner(CollectionConfig("a", 784, learner), Settings().max_model).n_features_in_ == 784


@pytest.mark.parametrize(
    ("learner", "parameters"),
    [
        ("OAHU", {"hidden_size": 10**9}),
        ("OAHU", {"n_layers": 10**9}),
        ("OAHU", {"embedding_size": 10**12}),
        ("AnchoredOAHU", {"n_random": 10**6}),
        ("AnchoredOAHU", {"batch_size": 10**9}),
    ],
)
def test_a_huge_model_is_rejected_before_it_is_allocated(learner: str, parameters: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError, match="MiB"):
        new_learner(CollectionConfig("a", 100, learner, parameters), Settings().max_model)


def test_the_default_learner_accepts_items_with_the_largest_number_of_features() -> None:
    settings = Settings()
    config = CollectionConfig("a", settings.max_dimension, "AnchoredOAHU")
    assert new_learner(config, settings.max_model).n_features_in_ == settings.max_dimension


# -- selection of snapshots ------------------------------------------------------------------------------------

SEQS = st.lists(st.integers(1, 10**6), min_size=1, max_size=40, unique=True).map(lambda s: sorted(s, reverse=True))


@given(SEQS, st.integers(3, 15))
def test_the_newest_two_and_the_oldest_snapshot_are_kept(seqs: list[int], limit: int) -> None:
    kept = _select_snapshots(seqs, limit)
    assert len(kept) <= limit
    assert kept == sorted(set(kept) & set(seqs), reverse=True)
    assert kept[:2] == seqs[:2]
    assert kept[-1] == seqs[-1]


@given(SEQS, st.integers(3, 15))
def test_no_snapshot_is_dropped_below_the_limit(seqs: list[int], limit: int) -> None:
    assert len(_select_snapshots(seqs, limit)) == min(limit, len(seqs))


@pytest.mark.parametrize("n", [50, 400, 2000])
def test_snapshots_stay_spread_while_the_log_grows(n: int) -> None:
    kept: list[int] = []
    for at in range(1, n + 1):
        kept = _select_snapshots([at, *kept], 12)
    # For every undo there is a snapshot before it that is not much older.
    for undone in range(2, n):
        below = max(seq for seq in kept if seq < undone)
        assert n - below <= 6 * (n - undone + 1)
