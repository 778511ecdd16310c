"""What the model must be: the log of a folder, learned in order, in plain Python and without the service.

It reads the database with nothing but sqlite3, takes what counts from the log alone, and learns one constraint at a
time.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import oahu
from oahu.constraints import ConstraintGraph, Pair, Triplet
from oahu.io import model_files
from oahu.learners.kinds import PairLearner

__all__ = ["Kept", "learned", "read"]

Change = list[Any]


@dataclass(frozen=True)
class Kept:
    """A collection as its folder has it."""

    config: dict[str, Any]
    items: dict[str, tuple[int, str | None, Any]]  # by key: number, label, payload
    vectors: dict[int, bytes]
    log: list[tuple[int, Change]]
    models: dict[int, bytes]


def read(folder: Path, name: str) -> Kept:
    """What is on disk, also while a service runs."""
    with closing(sqlite3.connect(f"file:{folder / 'oahu.db'}?mode=ro", uri=True)) as database:

        def rows(sql: str) -> list[Any]:
            return database.execute(sql, (id_,)).fetchall()

        database.execute("BEGIN")  # one moment for all
        id_, config = database.execute("SELECT id, config FROM collections WHERE name = ?", (name,)).fetchone()
        items = rows("SELECT key, number, label, payload FROM items WHERE collection = ?")
        found = {key: (n, label, payload and json.loads(payload)) for key, n, label, payload in items}
        assert len(found) == len(items)
        return Kept(
            json.loads(config),
            found,
            dict(rows("SELECT number, data FROM vectors WHERE collection = ?")),
            [(s, json.loads(c)) for s, c in rows("SELECT seq, change FROM log WHERE collection = ? ORDER BY seq")],
            dict(rows("SELECT seq, data FROM models WHERE collection = ?")),
        )


def learned(kept: Kept, until: int | None = None) -> bytes:
    """The file of a learner that was taught the log in order, as far as it counts."""
    config, closure = kept.config, kept.config["closure"]
    learner = getattr(oahu, config["learner"])(**({"random_state": 0} | config["parameters"]))
    learner.initialize(config["dimension"])
    dtype, of_pairs = np.dtype(learner.dtype), isinstance(learner, PairLearner)
    graph = ConstraintGraph("newest" if config["contradictions"] == "newest" else "raise")
    log = [(seq, change) for seq, change in kept.log if until is None or seq <= until]
    undone = _undone(log)
    for seq, change in log:
        if change[0] == "undo" or seq in undone:
            continue
        if change[0] == "model":
            learner = model_files.from_bytes(kept.models[seq], "the model")
            continue
        rng = np.random.default_rng(seq)
        for constraint in _constraints(change):
            for lesson in _lessons(graph, constraint, closure, of_pairs, rng):
                values = np.stack([np.frombuffer(kept.vectors[number], dtype) for number in lesson[: 3 - of_pairs]])
                learner.partial_fit(values[None], [lesson[2]] if of_pairs else None)
    return model_files.to_bytes(learner)


def _undone(log: list[tuple[int, Change]]) -> set[int]:
    """What does not count; of what was undone, also undoing something."""
    undone: set[int] = set()
    for seq, change in reversed(log):
        if change[0] == "undo" and seq not in undone:
            undone.update(range(change[1], change[2] + 1))
    return undone


def _constraints(change: Change) -> Iterator[Pair | Triplet]:
    """A click names each of its positives and negatives, the shorter list over and over."""
    kind, *values = change
    if kind == "pair":
        yield Pair(*values)
    elif kind == "triplet":
        yield Triplet(*values)
    else:
        query, likes, unlikes = values
        for at in range(max(len(likes), len(unlikes))):
            if likes and unlikes:
                yield Triplet(query, likes[at % len(likes)], unlikes[at % len(unlikes)])
            else:
                yield Pair(query, (likes or unlikes)[at], bool(likes))


def _lessons(graph: ConstraintGraph, said: Pair | Triplet, closure: int, of_pairs: bool, rng: Any) -> list[Any]:
    """What is taught of a constraint: it, in the form that is learned, and what follows from it, up to a bound.

    A learner of triplets is taught those that a pair completes: one in its place, and what follows.
    """
    graph.add(said)
    if isinstance(said, Pair):
        return (
            [said, *graph.variants(said, closure, rng)] if of_pairs else graph.completions(said, 1 + closure, rng)
        )
    if not of_pairs:
        return [said, *graph.variants(said, closure, rng)]
    anchor, positive, negative = said
    alike, unlike = Pair(anchor, positive, True), Pair(anchor, negative, False)
    return [alike, *graph.variants(alike, closure, rng), unlike, *graph.variants(unlike, closure, rng)]
