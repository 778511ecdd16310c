"""The learner loop: the log in, metric versions out.

It reads the log in order and learns what counts; nothing else decides what the model is. So a model can always be
made again: from the newest snapshot that is sound, or from nothing. Undoing goes back to a snapshot from before
what is undone and learns the rest again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import TIMEOUT_MAX, Condition, Event, Lock, Thread
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import oahu.learners
from oahu.constraints import ConstraintGraph, Pair, Triplet
from oahu.exceptions import InvalidInputError, ModelFileError, OverflowedItemError, RejectedConstraintError
from oahu.io import model_files
from oahu.learners.base import Learner
from oahu.learners.kinds import PairLearner
from oahu.service.errors import InvalidRequestError, LearnerFailedError, ServiceError
from oahu.service.feature_store import FeatureStore
from oahu.service.intake import counting, graph_of
from oahu.service.records import (
    CollectionConfig,
    FeedbackRecord,
    HistoryPoint,
    LoggedChange,
    ModelReplacement,
    PublishedMetric,
    Undo,
    active_undo_ranges,
    constraints_of,
    is_undone,
)
from oahu.service.store import Store

__all__ = ["LearnerLoop", "Lesson", "lessons_of", "new_learner"]

_AT_ONCE: Final = 64  # pieces learned before a metric is handed out
_CATCHING_UP: Final = 1_024  # ... when it is far behind
_LINGER: Final = 0.01  # seconds that feedback waits for more, if nobody waits for it
_ENOUGH: Final = 16  # pieces that wait for no more
_SAMPLE: Final = 16  # triplets that a metric is asked about before they are learned
_SLOWLY: Final = 0.98  # how much of the loss is of before, with every triplet
_DENSE: Final = 200  # moments of the history, before they are further and further apart

log = logging.getLogger("oahu.service")


# -- what a log teaches --------------------------------------------------------------------------------------


def new_learner(config: CollectionConfig, max_size: float = np.inf) -> Learner[Any]:
    """A learner that has learned nothing, as a collection asks for it; `InvalidRequestError` if it cannot be."""
    if config.learner not in oahu.learners.LEARNERS:
        raise InvalidRequestError(
            f"There is no learner {config.learner!r}: there are {', '.join(oahu.learners.LEARNERS)}."
        )
    kind = getattr(oahu.learners, config.learner)
    known = set(kind().get_params()) - {"preprocessor"}
    unknown = sorted(config.parameters.keys() - known)
    if unknown:
        raise InvalidRequestError(
            f"{config.learner} has no parameter {unknown[0]!r}: it has {', '.join(sorted(known))}.",
        )
    try:
        made: Learner[Any] = kind(**{"random_state": 0, **config.parameters})
        made._check_parameters()
        if type(made.random_state) is not int:
            raise InvalidInputError("The 'random_state' of a collection must be an int, so that its log tells all.")
        size = _numbers_of(made, config.dimension) * np.dtype(made.dtype).itemsize
        if size > max_size:
            raise InvalidInputError(
                f"This {config.learner} would take about {size / 2**20:,.0f} MiB with {config.dimension} features; "
                f"{max_size / 2**20:,.0f} are allowed. Take fewer features or smaller layers."
            )
        return made.initialize(config.dimension)
    except (InvalidInputError, TypeError) as error:
        raise InvalidRequestError(str(error)) from error


def _numbers_of(learner: Learner[Any], d: int) -> int:
    """How many numbers a model has, about: layers, or a matrix."""
    told = learner.get_params(deep=False)
    if "hidden_size" in told:
        layers, hidden, embedding = told["n_layers"], told["hidden_size"], told["embedding_size"]
        window = 3 * told.get("window", 0) + 131
        return int(d * (hidden + embedding + window) + layers * (hidden + window) * (hidden + embedding))
    return d * {"Euclidean": 1, "Cosine": 1, "AdaSORS": 2 * d}.get(type(learner).__name__, d)


Lesson = Pair | Triplet


def lessons_of(
    graph: ConstraintGraph, piece: FeedbackRecord, seq: int, closure: int, of_pairs: bool
) -> list[Lesson]:
    """What a learner is taught by a piece of feedback: its constraints, and what follows from them.

    Behind each constraint, at most ``closure`` more are taught that follow from it because items are alike. A
    learner of pairs is taught the two pairs of a triplet; a learner of triplets, the triplets that a pair
    completes. They are drawn with the sequence number for a seed.
    """
    rng = np.random.default_rng(seq)
    lessons: list[Lesson] = []
    for constraint in constraints_of(piece):
        graph.extend([constraint])
        if of_pairs:
            for pair in constraint.pairs if isinstance(constraint, Triplet) else (constraint,):
                lessons += [pair, *graph.variants(pair, closure, rng)]
        elif isinstance(constraint, Triplet):
            lessons += [constraint, *graph.variants(constraint, closure, rng)]
        else:
            lessons += graph.completions(constraint, 1 + closure, rng)
    return lessons


class _Student:
    """A learner at a place in the log."""

    def __init__(self, config: CollectionConfig, vectors: FeatureStore, learner: Learner[Any], seq: int) -> None:
        self.config, self.vectors, self.learner, self.seq = config, vectors, learner, seq
        self.graph: ConstraintGraph | None = None  # what follows from the log so far; made when it is needed
        self.of_pairs = isinstance(learner, PairLearner)
        self.n_refused = 0
        self.loss: float | None = None

    def learn(self, pieces: Sequence[tuple[int, FeedbackRecord]], metric: Any = None) -> None:
        """Learn pieces of feedback, in order; how wrong ``metric`` is about some of them goes into the loss."""
        assert self.graph is not None
        lessons: list[Lesson] = []
        asked: list[Triplet] = []
        for seq, piece in pieces:
            lessons += lessons_of(self.graph, piece, seq, self.config.closure, self.of_pairs)
            if metric is not None:
                asked += [one for one in constraints_of(piece) if isinstance(one, Triplet)]
        if asked:
            self._ask(metric, self.vectors.take(asked[:: -(-len(asked) // _SAMPLE)]))
        if lessons and self.of_pairs:
            self._teach(self.vectors.take([one[:2] for one in lessons]), np.array([one[2] for one in lessons]))
        elif lessons:
            self._teach(self.vectors.take(lessons), None)

    def _ask(self, metric: Any, triplets: NDArray[Any]) -> None:
        with suppress(OverflowedItemError):
            near, far = metric.scores_to_first(triplets.reshape(-1, triplets.shape[2]), 3)
            for wrong in (near <= far).astype(float).tolist():
                self.loss = wrong if self.loss is None else _SLOWLY * self.loss + (1 - _SLOWLY) * wrong

    def _teach(self, values: NDArray[Any], same: NDArray[Any] | None) -> None:
        """Learn constraints; those that would overflow the model are left out, and the others learned."""
        while len(values):
            try:
                self.learner.partial_fit(values, same)
                return
            except (RejectedConstraintError, OverflowedItemError) as error:
                at = error.row
                self.n_refused += 1
                if at:
                    self.learner.partial_fit(values[:at], None if same is None else same[:at])
                values, same = values[at + 1 :], None if same is None else same[at + 1 :]


# -- the loop ------------------------------------------------------------------------------------------------


class LearnerLoop:
    """A thread that learns a collection's log, and hands out metrics.

    Parameters
    ----------
    changed : callable
        Called with every metric that is handed out, from the loop's thread.
    """

    def __init__(
        self,
        store: Store,
        collection: int,
        config: CollectionConfig,
        vectors: FeatureStore,
        changed: Callable[[PublishedMetric], None],
        snapshot_every: int = 5_000,
        keep_snapshots: int = 12,
    ) -> None:
        self._store, self._collection, self._config, self._vectors = store, collection, config, vectors
        self._changed, self._snapshot_every, self._keep = changed, snapshot_every, keep_snapshots
        self._news, self._stop, self._learning = Condition(), Event(), Lock()
        self._wanted = 0  # somebody waits for what is in the log up to here
        self._undos = store.undos(collection)
        self._undone = active_undo_ranges(self._undos)
        last = store.last_seq(collection)
        beyond = [seq for seq in store.snapshots(collection) if seq > last]  # of another log that was here
        store.drop_snapshots(collection, beyond)
        self._student = self._from_snapshot(last)
        self._snapshot = self._student.seq, self._n_seen  # of the last that was kept: how far it had come
        self._last_moment = max((m.constraints for m in store.history(collection)), default=-1)
        self.error: Exception | None = None
        self.head = self._student.seq
        self.published = self._metric()
        self._thread = Thread(target=self._run, name=f"oahu-learner-{collection}", daemon=True)

    # -- for others --------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def prime(self, graph: ConstraintGraph, seq: int) -> None:
        """What follows from the log up to ``seq``, to save working it out again. Before the loop starts."""
        if self._student.seq == seq:
            self._student.graph = graph

    def wake(self, head: int) -> None:
        """There is more to learn, up to ``head``."""
        with self._news:
            self.head = max(self.head, head)
            self._news.notify_all()

    def want(self, seq: int) -> None:
        """Somebody is about to wait for what is in the log up to ``seq``: learn it at once."""
        if self.published.version < seq:
            with self._news:
                self._wanted = max(self._wanted, seq)
                self._news.notify_all()

    def wait_for(self, seq: int, timeout: float) -> PublishedMetric:
        """The metric that has learned up to ``seq``, or the newest there is when time runs out."""
        if self.published.version < seq and timeout > 0:
            self.want(seq)
            with self._news:
                self._news.wait_for(
                    lambda: self.published.version >= seq or self.error is not None, min(timeout, TIMEOUT_MAX)
                )
        return self.published

    @property
    def behind(self) -> int:
        """How many entries of the log are not learned yet."""
        return max(0, self.head - self.published.version)

    @property
    def n_refused(self) -> int:
        """How many constraints could not be learned, since the service started."""
        return self._student.n_refused

    def file(self) -> bytes:
        """The learner as it is, as the bytes of a file."""
        with self._learning:
            return model_files.to_bytes(self._student.learner)

    def check(self) -> None:
        """Raise an error if the loop has failed."""
        if self.error is not None:
            raise LearnerFailedError(
                f"The learner of {self._config.name!r} has stopped ({self.error!r}). Restart the service; "
                "what was accepted is in the log."
            )

    def stop(self) -> None:
        """Stop; what is not learned yet is in the log."""
        self._stop.set()
        self.wake(self.head)
        if self._thread.ident is not None:
            self._thread.join()

    def close(self) -> None:
        """Stop, and keep what was learned."""
        self.stop()
        if self.error is None and self._student.seq != self._snapshot[0]:
            self._keep_snapshot()

    # -- the thread --------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._warm_up()
            while True:
                with self._news:
                    self._news.wait_for(lambda: self.head > self._student.seq or self._stop.is_set())
                    self._news.wait_for(self._is_urgent, _LINGER)
                if self._stop.is_set():
                    return  # what is not learned yet is in the log
                with self._learning:
                    self._turn()
        except Exception as error:
            log.exception("the learner of %r has stopped", self._config.name)
            self.error = error
            with self._news:
                self._news.notify_all()

    def _is_urgent(self) -> bool:
        """Whether to learn at once; else what comes in the next moment is learned together, which costs less."""
        seq = self._student.seq
        return self._wanted > seq or self.head - seq >= _ENOUGH or self._stop.is_set()

    def _warm_up(self) -> None:
        """Let what learns be compiled before anyone waits for it."""
        some = np.random.default_rng(0).normal(size=(2, 3, self._config.dimension)).astype(self._vectors.dtype)
        new_learner(self._config).partial_fit(some).metric().scores_to_first(some.reshape(6, -1), 3)

    def _turn(self) -> None:
        """Learn some of what is new, and hand out a metric."""
        some = _AT_ONCE if self.head - self._student.seq < _CATCHING_UP else _CATCHING_UP
        entries = self._store.log(self._collection, self._student.seq, some)
        for entry in entries:
            if isinstance(entry.change, Undo) and entry.seq > self._last_undo:
                self._go_back(entry.change, entry.seq)
                if self._stop.is_set():
                    return
                break
            if self._takes_over(entry):
                self._learn([one for one in entries if one.seq < entry.seq], self.published.metric)
                self._take_over(entry.seq)
                break
        else:
            self._learn(entries, self.published.metric)
        self._publish()
        self._keep_if_due()

    def _learn(self, entries: Sequence[LoggedChange], metric: Any = None) -> None:
        if entries:
            self._know()
            self._student.learn(counting(entries, self._undone), metric)
            self._student.seq = entries[-1].seq

    def _know(self) -> None:
        """See to it that the learner knows what follows from the log so far."""
        if self._student.graph is None:
            entries = self._store.log(self._collection, 0, self._student.seq)
            self._student.graph, _ = graph_of(self._config, counting(entries, self._undone))

    @property
    def _last_undo(self) -> int:
        return self._undos[-1][0] if self._undos else 0

    def _takes_over(self, entry: LoggedChange) -> bool:
        return isinstance(entry.change, ModelReplacement) and not is_undone(entry.seq, self._undone)

    def _take_over(self, seq: int) -> None:
        """Let the model of a file take over; what follows from feedback stays."""
        data = self._store.model(self._collection, seq)
        self._student.learner = model_files.from_bytes(data, f"model {seq}")
        self._student.seq = seq

    def _go_back(self, undo: Undo, seq: int) -> None:
        """Make the model that there would be without some pieces of feedback, as of ``seq``."""
        loss, n_refused = self._student.loss, self._student.n_refused
        first = undo.first  # of all that may count or not count otherwise than before
        for other, begin, _ in reversed(self._undos):
            first = min(first, begin) if other >= first else first
        self._undos = [*self._undos, (seq, undo.first, undo.last)]
        self._undone = active_undo_ranges(self._undos)
        of_before = [at for at in self._store.snapshots(self._collection) if at >= first]
        self._store.drop_snapshots(self._collection, of_before)
        self._student = student = self._from_snapshot(first - 1)
        self._snapshot = student.seq, self._n_seen
        while student.seq < seq and not self._stop.is_set():
            self._replay(self._store.log(self._collection, student.seq, min(_CATCHING_UP, seq - student.seq)))
            self._keep_if_due()
        student.loss, student.n_refused = loss, n_refused
        self._last_moment = -1
        with suppress(ServiceError):
            self._store.commit(lambda t: t.forget_history(self._collection, first), weight=0)

    def _replay(self, entries: Sequence[LoggedChange]) -> None:
        begin = 0
        for at, entry in enumerate(entries):
            if self._takes_over(entry):
                self._learn(entries[begin:at])
                self._take_over(entry.seq)
                begin = at + 1
        self._learn(entries[begin:])

    # -- models ------------------------------------------------------------------------------------------

    @property
    def _n_seen(self) -> int:
        return self._student.learner.n_seen_

    def _metric(self) -> PublishedMetric:
        student = self._student
        return PublishedMetric(student.learner.metric(), student.seq, self._n_seen, student.loss, time.time())

    def _publish(self) -> None:
        published = self._metric()
        with self._news:
            self.published = published
            self._news.notify_all()
        self._remember(published.moment)
        self._changed(published)

    def _remember(self, moment: HistoryPoint) -> None:
        """Keep how the weights are, at first every time, then further and further apart."""
        if moment.constraints - self._last_moment >= max(1, self._last_moment / _DENSE):
            self._last_moment = moment.constraints
            with suppress(ServiceError):  # the history is not worth stopping for
                self._store.commit(lambda t: t.remember(self._collection, [moment]), weight=0)

    def _from_snapshot(self, before: int) -> _Student:
        """A learner from the newest sound snapshot up to a sequence number, or from nothing."""
        for seq in self._store.snapshots(self._collection):
            if seq > before:
                continue
            try:
                learner, notes = self._store.snapshot(self._collection, seq)
            except (ModelFileError, OSError) as error:
                log.warning("snapshot %d of %r is left out: %s", seq, self._config.name, error)
                continue
            if notes != self._notes(seq):
                continue  # of before something was undone, or of another log
            return _Student(self._config, self._vectors, learner, seq)
        return _Student(self._config, self._vectors, new_learner(self._config), 0)

    def _notes(self, seq: int) -> dict[str, Any]:
        """What tells whether a snapshot is of this log: when its last entry was made, and what is undone of it."""
        times = [entry.time for entry in self._store.log(self._collection, seq - 1, 1)]
        undone = sorted([first, min(last, seq)] for first, last in self._undone if first <= seq)
        return {"seq": seq, "time": times[:1], "undone": undone}

    def _keep_if_due(self) -> None:
        if self._n_seen - self._snapshot[1] >= self._snapshot_every:
            self._keep_snapshot()

    def _keep_snapshot(self) -> None:
        seq = self._student.seq
        try:
            self._store.save_snapshot(self._collection, seq, self._student.learner, self._notes(seq))
            kept = self._store.snapshots(self._collection)
            self._store.drop_snapshots(self._collection, set(kept) - set(_spread(kept, self._keep)))
        except OSError as error:
            log.warning("no snapshot of %r could be kept: %s", self._config.name, error)
        self._snapshot = seq, self._n_seen  # if it failed too: not again with every piece


def _spread(seqs: Sequence[int], most: int) -> list[int]:
    """Which snapshots to keep, of some from the newest on: closer together the newer they are.

    The newest two and the oldest stay. Of the others, again and again that one goes whose neighbours are closest,
    as seen from the newest.

    >>> _spread([100, 90, 80, 70, 60, 50, 40, 30, 20, 10], 6)
    [100, 90, 80, 70, 50, 10]
    """
    kept = list(seqs)
    while len(kept) > max(most, 3):
        gaps = [(kept[at - 1] - kept[at + 1]) / (kept[0] - kept[at + 1]) for at in range(2, len(kept) - 1)]
        del kept[2 + gaps.index(min(gaps))]
    return kept
