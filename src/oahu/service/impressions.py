"""Impressions: the results that a search has shown, so that a click can refer to them by an id."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Final, NamedTuple

from oahu.service.outcomes import ShownList, Sides

__all__ = ["Impressions"]

_MAX_SHOWN: Final = 100  # results per impression


class _Impression(NamedTuple):
    expires_at: float
    shown: ShownList


class Impressions:
    """The results of recent searches, by id. They are kept in memory only, and are lost at a restart.

    Parameters
    ----------
    limit : int
        Maximum number of impressions. The oldest impression is dropped first.
    seconds : float
        Time after which an impression expires.
    clock : callable
        Returns the current time in seconds.
    """

    def __init__(self, limit: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit, self._seconds, self._clock = limit, seconds, clock
        self._impressions: OrderedDict[str, _Impression] = OrderedDict()
        self._lock = Lock()

    def add(self, keys: Sequence[str], sides: Sides | None = None, is_learned: bool = True) -> str:
        """Store the keys of the first 100 results of a search. Return the id of the impression.

        ``sides`` and ``is_learned`` tell which ranking contributed the results. See `ShownList`.
        """
        shown = ShownList(tuple(keys[:_MAX_SHOWN]), sides, is_learned)
        id_, now = secrets.token_urlsafe(12), self._clock()
        with self._lock:
            self._impressions[id_] = _Impression(now + self._seconds, shown)
            while len(self._impressions) > self._limit or self._oldest().expires_at <= now:
                self._impressions.popitem(last=False)
        return id_

    def shown(self, id_: str) -> tuple[str, ...] | None:
        """Return the keys of the results, or None if the impression is unknown or expired."""
        found = self.get(id_)
        return None if found is None else found.keys

    def get(self, id_: str) -> ShownList | None:
        """Return the shown list, or None if the impression is unknown or expired."""
        with self._lock:
            found = self._impressions.get(id_)
        return None if found is None or found.expires_at <= self._clock() else found.shown

    def _oldest(self) -> _Impression:
        return next(iter(self._impressions.values()))

    def __len__(self) -> int:
        return len(self._impressions)
