"""`oahu search`: which items are most like these?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from oahu.cli.inputs import Items, Model, about, blocks, check_folder, check_picture, check_same_kind
from oahu.cli.output import cell, number, print_facts, print_json, print_rest, progress, table
from oahu.exceptions import InvalidInputError
from oahu.io.features import FeatureTable, read_labels
from oahu.io.streams import as_id
from oahu.tasks import Match, Result, Retriever
from oahu.tasks.matches import Key

__all__ = ["Order", "run"]

_BLOCK = 1024  # queries at a time
_TALLEST = 100  # queries in a sheet
_LETTERS = 20  # of a key in a sheet


@dataclass(frozen=True)
class Order:
    """What was asked for on the command line."""

    model: Path
    features: Path | None = None
    labels: Path | None = None
    ids: tuple[str, ...] = ()
    queries: Path | None = None
    query_labels: Path | None = None
    k: int = 10
    vote: Literal["experts", "joint"] | None = None
    combine: Literal["max", "sum"] | None = None
    approximate: bool = False
    sheet: Path | None = None
    shape: str | None = None
    invert: bool = False
    save: Path | None = None
    limit: int = 10
    json: bool = False


@dataclass(frozen=True, eq=False)
class _Catalogue:
    """What is searched: an index, and the items in it as they were given."""

    retriever: Retriever
    items: Items


@dataclass(frozen=True, eq=False)
class _Query:
    """What is searched for. ``own`` says that it is itself among the items, and not to be found."""

    key: Key
    values: NDArray[Any]
    label: Any
    own: bool


def run(console: Console, errors: Console, order: Order) -> None:
    """Search, and say what was found."""
    shape = _check(order)
    model = Model.read(order.model)
    catalogue = _catalogue(order, model)
    queries = None if order.queries is None else Items.read(order.queries, model, order.query_labels)
    if queries is not None:
        check_same_kind(catalogue.items, queries)
    own = list(_own(order, catalogue.items))
    n_asked = len(own) + (0 if queries is None else len(queries))
    n_shown = min(order.limit or n_asked, n_asked)
    asked = list(islice(chain(own, _foreign(queries)), n_asked if order.json else n_shown))
    results = _searched(errors, order, catalogue, asked)
    if order.sheet is not None:
        _draw(order, shape, catalogue.items, asked[: min(n_shown, _TALLEST)], results)
    if order.save is not None:
        catalogue.retriever.save(order.save)
    if order.json:
        said = [_as_json(*both, catalogue.items) for both in zip(asked, results, strict=True)]
        head = {"model": model.described(), "n_items": len(catalogue.retriever), "k": order.k}
        print_json({**head, "queries": said})
        return
    if asked:
        console.print(_table(asked, results, catalogue.items))
    print_rest(console, n_shown, n_asked, "queries")
    written = {"sheet": order.sheet, "index": order.save}
    facts = {name: str(path) for name, path in written.items() if path is not None}
    print_facts(console, facts, below=bool(asked))


# -- what is searched, and for what ----------------------------------------------------------------------


def _check(order: Order) -> tuple[int, ...] | None:
    """Refuse what cannot be meant; the shape of an image, if it was given."""
    check_picture(order.sheet)
    check_folder(order.save)
    if not order.ids and order.queries is None and order.save is None:
        raise InvalidInputError("There is nothing to search for: give --query ID or --queries FILE.")
    if not order.ids and order.queries is None and order.sheet is not None:
        raise InvalidInputError("A sheet shows what was found: give --query ID or --queries FILE.")
    if order.sheet is None and (order.shape is not None or order.invert):
        raise InvalidInputError("--shape and --invert are about the images of a sheet (--sheet FILE).")
    if order.shape is None:
        return None
    if not re.fullmatch(r"[1-9]\d*x[1-9]\d*(x3)?", order.shape):
        raise InvalidInputError(f"The shape of an image is such as 8x8, or 32x32x3. Got {order.shape!r} instead.")
    return tuple(map(int, order.shape.split("x")))


def _catalogue(order: Order, model: Model) -> _Catalogue:
    """The index in the file, or one of the features."""
    if isinstance(model.loaded, Retriever):
        return _held(order, model, model.loaded)
    if order.features is None:
        raise InvalidInputError(f"{model.path} holds a {model.name}, and no items: give them (--features FILE).")
    items = Items.read(order.features, model, order.labels)
    given = {"vote": order.vote, "combine": order.combine, "approximate": order.approximate}
    settings: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    retriever = Retriever(model.metric, **settings)
    with about(items.path):
        retriever.add(items.keys, items.table)
    return _Catalogue(retriever, items)


def _held(order: Order, model: Model, retriever: Retriever) -> _Catalogue:
    """An index that was saved brings its items and its settings along."""
    given = {"--features": order.features, "--vote": order.vote, "--combine": order.combine}
    for option, value in [*given.items(), ("--approximate", order.approximate)]:
        if value:
            raise InvalidInputError(
                f"{model.path} is an index with items and settings of its own: leave {option} out."
            )
    keys, table = retriever.contents()
    labels = None if order.labels is None else read_labels(order.labels)
    if labels is not None and len(labels) != len(keys):
        raise InvalidInputError(
            f"{order.labels} has {len(labels)} labels, and {model.path} has {len(keys)} items: every item needs "
            "one, in the order in which they were added."
        )
    rows = {key: row for row, key in enumerate(keys)}
    return _Catalogue(retriever, Items(model.path, FeatureTable(table, rows), labels))


def _own(order: Order, items: Items) -> Iterator[_Query]:
    """Items of the catalogue to find the likes of."""
    for text in order.ids:
        with about(items.path):
            row = items.features.row(text)
        label = None if items.labels is None else items.labels[row].item()
        yield _Query(as_id(text), items.table[row], label, own=True)


def _foreign(queries: Items | None) -> Iterator[_Query]:
    """Items of another file."""
    if queries is None:
        return
    labels = [None] * len(queries) if queries.labels is None else queries.labels.tolist()
    for key, values, label in zip(queries.keys, queries.table, labels, strict=True):
        yield _Query(key, values, label, own=False)


def _searched(errors: Console, order: Order, catalogue: _Catalogue, queries: list[_Query]) -> list[Result]:
    """Some at a time."""
    results: list[Result] = []
    with progress(errors, len(queries), "queries") as advance:
        for rows in blocks(len(queries), _BLOCK):
            part = queries[rows]
            values = np.stack([query.values for query in part])
            with about(order.queries):
                found = catalogue.retriever.search_batch(
                    values, order.k, exclude=[query.key if query.own else None for query in part]
                )
            found.similarities  # noqa: B018  # of all at once: it is kept
            results.extend(found)
            advance(len(part))
    return results


# -- saying it -------------------------------------------------------------------------------------------


def _as_json(query: _Query, result: Result, items: Items) -> dict[str, Any]:
    label = {} if query.label is None else {"label": query.label}
    return {"query": query.key, **label, "version": result.version, "matches": [_found(m, items) for m in result]}


def _found(match: Match, items: Items) -> dict[str, Any]:
    label = {} if items.labels is None else {"label": items.labels[items.features.row(match.key)]}
    return {
        "key": match.key,
        **label,
        "score": match.score,
        "distance": match.distance,
        "similarity": match.similarity,
        "evidence": match.evidence,
    }


def _table(queries: list[_Query], results: list[Result], items: Items) -> Table:
    """A section for each query."""
    by_distance = all(match.distance is not None for result in results for match in result)
    labels = [] if items.labels is None else ["label"]
    many = len(queries) > 1
    last = ">distance" if by_distance else ">similarity"
    shown = table(*(["query"] if many else []), ">rank", "item", *labels, ">score", last, "found by")
    for query, result in zip(queries, results, strict=True):
        name = str(query.key) if query.label is None else f"{query.key} ({query.label})"
        for rank, match in enumerate(result, 1):
            cells = [cell(name if rank == 1 else "", "bold")] if many else []
            cells += [cell(rank), cell(match.key)]
            if items.labels is not None:
                label = items.labels[items.features.row(match.key)].item()
                cells.append(cell(label, "" if query.label in (None, label) else "red"))
            apart = match.distance if by_distance else match.similarity
            experts = " ".join(one.space for one in match.evidence)
            shown.add_row(*cells, cell(number(match.score)), cell(number(apart, 4)), cell(experts, "dim"))
        shown.add_section()
    if not many:
        shown.title, shown.title_justify, shown.title_style = cell(f"most like {name}"), "left", "bold"
    return shown


def _draw(
    order: Order, shape: tuple[int, ...] | None, items: Items, queries: list[_Query], results: list[Result]
) -> None:
    """What was asked and what was found, as images."""
    from oahu.plots import as_images, contact_sheet

    assert order.sheet is not None
    rows = [[items.features.row(match.key) for match in result] for result in islice(results, len(queries))]
    flat = [row for found in rows for row in found]
    everything = np.concatenate([np.stack([query.values for query in queries]), items.table[flat]])
    images = as_images(everything, shape)
    if order.invert:
        images = 1 - images
    ends = np.cumsum([len(queries), *map(len, rows)])
    found = [list(images[start:end]) for start, end in pairwise(ends)]
    captions, titles, right = [], [], []
    for query, result, places in zip(queries, results, rows, strict=False):
        labels = [None] * len(places) if items.labels is None else items.labels[places].tolist()
        known = query.label is not None and items.labels is not None
        titles.append(_caption(query.key, query.label))
        captions.append([_caption(m.key, label, m) for m, label in zip(result, labels, strict=True)])
        right.append([label == query.label if known else None for label in labels])
    some_known = any(mark is not None for marks in right for mark in marks)
    sheet = contact_sheet(list(images[: len(queries)]), found, captions, titles, right if some_known else None)
    sheet.savefig(order.sheet)


def _caption(key: Key, label: Any, match: Match | None = None) -> str:
    """An item's key, its label if it is known, and below how far it is. Of a long key, such as a path, the end."""
    text = str(key)
    text = text if len(text) <= _LETTERS else f"…{text[1 - _LETTERS :]}"
    name = text if label is None else f"{text} · {label}"
    if match is None:
        return name
    return f"{name}\n{number(match.similarity if match.distance is None else match.distance)}"
