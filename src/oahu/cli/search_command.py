"""`oahu search`: find the items that are most similar to queries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice, pairwise
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
    check_folder,
    check_label_types,
    check_picture,
    row_blocks,
)
from oahu.cli.options import FORMATS, Combine, FeatureFile, JsonFlag, LabelFile, QueryLabelFile, VoteOption
from oahu.cli.output import (
    article,
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
    from oahu.tasks.matches import Key

__all__ = ["SearchOptions", "search"]

_BLOCK = 1024  # queries per search
_MAX_SHEET_ROWS = 100
_MAX_KEY_LENGTH = 20  # characters of a key in a contact sheet


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """Options of `oahu search`."""

    model: Annotated[
        Path, typer.Option(help="Model file with a learner, a metric, or an index (written by --save).")
    ]
    features: FeatureFile = None
    query: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Id of an item to use as a query. Can be repeated.")
    ] = None
    queries: Annotated[Path | None, typer.Option(help=f"Items to use as queries ({FORMATS}).")] = None
    labels: LabelFile = None
    query_labels: QueryLabelFile = None
    k: Annotated[int, typer.Option(min=1, help="Number of matches per query.")] = 10
    vote: VoteOption = None
    combine: Annotated[
        Combine | None,
        typer.Option(
            help="Only with --vote experts: how to combine the experts' scores of an item. max: the highest score. "
            "sum: the sum of the scores.",
            show_default="max",
        ),
    ] = None
    approximate: Annotated[
        bool, typer.Option("--approximate", help="Use approximate search. It is faster, but it can miss matches.")
    ] = False
    sheet: Annotated[
        Path | None,
        typer.Option(help="File for a picture with the images of queries and matches (.png, .pdf or .svg)."),
    ] = None
    shape: Annotated[
        str | None,
        typer.Option(
            metavar="HxW", help="Shape of the images for --sheet, such as 8x8 or 32x32x3.", show_default="square"
        ),
    ] = None
    invert: Annotated[
        bool,
        typer.Option(
            "--invert", help="Draw large feature values dark on --sheet. By default, large values are bright."
        ),
    ] = False
    save: Annotated[Path | None, typer.Option(help="File to write the index to. It can be used as --model.")] = None
    limit: Annotated[int, typer.Option(min=0, help="Number of queries to show. 0 shows all queries.")] = 10
    json: JsonFlag = False


@dataclass(frozen=True, eq=False)
class _IndexedItems:
    """A search index and its items."""

    retriever: oahu.Retriever
    items: LoadedItems


@dataclass(frozen=True, eq=False)
class _Query:
    """A query. If ``indexed`` is true, the query is an item of the index and is excluded from its own matches."""

    key: Key
    values: NDArray[Any]
    label: Any
    indexed: bool


def search(options: SearchOptions) -> None:
    """Find the items that are most similar to queries.

    Queries are items of the index (--query) or items of another file (--queries).
    """
    shape = _check(options)
    model = LoadedModel.read(options.model)
    indexed = _index(options, model)
    others = None if options.queries is None else LoadedItems.read(options.queries, model, options.query_labels)
    if others is not None:
        check_label_types(indexed.items, others)
    own = list(_own_queries(options, indexed.items))
    n_queries = len(own) + (0 if others is None else len(others))
    n_shown = min(options.limit or n_queries, n_queries)
    queries = list(islice(chain(own, _other_queries(others)), n_queries if options.json else n_shown))
    results = _search(options, indexed, queries)
    if options.sheet is not None:
        _draw_sheet(options.sheet, options, shape, indexed.items, queries[: min(n_shown, _MAX_SHEET_ROWS)], results)
    if options.save is not None:
        indexed.retriever.save(options.save)
    if options.json:
        answers = [_result_json(*both, indexed.items) for both in zip(queries, results, strict=True)]
        settings = {"n_items": len(indexed.retriever), "k": options.k}
        print_json({"model": model.as_json(), **settings, "queries": answers})
        return
    if queries:
        console.print(_table(queries, results, indexed.items))
        print_hidden_count(console, n_shown, n_queries, "queries")
    facts = {"saved": options.save, "sheet": options.sheet}
    print_facts(
        console, {name: None if path is None else str(path) for name, path in facts.items()}, below=bool(queries)
    )


def _check(options: SearchOptions) -> tuple[int, ...] | None:
    """Raise an error if options contradict each other. Return the shape of the images, or None if not given."""
    check_picture(options.sheet)
    check_folder(options.save)
    no_query = not options.query and options.queries is None
    if no_query and options.save is None:
        raise oahu.InvalidInputError("There are no queries. Give --query ID or --queries FILE.")
    if no_query and options.sheet is not None:
        raise oahu.InvalidInputError("--sheet needs queries. Give --query ID or --queries FILE.")
    if options.sheet is None and (options.shape is not None or options.invert):
        raise oahu.InvalidInputError("--shape and --invert can only be used with --sheet FILE.")
    if options.shape is None:
        return None
    if not re.fullmatch(r"[1-9]\d*x[1-9]\d*(x3)?", options.shape):
        raise oahu.InvalidInputError(f"--shape must have the form 8x8 or 32x32x3. Got {options.shape!r} instead.")
    return tuple(map(int, options.shape.split("x")))


def _index(options: SearchOptions, model: LoadedModel) -> _IndexedItems:
    """Return the index in the model file, or a new index of the feature table."""
    if isinstance(model.content, oahu.Retriever):
        return _saved_index(options, model, model.content)
    if options.features is None:
        raise oahu.InvalidInputError(
            f"{model.path} contains {article(model.class_name)}, but no items. Give the items with --features FILE."
        )
    items = LoadedItems.read(options.features, model, options.labels)
    settings: dict[str, Any] = {"approximate": options.approximate}
    if options.vote is not None:
        settings["vote"] = options.vote.value
    if options.combine is not None:
        settings["combine"] = options.combine.value
    retriever = oahu.Retriever(model.metric, **settings)
    with add_path_to_errors(items.path):
        retriever.add(items.keys, items.table)
    return _IndexedItems(retriever, items)


def _saved_index(options: SearchOptions, model: LoadedModel, retriever: oahu.Retriever) -> _IndexedItems:
    """Return a saved index. Raise an error if an option would change the items or the settings of the index."""
    from oahu.io.features import FeatureTable

    fixed = {
        "--features": options.features,
        "--vote": options.vote,
        "--combine": options.combine,
        "--approximate": options.approximate,
    }
    for option, value in fixed.items():
        if value:
            raise oahu.InvalidInputError(
                f"The items and settings of the index in {model.path} cannot be changed. Remove {option}."
            )
    keys, values = retriever.contents()
    labels = None if options.labels is None else oahu.read_labels(options.labels)
    if labels is not None and len(labels) != len(keys):
        raise oahu.InvalidInputError(
            f"{options.labels} has {len(labels)} labels, but {model.path} has {len(keys)} items. Give one label "
            "per item, in the order in which the items were added."
        )
    rows = {key: row for row, key in enumerate(keys)}
    return _IndexedItems(retriever, LoadedItems(model.path, FeatureTable(values, rows), labels))


def _own_queries(options: SearchOptions, items: LoadedItems) -> Iterator[_Query]:
    """Yield the items of the index that are named by --query."""
    from oahu.io.streams import as_id

    for text in options.query or ():
        with add_path_to_errors(items.path):
            row = items.features.row(text)
        label = None if items.labels is None else items.labels[row].item()
        yield _Query(as_id(text), items.table[row], label, indexed=True)


def _other_queries(queries: LoadedItems | None) -> Iterator[_Query]:
    """Yield the queries in the file --queries."""
    if queries is None:
        return
    labels = [None] * len(queries) if queries.labels is None else queries.labels.tolist()
    for key, values, label in zip(queries.keys, queries.table, labels, strict=True):
        yield _Query(key, values, label, indexed=False)


def _search(options: SearchOptions, indexed: _IndexedItems, queries: list[_Query]) -> list[oahu.RetrievalResult]:
    """Return the matches of each query. The queries are processed in blocks."""
    results: list[oahu.RetrievalResult] = []
    with progress(error_console, len(queries), "queries") as advance:
        for rows in row_blocks(len(queries), _BLOCK):
            block = queries[rows]
            values = np.stack([query.values for query in block])
            exclude = [query.key if query.indexed else None for query in block]
            with add_path_to_errors(options.queries):
                found = indexed.retriever.search_batch(values, options.k, exclude=exclude)
            results.extend(found)
            advance(len(block))
    return results


def _result_json(query: _Query, result: oahu.RetrievalResult, items: LoadedItems) -> dict[str, Any]:
    label = {} if query.label is None else {"label": query.label}
    matches = [_match_json(match, items) for match in result]
    return {"query": query.key, **label, "version": result.version, "matches": matches}


def _match_json(match: oahu.Match, items: LoadedItems) -> dict[str, Any]:
    label = {} if items.labels is None else {"label": items.labels[items.features.row(match.key)]}
    return {
        "key": match.key,
        **label,
        "distance": match.distance,
        "similarity": match.similarity,
        "votes": match.votes,
    }


def _table(queries: list[_Query], results: list[oahu.RetrievalResult], items: LoadedItems) -> Table:
    """Return a table with one section per query. Labels that differ from the query's label are red."""
    has_distance = all(match.distance is not None for result in results for match in result)
    labels = [] if items.labels is None else ["label"]
    many = len(queries) > 1
    last = ">distance" if has_distance else ">similarity"
    shown = table(*(["query"] if many else []), ">rank", "item", *labels, last, "found by")
    for query, result in zip(queries, results, strict=True):
        name = str(query.key) if query.label is None else f"{query.key} ({query.label})"
        for rank, match in enumerate(result, 1):
            cells = [cell(name if rank == 1 else "", "bold")] if many else []
            cells += [cell(rank), cell(match.key)]
            if items.labels is not None:
                label = items.labels[items.features.row(match.key)].item()
                cells.append(cell(label, "" if query.label in (None, label) else "red"))
            measure = match.distance if has_distance else match.similarity
            experts = " ".join(expert.space for expert in match.votes)
            shown.add_row(*cells, cell(number(measure, 4)), cell(experts, "dim"))
        shown.add_section()
    if not many:
        shown.title, shown.title_justify, shown.title_style = cell(f"most similar to {name}"), "left", "bold"
    return shown


def _draw_sheet(
    path: Path,
    options: SearchOptions,
    shape: tuple[int, ...] | None,
    items: LoadedItems,
    queries: list[_Query],
    results: list[oahu.RetrievalResult],
) -> None:
    """Draw the queries and their matches as images."""
    from oahu.plots import as_images, contact_sheet

    rows = [[items.features.row(match.key) for match in result] for result in islice(results, len(queries))]
    all_rows = [row for match_rows in rows for row in match_rows]
    values = np.concatenate([np.stack([query.values for query in queries]), items.table[all_rows]])
    images = as_images(values, shape)  # one call, so that all images have the same grey scale
    if options.invert:
        images = 1 - images
    ends = np.cumsum([len(queries), *map(len, rows)])
    match_images = [list(images[start:end]) for start, end in pairwise(ends)]
    captions, titles, right = [], [], []
    for query, result, match_rows in zip(queries, results, rows, strict=False):
        labels = [None] * len(match_rows) if items.labels is None else items.labels[match_rows].tolist()
        labelled = query.label is not None and items.labels is not None
        titles.append(_caption(query.key, query.label))
        captions.append([_caption(match.key, label, match) for match, label in zip(result, labels, strict=True)])
        right.append([label == query.label if labelled else None for label in labels])
    any_labelled = any(mark is not None for marks in right for mark in marks)
    picture = contact_sheet(
        list(images[: len(queries)]), match_images, captions, titles, right if any_labelled else None
    )
    picture.savefig(path)


def _caption(key: Key, label: Any, match: oahu.Match | None = None) -> str:
    """Return the key, label and distance of an item as text. The first part of a long key is omitted."""
    text = str(key)
    text = text if len(text) <= _MAX_KEY_LENGTH else f"…{text[1 - _MAX_KEY_LENGTH :]}"
    name = text if label is None else f"{text} · {label}"
    if match is None:
        return name
    return f"{name}\n{number(match.similarity if match.distance is None else match.distance)}"
