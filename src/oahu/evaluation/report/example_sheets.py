"""Figures with example images: answers in verification and retrieval, and matches before and after clicks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from oahu import plots
from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.report.experiments import Experiment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["click_sheet", "example_sheet", "load_images", "pair_sheet", "retrieval_sheet"]

_IMAGE_TYPES: Final = (".jpg", ".jpeg", ".png")


def example_sheet(experiment: Experiment, dataset: Dataset | None) -> tuple[Figure, str] | None:
    """Return a figure with examples, and its caption. The examples are from the reference method's first run.

    Return None if there are no examples or no images.
    """
    reference = experiment.reference
    examples = reference.curves("examples") if reference else []
    name = experiment.reference_name
    if examples and experiment.protocol == "verification":
        sheet = pair_sheet(examples[0], dataset)
        caption = f"Pairs that {name} classified correctly (solid green) and wrongly (dashed red)"
    elif examples and experiment.protocol == "retrieval":
        sheet = retrieval_sheet(examples[0], dataset)
        caption = f"Queries and their matches by {name}: the same class in solid green, other classes in dashed red"
    elif examples and experiment.protocol == "clicks":
        sheet = click_sheet(examples[0], dataset)
        caption = (
            f"Four unseen queries and their matches in the unlearned ranking, and below by {name} after "
            f"{experiment.sweep[-1]:,.0f} clicks: alike items in solid green, other items in dashed red"
        )
    else:
        return None
    return None if sheet is None else (sheet, f"{caption}, {experiment.title}.")


def load_images(dataset: Dataset | None, names: Iterable[Any]) -> dict[Any, NDArray[np.float64]]:
    """Return the images of items as a dict. Its keys are the given names: keys or row numbers of the items.

    Items without an image are left out.
    """
    rows = {} if dataset is None else _row_numbers(dataset, names)
    if dataset is None or not rows:
        return {}
    if dataset.image_shape is not None:
        return dict(zip(rows, plots.as_images(dataset.X[list(rows.values())], dataset.image_shape), strict=True))
    if dataset.images is not None:
        return {name: dataset.images[row] / 255 for name, row in rows.items()}
    if dataset.image_folder is None or dataset.keys is None:
        return {}
    found = [path for path in sorted(dataset.image_folder.rglob("*")) if path.suffix.lower() in _IMAGE_TYPES]
    files = {name: path for path in found for name in (path.stem, path.name)}
    keys = {name: str(dataset.keys[row]) for name, row in rows.items()}
    return {name: plots.read_image(files[key]) for name, key in keys.items() if key in files}


def _row_numbers(dataset: Dataset, names: Iterable[Any]) -> dict[Any, int]:
    """Return the row numbers of items. Items are given by row number or by key. Unknown items are left out."""
    by_key = {} if dataset.keys is None else {str(key): row for row, key in enumerate(dataset.keys)}
    rows = {name: name if isinstance(name, int) else by_key.get(name, -1) for name in names}
    return {name: row for name, row in rows.items() if 0 <= row < len(dataset)}


def pair_sheet(examples: Mapping[str, Any], dataset: Dataset | None) -> Figure | None:
    """Return a figure of pairs with right and wrong answers and their vote shares, or None if there are no images.

    An example is a mapping with the items ``a`` and ``b`` (keys or row numbers), ``same`` and ``vote_share``.
    """
    entries = [(entry, kind == "right") for kind in ("right", "wrong") for entry in examples.get(kind) or ()]
    images = load_images(dataset, [entry[side] for entry, _ in entries for side in "ab"])
    shown = [(entry, is_right) for entry, is_right in entries if {entry["a"], entry["b"]} <= images.keys()]
    if not shown:
        return None
    pairs = [(images[entry["a"]], images[entry["b"]]) for entry, _ in shown]
    texts = [
        f"{'same' if entry['same'] else 'different'}, vote share {entry['vote_share']:.2f}" for entry, _ in shown
    ]
    return plots.pair_sheet(pairs, texts, [is_right for _, is_right in shown])


def retrieval_sheet(examples: Mapping[str, Any], dataset: Dataset | None) -> Figure | None:
    """Return a figure of queries and their matches, or None if there are no images.

    An example is a mapping with the query item ``query`` and the matches ``found``, nearest match first. Items are
    given by key or by row number. A match is right if it has the query's label.
    """
    entries = [entry for kind in ("right", "wrong") for entry in examples.get(kind) or ()]
    return _matches_sheet(entries, [""] * len(entries), dataset)


def click_sheet(examples: Mapping[str, Any], dataset: Dataset | None) -> Figure | None:
    """Return a figure of queries with their matches before and after learning, or None if there are no images.

    ``examples`` has the examples of the unlearned ranking (``unlearned``) and those of the learned ranking
    (``learned``), in the form of `retrieval_sheet`. Each query has two rows.
    """
    pairs = list(zip(examples.get("unlearned") or (), examples.get("learned") or (), strict=False))
    entries = [entry for pair in pairs for entry in pair]
    return _matches_sheet(entries, ["unlearned", "learned"] * len(pairs), dataset)


def _matches_sheet(
    entries: Sequence[Mapping[str, Any]], titles: Sequence[str], dataset: Dataset | None
) -> Figure | None:
    """Return a figure with a row for each query. Queries without images are left out."""
    images = load_images(dataset, [name for entry in entries for name in (entry["query"], *entry["found"])])
    has_images = [{entry["query"], *entry["found"]} <= images.keys() for entry in entries]
    shown = [entry for entry, kept in zip(entries, has_images, strict=True) if kept]
    if not shown or dataset is None:
        return None
    names = [title for title, kept in zip(titles, has_images, strict=True) if kept]
    labels = {name: dataset.y[row] for name, row in _row_numbers(dataset, images).items()}
    is_right = [[bool(labels[name] == labels[entry["query"]]) for name in entry["found"]] for entry in shown]
    queries = [images[entry["query"]] for entry in shown]
    matches = [[images[name] for name in entry["found"]] for entry in shown]
    return plots.contact_sheet(queries, matches, titles=names, right=is_right)
