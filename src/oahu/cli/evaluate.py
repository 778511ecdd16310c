"""`oahu evaluate`: how good is a model, next to distances that nobody learned?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from oahu.cli.compare import rates
from oahu.cli.inputs import Items, Model, about, blocks, check_picture, check_same_kind
from oahu.cli.output import Advance, cell, number, print_facts, print_json, progress, table
from oahu.cli.pairs import read_pairs
from oahu.constraints import Pairs, sample_pairs, sample_triplets
from oahu.evaluation import error_rate, macro_f1, recall_at_k, triplet_accuracy
from oahu.exceptions import InvalidInputError
from oahu.metrics import CosineMetric, EuclideanMetric, Metric
from oahu.tasks import Classifier, Comparator, Retriever, Roc

__all__ = ["Order", "run"]

_BLOCK = 1024  # queries or triplets at a time
_DEPTHS = (1, 2, 4, 8)
_LOWER = ("error_rate", "eer")  # is better


@dataclass(frozen=True)
class Order:
    """What was asked for on the command line."""

    model: Path
    items: Path | None = None
    queries: Path | None = None
    labels: Path | None = None
    query_labels: Path | None = None
    k: int = 5
    vote: Literal["experts", "joint"] = "joint"
    pairs: str | None = None
    n_pairs: int = 10_000
    n_triplets: int = 10_000
    seed: int = 0
    plot: Path | None = None
    json: bool = False


@dataclass(frozen=True, eq=False)
class _Task:
    """What every metric is asked: the same items, queries, pairs and triplets."""

    items: Items
    queries: Items
    labels: NDArray[Any]
    truth: NDArray[Any]
    pairs: Pairs | None
    triplets: NDArray[np.intp] | None
    k: int
    vote: Literal["experts", "joint"]

    def __len__(self) -> int:
        """How much there is to do for a metric."""
        n_triplets = 0 if self.triplets is None else len(self.triplets)
        return 2 * len(self.queries) + (0 if self.pairs is None else len(self.pairs)) + n_triplets


@dataclass(frozen=True, eq=False)
class _Measured:
    """How a metric did, by the name of each measure; None for what could not be measured."""

    numbers: dict[str, float | None]
    roc: Roc | None


def run(console: Console, errors: Console, order: Order) -> None:
    """Measure the model, Euclidean distance and cosine, and say how they did."""
    check_picture(order.plot)
    if order.items is not None and order.queries is not None and order.items.resolve() == order.queries.resolve():
        raise InvalidInputError(
            f"--items and --queries are both {order.items}: every query would find itself. Give items that the "
            "metric is not to find in the other file."
        )
    if order.items is None or order.queries is None:
        raise InvalidInputError(
            "evaluate needs both: --items FILE, what neighbours are looked for in, and --queries FILE, items that "
            "the model has not learned from. One file is not split: how to, only you can say."
        )
    model = Model.read(order.model)
    task = _task(order, Items.read(order.items, model, order.labels), model)
    n, dtype = model.metric.n_features, str(model.metric.dtype)
    metrics = {"model": model.metric, "euclidean": EuclideanMetric(n, dtype), "cosine": CosineMetric(n, dtype)}
    with progress(errors, len(metrics) * len(task), "measuring") as advance:
        measured = {name: _measure(metric, name, task, advance) for name, metric in metrics.items()}
    if order.plot is not None:
        _draw(order.plot, model, task, measured)
    if order.json:
        results = {name: one.numbers for name, one in measured.items()}
        print_json({"model": model.described(), **_setting(order, task), "results": results})
    else:
        console.print(_table(model, measured))
        print_facts(console, _facts(order, task))


# -- what is asked ---------------------------------------------------------------------------------------


def _task(order: Order, items: Items, model: Model) -> _Task:
    assert order.queries is not None
    queries = Items.read(order.queries, model, order.query_labels)
    labels, truth = items.needed_labels("--labels"), queries.needed_labels("--query-labels")
    check_same_kind(items, queries)
    pairs = _pairs(order, queries, truth, model)
    triplets = None
    if order.n_triplets:
        with about(queries.path, "--n-triplets 0 leaves triplets out."):
            triplets = sample_triplets(truth, order.n_triplets, order.seed)
    return _Task(items, queries, labels, truth, pairs, triplets, order.k, order.vote)


def _pairs(order: Order, queries: Items, truth: NDArray[Any], model: Model) -> Pairs | None:
    """Those of the file, or drawn from the queries' labels."""
    if order.pairs is not None:
        return read_pairs(order.pairs, queries, model).answered(order.pairs).pairs
    if not order.n_pairs:
        return None
    with about(queries.path, "--n-pairs 0 leaves pairs out."):
        return Pairs(*sample_pairs(truth, order.n_pairs, order.seed), preprocessor=queries.table)


# -- how a metric does -----------------------------------------------------------------------------------


def _measure(metric: Metric, name: str, task: _Task, advance: Advance) -> _Measured:
    """All measures of one metric."""
    advance(0, f"{name}: classifying")
    said = _predicted(metric, task, advance)
    advance(0, f"{name}: retrieving")
    recalls = recall_at_k(task.truth, _retrieved(metric, task, advance), _depths(task))
    roc = None
    if task.pairs is not None:
        advance(0, f"{name}: comparing")
        with about(task.queries.path):
            roc = Comparator(metric).roc(task.pairs)
        advance(len(task.pairs))
    advance(0, f"{name}: ordering triplets")
    numbers: dict[str, float | None] = {
        "error_rate": error_rate(task.truth, said),
        "macro_f1": macro_f1(task.truth, said),
        **rates(roc),
        **{f"recall@{k}": recall for k, recall in recalls.items()},
        "triplet_accuracy": _ordered(metric, task, advance),
    }
    return _Measured(numbers, roc)


def _depths(task: _Task) -> tuple[int, ...]:
    return tuple(k for k in _DEPTHS if k <= len(task.items))


def _predicted(metric: Metric, task: _Task, advance: Advance) -> NDArray[Any]:
    with about(task.items.path):
        classifier = Classifier(metric, task.k, task.vote).fit(task.items.table, task.labels)
    said = []
    for rows in blocks(len(task.queries), _BLOCK):
        with about(task.queries.path):
            said.append(classifier.predict(task.queries.table[rows]))
        advance(rows.stop - rows.start)
    return np.concatenate(said)


def _retrieved(metric: Metric, task: _Task, advance: Advance) -> NDArray[Any]:
    """The labels of what is found for each query, best first."""
    with about(task.items.path):
        retriever = Retriever(metric, task.vote).add(range(len(task.items)), task.items.table)
    found: list[Any] = []
    for rows in blocks(len(task.queries), _BLOCK):
        with about(task.queries.path):
            found += retriever.search_batch(task.queries.table[rows], max(_depths(task))).keys
        advance(rows.stop - rows.start)
    return np.asarray(task.labels[np.array(found)])


def _ordered(metric: Metric, task: _Task, advance: Advance) -> float | None:
    """The share of triplets that are ordered right."""
    if task.triplets is None:
        return None
    scores = []
    for rows in blocks(len(task.triplets), _BLOCK):
        with about(task.queries.path):
            tuples = metric.check_dense(task.queries.table[task.triplets[rows].ravel()])
            scores.append(metric.scores_to_first(tuples, 3))
        advance(rows.stop - rows.start)
    return triplet_accuracy(*np.concatenate(scores, axis=1))


# -- saying it -------------------------------------------------------------------------------------------


def _setting(order: Order, task: _Task) -> dict[str, Any]:
    pairs = task.pairs
    return {
        "items": {"file": task.items.path, "n_items": len(task.items)},
        "queries": {"file": task.queries.path, "n_items": len(task.queries)},
        "n_classes": len(np.unique(task.labels)),
        "pairs": None if pairs is None else {"n_pairs": len(pairs), "n_similar": int(pairs.same.sum())},
        "n_triplets": 0 if task.triplets is None else len(task.triplets),
        "k": task.k,
        "vote": str(task.vote),
        "seed": order.seed,
    }


_NAMES = {"euclidean": "Euclidean", "cosine": "cosine"}
_TITLES = {
    "error_rate": "error rate",
    "macro_f1": "macro F1",
    "auc": "AUC",
    "eer": "EER",
    "triplet_accuracy": "triplets right",
}


def _table(model: Model, measured: dict[str, _Measured]) -> Table:
    """A row for each measure, a column for each metric; the best of a row is bold."""
    shown = table("", f">{model.name}", *(f">{name}" for name in _NAMES.values()), ">best is")
    sections = ("macro_f1", "tar@far=0.001", "recall@8")  # a rule behind each
    for measure in measured["model"].numbers:
        numbers = [one.numbers[measure] for one in measured.values()]
        texts = [number(value, 4) for value in numbers]
        known = [value for value in numbers if value is not None]
        if known:
            best = number(min(known) if measure in _LOWER else max(known), 4)
            title = _TITLES.get(measure, measure.replace("tar@far", "TAR@FAR").replace("recall", "Recall"))
            cells = [cell(text, "bold" if text == best else "") for text in texts]
            shown.add_row(cell(title), *cells, cell("low" if measure in _LOWER else "high", "dim"))
        if measure in sections:
            shown.add_section()
    return shown


def _facts(order: Order, task: _Task) -> dict[str, str | None]:
    pairs, triplets = task.pairs, task.triplets
    drawn = f"drawn from the queries' labels, seed {order.seed}"
    if pairs is None:
        compared = None
    else:
        compared = f"{int(pairs.same.sum()):,} similar and {int((~pairs.same).sum()):,} dissimilar pairs, "
        compared += drawn if order.pairs is None else order.pairs
    neighbours = f"the {task.k} nearest of {len(task.items):,} items" + ", by joint vectors" * (
        task.vote == "joint"
    )
    return {
        "classification": f"{len(task.queries):,} queries by {neighbours}",
        "comparison": compared,
        "retrieval": "Recall@k: one of the first k items has the query's label",
        "triplets": None if triplets is None else f"{len(triplets):,}, {drawn}",
        "plot": None if order.plot is None else str(order.plot),
    }


def _draw(path: Path, model: Model, task: _Task, measured: dict[str, _Measured]) -> None:
    """The ROC curves, and the queries as every expert sees them."""
    from oahu.plots import embeddings, figure, roc_curve

    spaces = model.metric.spaces
    with_roc = task.pairs is not None
    n = len(spaces) + with_roc
    columns = min(n, 4)
    drawn, axes = figure(columns, f"{model.name}, {len(task.queries):,} queries", -(-n // columns), (4.6, 4.2))
    if with_roc:
        for name, one in measured.items():
            assert one.roc is not None
            label = model.name if name == "model" else _NAMES[name]
            roc_curve(axes[0], one.roc.far, one.roc.tar, label, log=True)
    chosen = np.random.default_rng(0).permutation(len(task.queries))[:2000]
    vectors = model.metric.encode(task.queries.table[np.sort(chosen)])
    names, weights = [space.name for space in spaces], [space.weight for space in spaces]
    embeddings(axes[with_roc:], vectors, task.truth[np.sort(chosen)], names, weights)
    drawn.savefig(path)
