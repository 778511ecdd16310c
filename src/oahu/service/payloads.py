"""Payloads of items: their limits, and JSON merge patches (RFC 7396)."""

from __future__ import annotations

from typing import Any, Final

import orjson

from oahu.service.errors import InvalidRequestError

__all__ = ["check_payload", "merge_patch"]

_MAX_BYTES: Final = 64 * 2**10
_MAX_DEPTH: Final = 64


def check_payload(payload: dict[str, Any] | None, where: str) -> None:
    """Raise an error if a payload is too large or too deeply nested. ``where`` is its location in the request."""
    if _is_deeper(payload, _MAX_DEPTH):
        raise InvalidRequestError(f"{where} must be nested at most {_MAX_DEPTH} levels deep.", where=where)
    size = len(orjson.dumps(payload))
    if size > _MAX_BYTES:
        raise InvalidRequestError(
            f"{where} must have at most {_MAX_BYTES} bytes as JSON. Got {size} instead.", where=where
        )


def _is_deeper(value: Any, depth: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    children = value.values() if isinstance(value, dict) else value
    return depth == 0 or any(_is_deeper(child, depth - 1) for child in children)


def merge_patch(target: Any, patch: Any) -> Any:
    """Return a JSON value changed by a merge patch (RFC 7396). Null removes a field. Lists are replaced.

    >>> merge_patch({"size": {"cm": 3, "inch": 1.2}, "tags": ["new"]}, {"size": {"inch": None}, "tags": ["sale"]})
    {'size': {'cm': 3}, 'tags': ['sale']}
    """
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged
