"""Training of a method in a trial."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from oahu.evaluation.protocols.constraint_streams import ConstraintCache, ConstraintStream, generator_for
from oahu.evaluation.protocols.methods import Method
from oahu.metrics import Metric

__all__ = ["Stopwatch", "TrainedMetric", "train_method", "weights_curve"]

_CURVE_POINTS: Final = 128


class Stopwatch:
    """Stopwatch that measures the seconds of each named step of a trial."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, step: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[step] = self.seconds.get(step, 0.0) + time.perf_counter() - start


@dataclass(frozen=True)
class TrainedMetric:
    """A trained metric, with the utilization, curves and further information from its training."""

    metric: Metric
    utilization: float = float("nan")
    curves: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


def train_method(
    method: Method,
    settings: Mapping[str, Any],
    items: NDArray[np.float32],
    labels: NDArray[Any],
    seed_words: tuple[Any, ...],
    cache: ConstraintCache,
    stopwatch: Stopwatch,
    exclude: NDArray[np.intp] | None = None,
) -> TrainedMetric:
    """Train a method on constraints drawn from labelled items.

    Parameters
    ----------
    settings : mapping
        Settings of the trial. This function uses ``n_constraints``, ``n_seeds``, ``params`` and ``of``. If ``of``
        is set, a stream of ``of`` constraints is drawn, and the method is trained on a random sample of
        ``n_constraints`` constraints of this stream.
    seed_words : tuple
        Arguments of `generator_for`: the random seed, and words that identify the constraint stream. All methods of
        a run have the same seed and words.
    exclude : ndarray of shape (n, 2), optional
        Pairs of row numbers. No constraint contains both items of such a pair.
    """
    if method.learns_from == "nothing":
        metric = method.metric
        if method.learner is not None:
            metric = method.build({}, generator_for(0)).initialize(items.shape[1]).metric()
        assert metric is not None
        return TrainedMetric(metric)
    learner = method.build(settings["params"], generator_for(*seed_words, "learner", method.name))
    facts: dict[str, Any] = {}
    if method.learns_from == "labels":
        order = generator_for(*seed_words, "order").permutation(len(items))
        with stopwatch("learning"):
            learner.partial_fit(items[order], labels[order])
    else:
        with stopwatch("constraints"):
            stream = _stream(method, settings, labels, seed_words, cache, exclude)
        facts = {"n_drawn": len(stream) - stream.n_implied, "n_implied": stream.n_implied}
        learner.set_params(preprocessor=items)
        with stopwatch("learning"):
            learner.partial_fit(stream.rows, stream.same)
    curves = weights_curve(learner) if hasattr(learner, "weight_history_") else {}
    facts["n_seen"] = int(learner.n_seen_)
    return TrainedMetric(learner.metric(), float(learner.utilization_), curves, facts)


def _stream(
    method: Method,
    settings: Mapping[str, Any],
    labels: Any,
    seed_words: tuple[Any, ...],
    cache: ConstraintCache,
    exclude: Any,
) -> ConstraintStream:
    kind: Any = method.learns_from
    n, total = settings["n_constraints"], settings.get("of", settings["n_constraints"])
    stream = cache.get(kind, labels, total, min(settings["n_seeds"], total), seed_words, exclude)
    return stream if n == total else stream.sample(n, generator_for(*seed_words, "sample", kind, n))


def weights_curve(learner: Any) -> dict[str, Any]:
    """Return the history of the metric weights, reduced to at most 128 rounds."""
    rounds, weights = learner.history_rounds_, learner.weight_history_
    chosen = np.unique(np.linspace(0, len(rounds) - 1, min(_CURVE_POINTS, len(rounds))).astype(int))
    return {"weights": {"rounds": rounds[chosen].tolist(), "weights": weights[chosen].round(5).tolist()}}
