"""`oahu classify`: what are these items, going by labelled ones?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from oahu.cli.inputs import Items, Model, about, blocks, check_same_kind
from oahu.cli.output import cell, number, print_facts, print_json, print_rest, progress, table
from oahu.evaluation import error_rate, macro_f1
from oahu.metrics import Metric
from oahu.tasks import Classifier

__all__ = ["Order", "run"]

_BLOCK = 1024  # queries at a time


@dataclass(frozen=True)
class Order:
    """What was asked for on the command line."""

    model: Path
    items: Path
    queries: Path
    labels: Path | None = None
    query_labels: Path | None = None
    k: int = 5
    vote: Literal["experts", "joint"] = "joint"
    unknown_below: float | None = None
    limit: int = 20
    json: bool = False


@dataclass(frozen=True, eq=False)
class _Answers:
    """What was found out about n queries.

    Attributes
    ----------
    votes : ndarray of shape (n, n_classes)
        Each class's share.
    nearest : ndarray of shape (n,)
        The position of the nearest item in the space that counts most.
    familiarity : ndarray of shape (n,)
    """

    classes: NDArray[Any]
    votes: NDArray[np.float64]
    nearest: NDArray[np.int64]
    familiarity: NDArray[np.float64]
    known: NDArray[np.bool_]

    @cached_property
    def labels(self) -> NDArray[Any]:
        """The class with most votes, also of queries that are not known."""
        return np.asarray(self.classes[self.votes.argmax(axis=1)])


def run(console: Console, errors: Console, order: Order) -> None:
    """Classify the queries and say what was found."""
    model = Model.read(order.model)
    items = Items.read(order.items, model, order.labels)
    queries = Items.read(order.queries, model, order.query_labels)
    labels = items.needed_labels("--labels")
    check_same_kind(items, queries)
    classifier = Classifier(model.metric, order.k, order.vote, order.unknown_below)
    with about(items.path):
        classifier.fit(items.table, labels)
    answers = _answers(errors, classifier, model.metric, queries)
    quality = None if queries.labels is None else _quality(queries.labels, answers)
    if order.json:
        found = [_as_json(row, answers, items, queries) for row in range(len(queries))]
        about_items = {"file": items.path, "n_items": len(items), "classes": answers.classes}
        settings = {"k": order.k, "vote": str(order.vote), "unknown_below": order.unknown_below}
        head = {"model": model.described(), "items": about_items, **settings}
        print_json({**head, "answers": found, "quality": quality})
    else:
        _print(console, order, answers, items, queries)
        _print_quality(console, quality)


def _answers(errors: Console, classifier: Classifier, metric: Metric, queries: Items) -> _Answers:
    """One search for each block of queries, and all that follows from it."""
    weights = [space.weight for space in metric.spaces] if classifier.vote == "experts" else [1.0]
    most = int(np.argmax(weights))
    votes, nearest, familiarity = [], [], []
    with progress(errors, len(queries), "queries") as advance, about(queries.path):
        for rows in blocks(len(queries), _BLOCK):
            answer = classifier.votes(queries.table[rows])
            votes.append(answer.shares)
            nearest.append(answer.neighbours.positions[most, :, 0])
            familiarity.append(answer.familiarity)
            advance(rows.stop - rows.start)
    shares, familiar = np.concatenate(votes), np.concatenate(familiarity)
    known = np.ones(len(familiar), bool)
    if classifier.unknown_below is not None:
        known = familiar >= classifier.unknown_below
    return _Answers(classifier.classes_, shares, np.concatenate(nearest), familiar, known)


def _quality(truth: NDArray[Any], answers: _Answers) -> dict[str, Any]:
    """How many of the answers are right. Unknown is no answer."""
    known, n = answers.known, int(answers.known.sum())
    said, true = answers.labels[known], truth[known]
    return {
        "n_queries": len(truth),
        "n_unknown": len(truth) - n,
        "error_rate": error_rate(true, said) if n else None,
        "macro_f1": macro_f1(true, said) if n else None,
    }


def _as_json(row: int, answers: _Answers, items: Items, queries: Items) -> dict[str, Any]:
    votes, known = answers.votes[row], bool(answers.known[row])
    ranked = [at for at in np.argsort(-votes, kind="stable") if votes[at] > 0]
    truth = {} if queries.labels is None else {"truth": queries.labels[row]}
    return {
        "query": queries.keys[row],
        "label": answers.labels[row] if known else None,
        "share": votes.max(),
        "nearest": items.keys[answers.nearest[row]],
        "familiarity": answers.familiarity[row],
        **truth,
        "votes": [{"label": answers.classes[at], "share": votes[at]} for at in ranked],
    }


def _print(console: Console, order: Order, answers: _Answers, items: Items, queries: Items) -> None:
    """A line for each query, up to the limit."""
    truth = queries.labels
    titles = ["query", "label", ">share", "nearest item", ">familiarity"]
    shown = table(*titles, *([] if truth is None else ["truth"]))
    n = min(order.limit or len(queries), len(queries))
    for row, label in enumerate(answers.labels[:n].tolist()):
        known, right = answers.known[row], truth is None or label == truth[row]
        style = "dim" if not known else "" if right else "red"
        cells = [
            cell(queries.keys[row]),
            cell(label if known else "unknown", style),
            cell(number(answers.votes[row].max(), 2)),
            cell(items.keys[answers.nearest[row]]),
            cell(number(answers.familiarity[row])),
        ]
        shown.add_row(*cells, *([] if truth is None else [cell(truth[row], style)]))
    console.print(shown)
    print_rest(console, n, len(queries), "queries")


def _print_quality(console: Console, quality: dict[str, Any] | None) -> None:
    if quality is None:
        return
    n, unknown = quality["n_queries"], quality["n_unknown"]
    share = f"{unknown:,} of {n:,} queries ({unknown / n:.1%}), not counted below" if unknown else None
    print_facts(
        console,
        {
            "unknown": share,
            "error rate": f"{number(quality['error_rate'], 4)} of {n - unknown:,} answers",
            "macro F1": number(quality["macro_f1"], 4),
        },
    )
