"""`oahu evaluate`: evaluate a model against Euclidean and cosine baselines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table

import oahu
from oahu.cli.inputs import (
    LoadedItems,
    LoadedModel,
    add_path_to_errors,
    check_label_types,
    check_picture,
    row_blocks,
)
from oahu.cli.options import FORMATS, JsonFlag, LabelFile, MetricFile, PairFile, QueryLabelFile, Seed, VoteOption
from oahu.cli.output import Advance, cell, console, error_console, number, print_facts, print_json, progress, table
from oahu.cli.pair_files import read_pairs
from oahu.cli.verification_rates import roc_rates

if TYPE_CHECKING:
    from oahu.metrics import Metric

__all__ = ["EvaluateOptions", "evaluate"]

_BLOCK = 1024  # queries or triplets per call
_DEPTHS = (1, 2, 4, 8)
_LOWER_IS_BETTER = ("error_rate", "eer")


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """Options of `oahu evaluate`."""

    model: MetricFile
    items: Annotated[Path | None, typer.Option(help=f"Labelled items to search ({FORMATS}).")] = None
    queries: Annotated[
        Path | None,
        typer.Option(
            help=f"Labelled items to evaluate with ({FORMATS}). The model must not be trained on these items."
        ),
    ] = None
    labels: LabelFile = None
    query_labels: QueryLabelFile = None
    k: Annotated[int, typer.Option(min=1, help="Number of nearest neighbours (k).")] = 5
    vote: VoteOption = None
    pairs: PairFile = None
    n_pairs: Annotated[
        int,
        typer.Option(
            min=0, help="Number of pairs to draw from the labels of the queries. --pairs replaces these pairs."
        ),
    ] = 10_000
    n_triplets: Annotated[
        int, typer.Option(min=0, help="Number of triplets to draw from the labels of the queries.")
    ] = 10_000
    seed: Seed = 0
    plot: Annotated[
        Path | None,
        typer.Option(help="File for a plot of ROC curves and of each expert's embedding (.png, .pdf or .svg)."),
    ] = None
    json: JsonFlag = False


@dataclass(frozen=True, eq=False)
class _TestData:
    """Items, queries, pairs and triplets on which every metric is evaluated."""

    items: LoadedItems
    queries: LoadedItems
    labels: NDArray[Any]
    truth: NDArray[Any]
    pairs: oahu.Pairs | None
    triplets: NDArray[np.intp] | None
    k: int
    settings: dict[str, Any]  # of classifier and retriever

    @property
    def n_steps(self) -> int:
        """Number of steps of the progress bar for one metric."""
        n_triplets = 0 if self.triplets is None else len(self.triplets)
        return 2 * len(self.queries) + (0 if self.pairs is None else len(self.pairs)) + n_triplets

    @property
    def depths(self) -> tuple[int, ...]:
        """Values of k for Recall@k, at most the number of items."""
        return tuple(k for k in _DEPTHS if k <= len(self.items))


@dataclass(frozen=True, eq=False)
class _Measurements:
    """Scores and ROC curve of one metric. A score that cannot be measured is None."""

    numbers: dict[str, float | None]
    roc: oahu.Roc | None


def evaluate(options: EvaluateOptions) -> None:
    """Evaluate a model against Euclidean and cosine baselines.

    Scores for classification, comparison, retrieval and triplets are measured on labelled queries.
    """
    check_picture(options.plot)
    if options.items is None or options.queries is None:
        raise oahu.InvalidInputError(
            "Give --items FILE and --queries FILE. --items is the file of items to search. --queries is a file of "
            "items that the model was not trained on."
        )
    if options.items.resolve() == options.queries.resolve():
        raise oahu.InvalidInputError(
            f"--items and --queries are the same file, {options.items}. Use two files, because every query would "
            "find itself."
        )
    model = LoadedModel.read(options.model)
    items = LoadedItems.read(options.items, model, options.labels)
    queries = LoadedItems.read(options.queries, model, options.query_labels)
    test = _make_test(options, items, queries, model)
    n, dtype = model.metric.n_features, str(model.metric.dtype)
    metrics: dict[str, Metric] = {
        "model": model.metric,
        "euclidean": oahu.EuclideanMetric(n, dtype),
        "cosine": oahu.CosineMetric(n, dtype),
    }
    with progress(error_console, len(metrics) * test.n_steps, "measuring") as advance:
        measured = {name: _measure(metric, name, test, advance) for name, metric in metrics.items()}
    if options.plot is not None:
        _draw(options.plot, model, test, measured)
    if options.json:
        results = {name: one.numbers for name, one in measured.items()}
        print_json({"model": model.as_json(), **_settings_json(options, test), "results": results})
    else:
        console.print(_table(model, measured))
        print_facts(console, _facts(options, test))


def _make_test(options: EvaluateOptions, items: LoadedItems, queries: LoadedItems, model: LoadedModel) -> _TestData:
    labels, truth = items.require_labels("--labels"), queries.require_labels("--query-labels")
    check_label_types(items, queries)
    pairs = _pairs(options, queries, truth, model)
    triplets = None
    if options.n_triplets:
        with add_path_to_errors(queries.path, "--n-triplets 0 skips triplets."):
            triplets = oahu.sample_triplets(truth, options.n_triplets, options.seed)
    settings = {} if options.vote is None else {"vote": options.vote.value}
    return _TestData(items, queries, labels, truth, pairs, triplets, options.k, settings)


def _pairs(
    options: EvaluateOptions, queries: LoadedItems, truth: NDArray[Any], model: LoadedModel
) -> oahu.Pairs | None:
    """Return the pairs in the file --pairs, or pairs drawn from the labels of the queries."""
    if options.pairs is not None:
        return read_pairs(options.pairs, queries, model).only_labelled(options.pairs).pairs
    if not options.n_pairs:
        return None
    with add_path_to_errors(queries.path, "--n-pairs 0 skips pairs."):
        return oahu.Pairs(*oahu.sample_pairs(truth, options.n_pairs, options.seed), preprocessor=queries.table)


def _measure(metric: Metric, name: str, test: _TestData, advance: Advance) -> _Measurements:
    """Measure all scores of one metric."""
    from oahu.evaluation import error_rate, macro_f1, recall_at_k

    advance(0, f"{name}: classification")
    predicted = _predict(metric, test, advance)
    advance(0, f"{name}: retrieval")
    recalls = recall_at_k(test.truth, _retrieve_labels(metric, test, advance), test.depths)
    roc = None
    if test.pairs is not None:
        advance(0, f"{name}: comparison")
        with add_path_to_errors(test.queries.path):
            roc = oahu.Comparator(metric).roc(test.pairs)
        advance(len(test.pairs))
    advance(0, f"{name}: triplets")
    numbers: dict[str, float | None] = {
        "error_rate": error_rate(test.truth, predicted),
        "macro_f1": macro_f1(test.truth, predicted),
        **roc_rates(roc),
        **{f"recall@{k}": recall for k, recall in recalls.items()},
        "triplet_accuracy": _triplet_accuracy(metric, test, advance),
    }
    return _Measurements(numbers, roc)


def _predict(metric: Metric, test: _TestData, advance: Advance) -> NDArray[Any]:
    """Return the predicted labels of the queries."""
    with add_path_to_errors(test.items.path):
        classifier = oahu.Classifier(metric, test.k, **test.settings).fit(test.items.table, test.labels)
    predicted = []
    for rows in row_blocks(len(test.queries), _BLOCK):
        with add_path_to_errors(test.queries.path):
            predicted.append(classifier.predict(test.queries.table[rows]))
        advance(rows.stop - rows.start)
    return np.concatenate(predicted)


def _retrieve_labels(metric: Metric, test: _TestData, advance: Advance) -> NDArray[Any]:
    """Return the labels of each query's matches, best match first."""
    with add_path_to_errors(test.items.path):
        retriever = oahu.Retriever(metric, **test.settings).add(range(len(test.items)), test.items.table)
    found: list[Any] = []
    for rows in row_blocks(len(test.queries), _BLOCK):
        with add_path_to_errors(test.queries.path):
            found += retriever.search_batch(test.queries.table[rows], max(test.depths)).keys
        advance(rows.stop - rows.start)
    return np.asarray(test.labels[np.array(found)])


def _triplet_accuracy(metric: Metric, test: _TestData, advance: Advance) -> float | None:
    """Return the share of triplets in which the positive is closer to the anchor than the negative."""
    from oahu.evaluation import triplet_accuracy

    if test.triplets is None:
        return None
    scores = []
    for rows in row_blocks(len(test.triplets), _BLOCK):
        with add_path_to_errors(test.queries.path):
            items = metric.check_dense(test.queries.table[test.triplets[rows].ravel()])
            scores.append(metric.scores_to_first(items, 3))
        advance(rows.stop - rows.start)
    return triplet_accuracy(*np.concatenate(scores, axis=1))


def _settings_json(options: EvaluateOptions, test: _TestData) -> dict[str, Any]:
    pairs = test.pairs
    return {
        "items": {"file": test.items.path, "n_items": len(test.items)},
        "queries": {"file": test.queries.path, "n_items": len(test.queries)},
        "n_classes": len(np.unique(test.labels)),
        "pairs": None if pairs is None else {"n_pairs": len(pairs), "n_similar": int(pairs.same.sum())},
        "n_triplets": 0 if test.triplets is None else len(test.triplets),
        "k": test.k,
        "vote": test.settings.get("vote"),
        "seed": options.seed,
    }


_NAMES = {"euclidean": "Euclidean", "cosine": "cosine"}
_TITLES = {
    "error_rate": "error rate",
    "macro_f1": "macro F1",
    "auc": "AUC",
    "eer": "EER",
    "triplet_accuracy": "triplet accuracy",
}


def _table(model: LoadedModel, measured: dict[str, _Measurements]) -> Table:
    """Return a table with a row per measure and a column per metric. The best value of a row is bold."""
    shown = table("", f">{model.class_name}", *(f">{name}" for name in _NAMES.values()), ">better")
    section_ends = ("macro_f1", "tar@far=0.001", "recall@8")
    for measure in measured["model"].numbers:
        numbers = [one.numbers[measure] for one in measured.values()]
        texts = [number(value, 4) for value in numbers]
        available = [value for value in numbers if value is not None]
        if available:
            lower = measure in _LOWER_IS_BETTER
            best = number(min(available) if lower else max(available), 4)
            title = _TITLES.get(measure, measure.replace("tar@far", "TAR@FAR").replace("recall", "Recall"))
            cells = [cell(text, "bold" if text == best else "") for text in texts]
            shown.add_row(cell(title), *cells, cell("lower" if lower else "higher", "dim"))
        if measure in section_ends:
            shown.add_section()
    return shown


def _facts(options: EvaluateOptions, test: _TestData) -> dict[str, str | None]:
    """Return a text about the test data of each task, by name of the task."""
    pairs, triplets = test.pairs, test.triplets
    drawn = f"drawn from the labels of the queries, seed {options.seed}"
    comparison = None
    if pairs is not None:
        comparison = f"{int(pairs.same.sum()):,} similar and {int((~pairs.same).sum()):,} dissimilar pairs, "
        comparison += drawn if options.pairs is None else f"from {options.pairs}"
    vote = f", vote {test.settings['vote']}" if test.settings else ""
    return {
        "classification": f"{len(test.queries):,} queries, {test.k} nearest of {len(test.items):,} items{vote}",
        "comparison": comparison,
        "retrieval": "Recall@k: one of the first k matches has the query's label",
        "triplets": None if triplets is None else f"{len(triplets):,}, {drawn}",
        "plot": None if options.plot is None else str(options.plot),
    }


def _draw(path: Path, model: LoadedModel, test: _TestData, measured: dict[str, _Measurements]) -> None:
    """Draw a plot of the ROC curves and of the queries in each expert's embedding."""
    from oahu.plots import embeddings, figure, roc_curve

    spaces = model.metric.spaces
    with_roc = test.pairs is not None
    n = len(spaces) + with_roc
    columns = min(n, 4)
    title = f"{model.class_name}, {len(test.queries):,} queries"
    picture, axes = figure(columns, title, -(-n // columns), (4.6, 4.2))
    if with_roc:
        for name, one in measured.items():
            assert one.roc is not None
            label = model.class_name if name == "model" else _NAMES[name]
            roc_curve(axes[0], one.roc.far, one.roc.tar, label, log=True)
    chosen = np.sort(np.random.default_rng(0).permutation(len(test.queries))[:2000])
    vectors = model.metric.encode(test.queries.table[chosen])
    names, weights = [space.name for space in spaces], [space.weight for space in spaces]
    embeddings(axes[with_roc:], vectors, test.truth[chosen], names, weights)
    picture.savefig(path)
