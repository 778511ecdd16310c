"""Search for words by their beginnings, in the key, the label and the payload of an item."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from oahu.service.errors import InvalidRequestError
from oahu.service.records import CatalogueItem

__all__ = ["ascii_fragments", "has_words", "words_of"]

_WORD: Final = re.compile(r"\w+")
_ASCII: Final = re.compile(r"[a-z0-9]+")
#: The only letters outside ASCII with ASCII letters in lower case: a capital I with a dot, and the Kelvin sign.
_KEPT: Final = re.compile("([\u0130\u212a])")


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case. Raise an error if there is no word.

    >>> words_of("Gyokuro, No. 5")
    ['gyokuro', 'no', '5']
    """
    words = _WORD.findall(_lower(text))
    if not words:
        raise InvalidRequestError("text must contain a letter or a digit.", where="text")
    return words


def ascii_fragments(words: Sequence[str]) -> list[str]:
    """Return the longest run of ASCII letters and digits of each word. Words without such a run are left out.

    A text that contains a word also contains its fragment, if the case of ASCII letters is ignored.

    >>> ascii_fragments(["grün", "tea", "ö"])
    ['gr', 'tea']
    """
    runs = (max(_ASCII.findall(word), key=len, default="") for word in words)
    return [run for run in runs if run]


def has_words(item: CatalogueItem, words: Sequence[str]) -> bool:
    """Return whether each of the given words is the beginning of a word of an item."""
    found = [word for text in _texts([item.key, item.label, item.payload]) for word in _WORD.findall(_lower(text))]
    return all(any(word.startswith(wanted) for word in found) for wanted in words)


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts in a JSON value, without the names of fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def _lower(text: str) -> str:
    """Return a text in lower case. Only ASCII letters become ASCII letters, as in comparisons of SQLite."""
    return "".join(part if _KEPT.fullmatch(part) else part.lower() for part in _KEPT.split(text))
