"""The map view: the items of a catalogue as points, before and after learning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, NamedTuple
from urllib.parse import quote
from weakref import WeakKeyDictionary

import numpy as np
import orjson
from anyio import to_thread
from numpy.typing import NDArray

from oahu.metrics.metric import DistanceMetric, Metric
from oahu.service.collection import Collection
from oahu.service.page.catalogue_view import natural_order
from oahu.service.page.layout import Component
from oahu.service.page.map_layout import align, project, sample, to_canvas

__all__ = ["MapView"]

_MAX_ITEMS: Final = 1_000
_N_COLOURS: Final = 10
_NO_VECTORS: Final = "A map needs vectors, but this metric has no vectors. It only scores pairs of items."
_TOO_FEW: Final = "A map needs at least three items."


@dataclass(frozen=True)
class _Sample:
    """The items on a map, and their positions before learning."""

    numbers: NDArray[np.int64]
    keys: list[str]
    labels: list[str | None]
    n_items: int
    features: NDArray[Any]
    before: NDArray[np.float64]


class _Map(NamedTuple):
    sample: _Sample
    metric_version: int
    after: NDArray[np.float64]


class _MapCache:
    """The maps of all collections, shared by all browsers. A map is computed once for each metric version."""

    def __init__(self) -> None:
        self._maps: WeakKeyDictionary[Collection, _Map] = WeakKeyDictionary()
        self._lock = Lock()

    def get(self, collection: Collection) -> _Map | None:
        """Return the current map of a collection, or None if its metric does not encode items as vectors."""
        published = collection.published
        if not isinstance(collection.unlearned_metric, DistanceMetric):
            return None
        with self._lock:
            chosen = _choose_items(collection, self._maps.get(collection))
            found = self._maps.get(collection)
            if found is None or found.sample is not chosen or found.metric_version != published.version:
                after = align(project(_vectors(published.metric, chosen.features)), chosen.before)
                found = self._maps[collection] = _Map(chosen, published.version, after)
        return found


def _choose_items(collection: Collection, previous: _Map | None) -> _Sample:
    """Return a sample of the catalogue. Reuse the previous sample if its items and labels are unchanged."""
    collection.queries.apply_changes()
    index = collection.queries.index
    all_numbers, all_labels = index.items()
    positions = sample(all_numbers, _MAX_ITEMS)
    numbers = np.array(all_numbers, np.int64)[positions]
    labels = [all_labels[position] for position in positions.tolist()]
    if previous and np.array_equal(previous.sample.numbers, numbers) and previous.sample.labels == labels:
        return previous.sample
    features = index.table.take(numbers)
    keys = [index.table.key(number) for number in numbers.tolist()]
    before = project(_vectors(collection.unlearned_metric, features))
    return _Sample(numbers, keys, labels, len(all_numbers), features, before)


def _vectors(metric: Metric, features: NDArray[Any]) -> NDArray[Any]:
    assert isinstance(metric, DistanceMetric)
    return np.asarray(metric.transform(features)) if len(features) else features


def _legend_order(counts: Counter[str]) -> list[str]:
    """Return the labels in natural order.

    If there are more labels than colours, return the labels by frequency instead, most common label first.
    """
    labels = [label for label, _ in counts.most_common()]
    return labels if len(labels) > _N_COLOURS else sorted(labels, key=natural_order)


_maps: Final = _MapCache()


class _MapComponent(Component, component="components/oahu_map.js"):
    """Two panels of points: before and after learning."""


class MapView:
    """The map of a collection in one browser."""

    def __init__(self, collection: Collection, search: Callable[[str], Awaitable[None]]) -> None:
        self._collection, self._sent = collection, ""
        self._component = _MapComponent()
        self._component.show(message="Computing the map …")
        self._component.on("search", lambda event: search(str(event.args)))

    async def refresh(self, query: str | None) -> None:
        """Show the current map. Only changed data are sent to the browser."""
        data, after = await to_thread.run_sync(self._data, query)
        if data != self._sent:
            self._sent = data
            self._component._props["data"] = data
        self._component._props["after"] = after

    def _data(self, query: str | None) -> tuple[str, str]:
        found = _maps.get(self._collection)
        if found is None or len(found.sample.numbers) < 3:
            message = _NO_VECTORS if found is None else _TOO_FEW
            return orjson.dumps({"message": message}).decode(), "[]"
        drawn, keys = found.sample, found.sample.keys
        items = self._collection.catalogue.items(keys)
        labels = _legend_order(Counter(label for label in drawn.labels if label is not None))
        groups = {label: group for group, label in enumerate(labels)}
        data = {
            "message": "",
            "items": [[key, key in items and items[key].has_thumbnail and key not in (".", "..")] for key in keys],
            "base": f"/v1/collections/{quote(self._collection.config.name, safe='')}/thumbnails/",
            "groups": [groups.get(label or "", -1) for label in drawn.labels],
            "labels": labels,
            "total": drawn.n_items,
            "before": to_canvas(drawn.before),
            "query": keys.index(query) if query in keys else None,
        }
        return orjson.dumps(data).decode(), orjson.dumps(to_canvas(found.after)).decode()
