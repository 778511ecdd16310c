"""The expected model of a data folder: a learner trained on its log, without the code of the service.

It reads the database with sqlite3, uses only the log, and learns one constraint at a time.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import oahu
from oahu.constraints import ConstraintGraph, Pair, Triplet
from oahu.io import model_files
from oahu.learners.kinds import ClickLearner, PairLearner

__all__ = ["StoredData", "expected_model", "read"]

Change = list[Any]


@dataclass(frozen=True)
class StoredData:
    """The stored data of one collection."""

    config: dict[str, Any]
    items: dict[str, tuple[int, str | None, Any]]  # by key: number, label, payload
    vectors: dict[int, bytes]
    log: list[tuple[int, Change]]
    models: dict[int, bytes]
    weights: dict[int, float]


def read(folder: Path, name: str) -> StoredData:
    """Return the stored data of a collection. The service may be running."""
    with closing(sqlite3.connect(f"file:{folder / 'oahu.db'}?mode=ro", uri=True)) as database:

        def rows(sql: str) -> list[Any]:
            return database.execute(sql, (id_,)).fetchall()

        database.execute("BEGIN")  # all reads see the same state
        id_, config = database.execute("SELECT id, config FROM collections WHERE name = ?", (name,)).fetchone()
        items = rows("SELECT key, number, label, payload FROM items WHERE collection = ?")
        found = {key: (n, label, payload and json.loads(payload)) for key, n, label, payload in items}
        assert len(found) == len(items)
        return StoredData(
            json.loads(config),
            found,
            dict(rows("SELECT number, data FROM vectors WHERE collection = ?")),
            [(s, json.loads(c)) for s, c in rows("SELECT seq, change FROM log WHERE collection = ? ORDER BY seq")],
            dict(rows("SELECT seq, data FROM models WHERE collection = ?")),
            dict(rows("SELECT seq, weight FROM log WHERE collection = ?")),
        )


def expected_model(stored: StoredData, until: int | None = None) -> bytes:
    """Return the model file of a learner that was trained on the effective entries of the log, in order."""
    config, closure = stored.config, stored.config["closure"]
    learner = getattr(oahu, config["learner"])(**({"random_state": 0} | config["parameters"]))
    learner.initialize(config["dimension"])
    dtype = np.dtype(learner.dtype)
    graph = ConstraintGraph("newest" if config["contradictions"] == "newest" else "raise")
    log = [(seq, change) for seq, change in stored.log if until is None or seq <= until]
    undone = _undone(log)
    for seq, change in log:
        if change[0] == "undo" or seq in undone:
            continue
        if change[0] == "model":
            learner = model_files.from_bytes(stored.models[seq], "the model")
            continue
        rng = np.random.default_rng(seq)

        def features(numbers: Iterable[int]) -> list[Any]:
            return [np.frombuffer(stored.vectors[number], dtype) for number in numbers]

        if isinstance(learner, ClickLearner):
            query, *parts = _as_click(change)
            learner.partial_fit([oahu.Click(*features([query]), *map(features, parts), stored.weights[seq])])
        for constraint in _constraints(change):
            for example in _examples(graph, constraint, closure, learner, rng):
                values = np.stack(features(example[: 2 if isinstance(example, Pair) else 3]))
                if isinstance(learner, ClickLearner):
                    click = oahu.Click(values[0], values[1:2], values[2:])
                    if isinstance(example, Pair) and not example.same:
                        click = oahu.Click(values[0], [], values[1:])
                    learner.partial_fit([click._replace(weight=stored.weights[seq])])
                    continue
                learner.partial_fit(values[None], [example.same] if isinstance(example, Pair) else None)
    return model_files.to_bytes(learner)


def _undone(log: list[tuple[int, Change]]) -> set[int]:
    """Return the undone sequence numbers. An undo can be undone too."""
    undone: set[int] = set()
    for seq, change in reversed(log):
        if change[0] == "undo" and seq not in undone:
            undone.update(range(change[1], change[2] + 1))
    return undone


def _constraints(change: Change) -> Iterator[Pair | Triplet]:
    """Yield the constraints of a change. The shorter list of a click is repeated."""
    kind, *values = change
    if kind == "pair":
        yield Pair(*values)
    elif kind == "triplet":
        yield Triplet(*values)
    else:
        query, positive, negative, *_ = values
        for at in range(max(len(positive), len(negative))):
            if positive and negative:
                yield Triplet(query, positive[at % len(positive)], negative[at % len(negative)])
            else:
                yield Pair(query, (positive or negative)[at], bool(positive))


def _as_click(change: Change) -> tuple[Any, ...]:
    """Return the query, the positives, the negatives and the shown items of a change."""
    kind, *values = change
    if kind == "pair":
        first, second, same = values
        return (first, [second], [], []) if same else (first, [], [second], [])
    if kind == "triplet":
        return values[0], [values[1]], [values[2]], []
    return (*values, []) if len(values) == 3 else tuple(values)


def _examples(
    graph: ConstraintGraph, constraint: Pair | Triplet, closure: int, learner: Any, rng: Any
) -> list[Any]:
    """Return the training examples of a constraint: the constraint, and implied constraints up to a limit.

    For a triplet learner, the examples of a pair are the triplets that it completes. A learner of clicks has
    learned the constraint before, as part of a click.
    """
    graph.add(constraint)
    if isinstance(learner, ClickLearner):
        return graph.variants(constraint, closure, rng)
    if isinstance(constraint, Pair):
        return (
            [constraint, *graph.variants(constraint, closure, rng)]
            if isinstance(learner, PairLearner)
            else graph.completions(constraint, 1 + closure, rng)
        )
    if not isinstance(learner, PairLearner):
        return [constraint, *graph.variants(constraint, closure, rng)]
    anchor, positive, negative = constraint
    alike, not_alike = Pair(anchor, positive, True), Pair(anchor, negative, False)
    return [alike, *graph.variants(alike, closure, rng), not_alike, *graph.variants(not_alike, closure, rng)]
