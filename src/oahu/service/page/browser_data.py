"""Items and what was said of them, as plain values for the browser. It shows all of it as text."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any
from urllib.parse import quote, urlencode

import orjson

from oahu.constraints import Pair, Triplet
from oahu.service.collection import Collection
from oahu.service.records import CatalogueItem, Change, Click, LoggedChange, ModelReplacement, Undo

__all__ = ["address", "entry_of", "keys_of", "plate", "thumbnail", "tile", "tiles"]

_SHORT = 160  # characters of a value that are shown
_FACTS = 12  # values of a payload that are shown


def address(name: str, **given: str | None) -> str:
    """Where a collection is looked at, and in which way."""
    asked = urlencode({key: value for key, value in given.items() if value})
    return f"/collections/{quote(name, safe='')}" + (f"?{asked}" if asked else "")


def thumbnail(name: str, key: str) -> str | None:
    """Where an item's image is. Browsers take some keys for a step in the path: those have none.

    >>> thumbnail("books", "a/b?c#d")
    '/v1/collections/books/thumbnails/a%2Fb%3Fc%23d'
    """
    if key in (".", ".."):
        return None
    return f"/v1/collections/{quote(name, safe='')}/thumbnails/{quote(key, safe='')}"


def tile(name: str, item: CatalogueItem) -> dict[str, Any]:
    """An item as a tile."""
    src = thumbnail(name, item.key) if item.has_thumbnail else None
    return {"key": item.key, "label": item.label, "src": src}


def tiles(collection: Collection, keys: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Tiles by key; items that are gone have only their key."""
    wanted = list(dict.fromkeys(keys))
    found = collection.items(wanted)
    name = collection.config.name
    gone = {"label": None, "src": None, "gone": True}
    return {key: tile(name, found[key]) if key in found else {"key": key, **gone} for key in wanted}


def plate(name: str, item: CatalogueItem) -> dict[str, Any]:
    """An item with all that is known of it."""
    facts = [[key, _text(value)] for key, value in islice((item.payload or {}).items(), _FACTS)]
    return {**tile(name, item), "facts": facts}


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 1]}…"


def keys_of(change: Change) -> tuple[str, ...]:
    """The items that an entry of the log is about."""
    if isinstance(change, Click):
        return (change.query, *change.positive, *change.negative)
    if isinstance(change, Triplet):
        return tuple(change)
    return (change.first, change.second) if isinstance(change, Pair) else ()


def entry_of(entry: LoggedChange, counts: bool, known: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """An entry of the log: who is like whom, and unlike whom; or what else happened."""
    told: dict[str, Any] = {"seq": entry.seq, "time": entry.time, "counts": counts}
    change = entry.change
    if isinstance(change, Undo):
        which = f"{change.first}" if change.first == change.last else f"{change.first} to {change.last}"
        return {**told, "counts": True, "note": f"Undid {which}"}
    if isinstance(change, ModelReplacement):
        return {**told, "counts": True, "note": f"A model took over, sha256 {change.sha256[:12]}…"}
    if isinstance(change, Click):
        first, alike, unlike = change
    elif isinstance(change, Triplet):
        first, alike, unlike = change.anchor, (change.positive,), (change.negative,)
    else:
        first, other = change.first, (change.second,)
        alike, unlike = (other, ()) if change.same else ((), other)
    return {
        **told,
        "first": known[first],
        "alike": [known[key] for key in alike],
        "unlike": [known[key] for key in unlike],
    }
