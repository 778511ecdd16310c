"""What every protocol does first: a method learns from a stream, and a metric comes out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from oahu.evaluation.protocols.draws import Draws, Stream, generator_for
from oahu.evaluation.protocols.methods import Method
from oahu.metrics import Metric

__all__ = ["Clock", "Learned", "learn", "weights_curve"]

_DRAWN: Final = 128  # points of a curve


class Clock:
    """Where the time goes."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, what: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[what] = self.seconds.get(what, 0.0) + time.perf_counter() - start


@dataclass(frozen=True)
class Learned:
    """A metric and how it came about."""

    metric: Metric
    utilization: float = float("nan")
    curves: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


def learn(
    method: Method,
    settings: Mapping[str, Any],
    items: NDArray[np.float32],
    labels: NDArray[Any],
    words: tuple[Any, ...],
    draws: Draws,
    clock: Clock,
    exclude: NDArray[np.intp] | None = None,
) -> Learned:
    """Let a method learn from labelled items what ``settings`` says.

    Parameters
    ----------
    settings : mapping
        ``n_constraints``, ``n_seeds``, ``params``; and ``of``, if the constraints are a sample of so many.
    words : tuple
        The seed, and what tells this stream from others: all methods learn from the same one.
    exclude : ndarray of shape (n, 2), optional
        Pairs of items that no constraint may contain.
    """
    if method.feed == "nothing":
        metric = method.metric
        if method.learner is not None:
            metric = method.build({}, generator_for(0)).initialize(items.shape[1]).metric()
        assert metric is not None
        return Learned(metric)
    learner = method.build(settings["params"], generator_for(*words, "learner", method.name))
    facts: dict[str, Any] = {}
    if method.feed == "labels":
        order = generator_for(*words, "order").permutation(len(items))
        with clock("learning"):
            learner.partial_fit(items[order], labels[order])
    else:
        with clock("constraints"):
            stream = _stream(method, settings, labels, words, draws, exclude)
        facts = {"n_drawn": len(stream) - stream.n_followed, "n_followed": stream.n_followed}
        learner.set_params(preprocessor=items)
        with clock("learning"):
            learner.partial_fit(stream.rows, stream.same)
    curves = weights_curve(learner) if hasattr(learner, "weight_history_") else {}
    return Learned(learner.metric(), float(learner.utilization_), curves, {**facts, "n_seen": int(learner.n_seen_)})


def _stream(
    method: Method, settings: Mapping[str, Any], labels: Any, words: tuple[Any, ...], draws: Draws, exclude: Any
) -> Stream:
    kind: Any = method.feed
    n, total = settings["n_constraints"], settings.get("of", settings["n_constraints"])
    stream = draws.get(kind, labels, total, min(settings["n_seeds"], total), words, exclude)
    return stream if n == total else stream.sample(n, generator_for(*words, "sample", kind, n))


def weights_curve(learner: Any) -> dict[str, Any]:
    """How the metric weights moved, at some of the rounds."""
    rounds, weights = learner.history_rounds_, learner.weight_history_
    some = np.unique(np.linspace(0, len(rounds) - 1, min(_DRAWN, len(rounds))).astype(int))
    return {"weights": {"rounds": rounds[some].tolist(), "weights": weights[some].round(5).tolist()}}
