"""Figures with example images: right and wrong answers in verification and retrieval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from oahu import plots
from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.report.experiments import Experiment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["example_sheet", "load_images", "pair_sheet", "retrieval_sheet"]

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
    images = load_images(dataset, [name for entry in entries for name in (entry["query"], *entry["found"])])
    shown = [entry for entry in entries if {entry["query"], *entry["found"]} <= images.keys()]
    if not shown or dataset is None:
        return None
    labels = {name: dataset.y[row] for name, row in _row_numbers(dataset, images).items()}
    is_right = [[bool(labels[name] == labels[entry["query"]]) for name in entry["found"]] for entry in shown]
    queries = [images[entry["query"]] for entry in shown]
    matches = [[images[name] for name in entry["found"]] for entry in shown]
    return plots.contact_sheet(queries, matches, right=is_right)
