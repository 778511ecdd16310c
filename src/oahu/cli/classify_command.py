"""`oahu classify`: classify items by their nearest labelled neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table

import oahu
from oahu.cli.inputs import LoadedItems, LoadedModel, add_path_to_errors, check_label_types, row_blocks
from oahu.cli.options import FORMATS, JsonFlag, LabelFile, MetricFile, QueryLabelFile, VoteOption
from oahu.cli.output import (
    cell,
    console,
    error_console,
    number,
    print_facts,
    print_hidden_count,
    print_json,
    progress,
    table,
)

if TYPE_CHECKING:
    from oahu.metrics import Metric

__all__ = ["ClassifyOptions", "classify"]

_BLOCK = 1024  # queries per search


@dataclass(frozen=True, kw_only=True)
class ClassifyOptions:
    """Options of `oahu classify`."""

    model: MetricFile
    items: Annotated[Path, typer.Option(help=f"Labelled items ({FORMATS}).")]
    queries: Annotated[
        Path,
        typer.Option(help=f"Items to classify ({FORMATS}). If the file has labels, the error rate is printed."),
    ]
    labels: LabelFile = None
    query_labels: QueryLabelFile = None
    k: Annotated[int, typer.Option(min=1, help="Number of nearest neighbours (k).")] = 5
    vote: VoteOption = None
    unknown_below: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            help="Answer 'unknown' for queries with a familiarity below S. Familiarity is the similarity "
            "of a query to its nearest item.",
        ),
    ] = None
    limit: Annotated[int, typer.Option(min=0, help="Number of queries to show. 0 shows all queries.")] = 20
    json: JsonFlag = False


@dataclass(frozen=True, eq=False)
class _Predictions:
    """Predicted labels of n queries.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        Labels of the classes.
    shares : ndarray of shape (n, n_classes)
        Share of the votes for each class.
    nearest : ndarray of shape (n,)
        Row number of the item that is nearest to each query. The space of the expert with the largest weight is
        searched.
    familiarity : ndarray of shape (n,)
        Similarity of each query to its nearest item.
    known : ndarray of bool, of shape (n,)
        False for queries with the answer "unknown".
    """

    classes: NDArray[Any]
    shares: NDArray[np.float64]
    nearest: NDArray[np.int64]
    familiarity: NDArray[np.float64]
    known: NDArray[np.bool_]

    @cached_property
    def labels(self) -> NDArray[Any]:
        """Class with the most votes for each query, including queries with the answer "unknown"."""
        return np.asarray(self.classes[self.shares.argmax(axis=1)])


def classify(options: ClassifyOptions) -> None:
    """Classify items by their nearest labelled neighbours."""
    model = LoadedModel.read(options.model)
    items = LoadedItems.read(options.items, model, options.labels)
    queries = LoadedItems.read(options.queries, model, options.query_labels)
    labels = items.require_labels("--labels")
    check_label_types(items, queries)
    settings: dict[str, Any] = {} if options.vote is None else {"vote": options.vote.value}
    classifier = oahu.Classifier(model.metric, options.k, unknown_below=options.unknown_below, **settings)
    with add_path_to_errors(items.path):
        classifier.fit(items.table, labels)
    predictions = _predict(classifier, model.metric, queries)
    quality = None if queries.labels is None else _quality(queries.labels, predictions)
    if options.json:
        print_json(
            {
                "model": model.as_json(),
                "items": {"file": items.path, "n_items": len(items), "classes": predictions.classes},
                "k": options.k,
                "vote": str(classifier.vote),
                "unknown_below": options.unknown_below,
                "answers": [_as_json(row, predictions, items, queries) for row in range(len(queries))],
                "quality": quality,
            }
        )
        return
    n_shown = min(options.limit or len(queries), len(queries))
    console.print(_table(n_shown, predictions, items, queries))
    print_hidden_count(console, n_shown, len(queries), "queries")
    if quality is not None:
        print_facts(console, _quality_facts(quality))


def _predict(classifier: oahu.Classifier, metric: Metric, queries: LoadedItems) -> _Predictions:
    """Classify the queries, one block of rows at a time."""
    weights = [space.weight for space in metric.spaces] if classifier.vote == "experts" else [1.0]
    largest = int(np.argmax(weights))
    shares, nearest, familiarity = [], [], []
    with progress(error_console, len(queries), "queries") as advance, add_path_to_errors(queries.path):
        for rows in row_blocks(len(queries), _BLOCK):
            votes = classifier.votes(queries.table[rows])
            shares.append(votes.shares)
            nearest.append(votes.neighbours.positions[largest, :, 0])
            familiarity.append(votes.familiarity)
            advance(rows.stop - rows.start)
    familiar = np.concatenate(familiarity)
    known = np.ones(len(familiar), bool)
    if classifier.unknown_below is not None:
        known = familiar >= classifier.unknown_below
    return _Predictions(classifier.classes_, np.concatenate(shares), np.concatenate(nearest), familiar, known)


def _quality(truth: NDArray[Any], predictions: _Predictions) -> dict[str, Any]:
    """Return the error rate and macro F1 over the queries that are not answered with "unknown"."""
    from oahu.evaluation import error_rate, macro_f1

    known = predictions.known
    predicted, expected = predictions.labels[known], truth[known]
    return {
        "n_queries": len(truth),
        "n_unknown": int(np.sum(~known)),
        "error_rate": error_rate(expected, predicted) if len(predicted) else None,
        "macro_f1": macro_f1(expected, predicted) if len(predicted) else None,
    }


def _as_json(row: int, predictions: _Predictions, items: LoadedItems, queries: LoadedItems) -> dict[str, Any]:
    shares = predictions.shares[row]
    ranked = [at for at in np.argsort(-shares, kind="stable") if shares[at] > 0]
    truth = {} if queries.labels is None else {"truth": queries.labels[row]}
    return {
        "query": queries.keys[row],
        "label": predictions.labels[row] if predictions.known[row] else None,
        "share": shares.max(),
        "nearest": items.keys[predictions.nearest[row]],
        "familiarity": predictions.familiarity[row],
        **truth,
        "votes": [{"label": predictions.classes[at], "share": shares[at]} for at in ranked],
    }


def _table(n_shown: int, predictions: _Predictions, items: LoadedItems, queries: LoadedItems) -> Table:
    """Return a table with one line for each of the first ``n_shown`` queries. Wrong labels are red."""
    truth = queries.labels
    titles = ["query", "label", ">share", "nearest item", ">familiarity"]
    shown = table(*titles, *([] if truth is None else ["truth"]))
    for row, label in enumerate(predictions.labels[:n_shown].tolist()):
        known, right = predictions.known[row], truth is None or label == truth[row]
        style = "dim" if not known else "" if right else "red"
        cells = [
            cell(queries.keys[row]),
            cell(label if known else "unknown", style),
            cell(number(predictions.shares[row].max(), 2)),
            cell(items.keys[predictions.nearest[row]]),
            cell(number(predictions.familiarity[row])),
        ]
        shown.add_row(*cells, *([] if truth is None else [cell(truth[row], style)]))
    return shown


def _quality_facts(quality: dict[str, Any]) -> dict[str, str | None]:
    n, n_unknown = quality["n_queries"], quality["n_unknown"]
    unknown = f"{n_unknown:,} of {n:,} queries ({n_unknown / n:.1%}), not included in the scores below"
    return {
        "unknown": unknown if n_unknown else None,
        "error rate": f"{number(quality['error_rate'], 4)} of {n - n_unknown:,} answers",
        "macro F1": number(quality["macro_f1"], 4),
    }
