"""Short descriptions of values for error messages."""

from __future__ import annotations

import reprlib
from typing import Any, Final

import numpy as np

__all__ = ["shorten"]

_MAX_LENGTH: Final = 80
_MAX_ENTRIES: Final = 4

_repr: Final = reprlib.Repr()
_repr.maxlist = _repr.maxtuple = _repr.maxset = _repr.maxfrozenset = _repr.maxdict = _repr.maxarray = _MAX_ENTRIES
_repr.maxstring = _repr.maxother = _repr.maxlong = _MAX_LENGTH


def shorten(value: Any) -> str:
    """Return the ``repr`` of a value, cut to 80 characters. For a large array, return its type and shape instead.

    >>> shorten(list(range(384)))
    '[0, 1, 2, 3, ...]'
    >>> shorten(np.zeros(384))
    'array of float64, shape (384,)'
    """
    if isinstance(value, np.ndarray) and value.size > _MAX_ENTRIES:
        return f"array of {value.dtype}, shape {value.shape}"
    text = _repr.repr(value)
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 3]}..."
