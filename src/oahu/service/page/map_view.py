"""The map of a catalogue: where items were before anything was learned, and where they are now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final
from urllib.parse import quote
from weakref import WeakKeyDictionary

import numpy as np
import orjson
from anyio import to_thread
from numpy.typing import NDArray

from oahu.metrics.metric import DistanceMetric, Metric
from oahu.service.collection import Collection
from oahu.service.page.catalogue_view import natural
from oahu.service.page.layout import Part
from oahu.service.page.map_layout import aligned, plane, sample, shown

__all__ = ["Atlas"]

_MOST: Final = 1_000  # items on a map
_COLOURS: Final = 10
_NO_VECTORS: Final = "This metric scores pairs and has no vectors, so there is nothing to draw a map of."
_TOO_FEW: Final = "A map needs three items at least."


@dataclass(frozen=True)
class _Map:
    """Some items, and where they were before anything was learned."""

    numbers: NDArray[np.int64]
    keys: list[str]
    labels: list[str | None]
    total: int
    before: NDArray[np.float64]
    features: NDArray[Any]


class _Maps:
    """The maps of all collections: drawn once, for however many look at them."""

    def __init__(self) -> None:
        self._drawn: WeakKeyDictionary[Collection, tuple[_Map, int, NDArray[np.float64]]] = WeakKeyDictionary()
        self._drawing = Lock()

    def of(self, collection: Collection) -> tuple[_Map, NDArray[np.float64]] | None:
        """A collection's map, and where its items are now; None if the metric has no vectors."""
        published = collection.published
        if not isinstance(collection.start, DistanceMetric):
            return None
        with self._drawing:
            catalogue = collection.catalogue
            numbers, labels = catalogue.present()
            drawn = self._drawn.get(collection)
            at = sample(numbers, _MOST)
            chosen = np.array(numbers, np.int64)[at]
            named = [labels[place] for place in at.tolist()]
            if drawn is None or not np.array_equal(drawn[0].numbers, chosen) or drawn[0].labels != named:
                features = catalogue.table.take(chosen)
                before = plane(_vectors(collection.start, features))
                keys = [catalogue.table.name(one) for one in chosen.tolist()]
                drawn = _Map(chosen, keys, named, len(numbers), before, features), -1, before
            if drawn[1] != published.version:
                now = aligned(plane(_vectors(published.metric, drawn[0].features)), drawn[0].before)
                drawn = drawn[0], published.version, now
            self._drawn[collection] = drawn
        return drawn[0], drawn[2]


def _vectors(metric: Metric, features: NDArray[Any]) -> NDArray[Any]:
    assert isinstance(metric, DistanceMetric)
    return np.asarray(metric.transform(features)) if len(features) else features


def _ordered(counts: Counter[str]) -> list[str]:
    """Labels: the most common first if they are many, for only they have a colour; else by name."""
    common = [label for label, _ in counts.most_common()]
    return common if len(common) > _COLOURS else sorted(common, key=natural)


_maps: Final = _Maps()


class _AtlasPart(Part, component="components/oahu_map.js"):
    """Points, before and after."""


class Atlas:
    """The map of a collection, for one browser."""

    def __init__(self, collection: Collection, search: Callable[[str], Awaitable[None]]) -> None:
        self._collection, self._sent = collection, ""
        self._part = _AtlasPart()
        self._part.show(message="Drawing …")
        self._part.on("search", lambda event: search(str(event.args)))

    async def refresh(self, query: str | None) -> None:
        """Draw it as it is now."""
        told, after = await to_thread.run_sync(self._told, query)
        if told != self._sent:
            self._sent = told
            self._part._props["data"] = told
        self._part._props["after"] = after

    def _told(self, query: str | None) -> tuple[str, str]:
        found = _maps.of(self._collection)
        if found is None or len(found[0].numbers) < 3:
            message = _NO_VECTORS if found is None else _TOO_FEW
            return orjson.dumps({"message": message}).decode(), "[]"
        drawn, now = found
        name, keys = self._collection.config.name, drawn.keys
        there = self._collection.items(keys)
        labels = _ordered(Counter(one for one in drawn.labels if one is not None))
        places = {label: at for at, label in enumerate(labels)}
        told = {
            "message": "",
            "items": [[key, key in there and there[key].has_thumbnail and key not in (".", "..")] for key in keys],
            "base": f"/v1/collections/{quote(name, safe='')}/thumbnails/",
            "groups": [places.get(label or "", -1) for label in drawn.labels],
            "labels": labels,
            "total": drawn.total,
            "before": shown(drawn.before),
            "query": keys.index(query) if query in keys else None,
        }
        return orjson.dumps(told).decode(), orjson.dumps(shown(now)).decode()
