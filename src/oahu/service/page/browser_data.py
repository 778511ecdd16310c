"""Items and feedback records as JSON data for the browser. The browser shows these data only as text."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, Final
from urllib.parse import quote, urlencode

import orjson

from oahu.constraints import Triplet
from oahu.service.collection import Collection
from oahu.service.records import (
    FEEDBACK,
    CatalogueItem,
    Change,
    Click,
    FeedbackRecord,
    LoggedChange,
    ModelReplacement,
    SettingsChange,
    SourceWeight,
    Undo,
    items_of,
    map_items,
)

__all__ = [
    "keys_of",
    "log_row",
    "page_path",
    "thumbnail_path",
    "tile",
    "tile_with_payload",
    "tiles",
]

_MAX_CHARACTERS: Final = 160  # per payload value
_MAX_FIELDS: Final = 12  # per payload


def page_path(name: str, **parameters: str | None) -> str:
    """Return the path of a collection's page. Empty parameters are left out."""
    query = urlencode({key: value for key, value in parameters.items() if value})
    return f"/collections/{quote(name, safe='')}" + (f"?{query}" if query else "")


def thumbnail_path(name: str, key: str) -> str | None:
    """Return the path of an item's thumbnail, or None for the keys "." and "..", which browsers remove from paths.

    >>> thumbnail_path("books", "a/b?c#d")
    '/v1/collections/books/thumbnails/a%2Fb%3Fc%23d'
    """
    if key in (".", ".."):
        return None
    return f"/v1/collections/{quote(name, safe='')}/thumbnails/{quote(key, safe='')}"


def tile(name: str, item: CatalogueItem) -> dict[str, Any]:
    """Return the data of an item's tile."""
    src = thumbnail_path(name, item.key) if item.has_thumbnail else None
    return {"key": item.key, "label": item.label, "src": src}


def tiles(collection: Collection, keys: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return a dictionary of tiles by item key. The tile of a deleted item contains only the key."""
    distinct = list(dict.fromkeys(keys))
    found = collection.catalogue.items(distinct)
    name = collection.config.name
    deleted = {"label": None, "src": None, "deleted": True}
    return {key: tile(name, found[key]) if key in found else {"key": key, **deleted} for key in distinct}


def tile_with_payload(name: str, item: CatalogueItem) -> dict[str, Any]:
    """Return the data of an item's tile with the first fields of its payload."""
    fields = [[key, _text(value)] for key, value in islice((item.payload or {}).items(), _MAX_FIELDS)]
    return {**tile(name, item), "payload": fields}


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text if len(text) <= _MAX_CHARACTERS else f"{text[: _MAX_CHARACTERS - 1]}…"


def keys_of(change: Change) -> tuple[str, ...]:
    """Return the keys of the items in a log record, and the names of its query vectors."""
    return items_of(_with_names(change)) if isinstance(change, FEEDBACK) else ()


def _with_names(record: FeedbackRecord) -> FeedbackRecord:
    """Return a feedback record with texts instead of query vectors."""
    return map_items(record, str)


def log_row(record: LoggedChange, active: bool, shown: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the data of one row of the log view: an item with similar and dissimilar items, or a text."""
    row: dict[str, Any] = {"seq": record.seq, "time": record.time, "active": active}
    change = record.change
    if isinstance(change, Undo):
        range_ = f"{change.first}" if change.first == change.last else f"{change.first} to {change.last}"
        return {**row, "active": True, "note": f"Undo of {range_}"}
    if isinstance(change, ModelReplacement):
        return {**row, "active": True, "note": f"Model uploaded, SHA-256 {change.sha256[:12]}…"}
    if isinstance(change, SourceWeight):
        effect = "undone" if change.weight == 0 else f"weighted by {change.weight:g}"
        return {**row, "active": True, "note": f"All earlier feedback of {change.source} {effect}"}
    if isinstance(change, SettingsChange):
        return {**row, "active": True, "note": f"Settings changed: {', '.join(change.settings)}"}
    named = _with_names(change)
    if isinstance(named, Click):
        item, similar, dissimilar, _ = named
    elif isinstance(named, Triplet):
        item, similar, dissimilar = named.anchor, (named.positive,), (named.negative,)
    else:
        item, other = named.first, (named.second,)
        similar, dissimilar = (other, ()) if named.same else ((), other)
    return {
        **row,
        "item": shown[item],
        "similar": [shown[key] for key in similar],
        "dissimilar": [shown[key] for key in dissimilar],
    }
