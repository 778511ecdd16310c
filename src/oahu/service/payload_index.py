"""The payload index: finds the items whose payloads match a filter."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Lock
from typing import Any, Final

from oahu.service.filters import AllOf, AnyOf, FieldFilter, Filter, Not, Scalar, field_paths, values_at
from oahu.service.records import CatalogueChange

__all__ = ["PayloadIndex"]

_MAX_COLUMNS: Final = 64  # fields in memory

Payload = dict[str, Any]
Path = tuple[str, ...]
_Value = tuple[str, Scalar]  # the kind of the value and the value, because 1 == True in Python


class _Column:
    """The values of one field: the items with each value, and the values of each item."""

    def __init__(self) -> None:
        self._items_with: dict[_Value, int | set[int]] = {}  # a single item needs no set
        self._values_of: dict[int, tuple[_Value, ...]] = {}
        self._sorted: dict[str, list[_Value]] = {}  # by kind; empty after a change

    @property
    def existing(self) -> Iterable[int]:
        """The items in which the field has a value."""
        return self._values_of.keys()

    def put(self, number: int, values: Iterable[Any]) -> None:
        """Replace the values of an item."""
        for value in self._values_of.pop(number, ()):
            self._discard(value, number)
        found = list(values)
        if not found:
            return
        typed = tuple({(_kind(one), one) for one in found if not isinstance(one, dict)})
        self._values_of[number] = typed
        for value in typed:
            self._add(value, number)

    def _add(self, value: _Value, number: int) -> None:
        held = self._items_with.get(value)
        if held is None:
            self._items_with[value] = number
            self._sorted.clear()
        elif isinstance(held, int):
            self._items_with[value] = {held, number}
        else:
            held.add(number)

    def _discard(self, value: _Value, number: int) -> None:
        held = self._items_with[value]
        if isinstance(held, set):
            held.discard(number)
        if isinstance(held, int) or not held:
            del self._items_with[value]
            self._sorted.clear()

    def matching(self, condition: FieldFilter) -> set[int]:
        """Return the items with a value that passes the tests of a condition, apart from ``exists``."""
        if condition.one_of is None:
            wanted: Iterable[_Value] = self._values_within(condition)
        else:
            given = {(_kind(value), value) for value in condition.one_of}
            wanted = [value for value in given if condition.is_within_limits(value[1])]
        found: set[int] = set()
        for value in wanted:
            held = self._items_with.get(value)
            if isinstance(held, int):
                found.add(held)
            elif held is not None:
                found |= held
        return found

    def _values_within(self, condition: FieldFilter) -> list[_Value]:
        """Return the values within the limits of a condition."""
        kinds = {_kind(limit) for limit in condition.limits}
        if len(kinds) > 1:  # no value is both a number and a text
            return []
        (kind,) = kinds
        if kind not in self._sorted:
            self._sorted[kind] = sorted(value for value in self._items_with if value[0] == kind)
        values, begin = self._sorted[kind], 0
        end = len(values)
        if condition.gt is not None:
            begin = max(begin, bisect_right(values, (kind, condition.gt)))
        if condition.gte is not None:
            begin = max(begin, bisect_left(values, (kind, condition.gte)))
        if condition.lt is not None:
            end = min(end, bisect_left(values, (kind, condition.lt)))
        if condition.lte is not None:
            end = min(end, bisect_right(values, (kind, condition.lte)))
        return values[begin:end]


def _kind(value: Scalar) -> str:
    return "truth" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"


class PayloadIndex:
    """The values of the payload fields that filters have used. All methods are thread-safe.

    The first filter on a field reads the payloads of all items. Later filters on the field only use memory. The 64
    most recent fields are kept.

    Parameters
    ----------
    read : callable
        A function that yields the item number and the payload of every stored item.
    """

    def __init__(self, read: Callable[[], Iterator[tuple[int, Payload | None]]]) -> None:
        self._read = read
        self._columns: OrderedDict[Path, _Column] = OrderedDict()
        self._numbers: set[int] = set()
        self._lock, self._building = Lock(), Lock()
        self._missed: list[CatalogueChange] | None = None  # changes while columns are built

    def apply(self, change: CatalogueChange) -> None:
        """Apply a change of the catalogue."""
        with self._lock:
            if self._missed is not None:
                self._missed.append(change)
            if self._columns:
                _apply(change, self._columns, self._numbers)

    def matching(self, filter_: Filter) -> set[int]:
        """Return the item numbers of the items that match a filter."""
        columns = self._columns_of(sorted(field_paths(filter_)))
        with self._lock:
            return _evaluate(filter_, columns, self._numbers)

    def _columns_of(self, paths: Sequence[Path]) -> dict[Path, _Column]:
        with self._building:
            if missing := [path for path in paths if path not in self._columns]:
                self._build(missing)
            with self._lock:
                for path in paths:
                    self._columns.move_to_end(path)
                columns = {path: self._columns[path] for path in paths}
                while len(self._columns) > _MAX_COLUMNS:
                    self._columns.popitem(last=False)
        return columns

    def _build(self, paths: Sequence[Path]) -> None:
        """Add columns. Other threads can apply changes and use other columns meanwhile.

        The changes meanwhile are applied at the end, even if the read payloads include them already.
        """
        missed: list[CatalogueChange] = []
        with self._lock:
            self._missed = missed
        built, numbers = {path: _Column() for path in paths}, set[int]()
        try:
            for number, payload in self._read():
                numbers.add(number)
                for path, column in built.items():
                    column.put(number, values_at(payload, path))
        except BaseException:
            with self._lock:
                self._missed = None
            raise
        with self._lock:
            for change in missed:
                _apply(change, built, numbers)
            self._missed = None
            self._numbers = numbers
            self._columns.update(built)


def _apply(change: CatalogueChange, columns: dict[Path, _Column], numbers: set[int]) -> None:
    for number, payload in change.payloads:
        numbers.add(number)
        for path, column in columns.items():
            column.put(number, values_at(payload, path))
    for number in change.removed:
        numbers.discard(number)
        for column in columns.values():
            column.put(number, ())


def _evaluate(filter_: Filter, columns: dict[Path, _Column], numbers: set[int]) -> set[int]:
    """Return the matching item numbers. ``numbers`` contains the item numbers of all items."""
    if isinstance(filter_, AllOf):
        return set.intersection(*(_evaluate(part, columns, numbers) for part in filter_.filters))
    if isinstance(filter_, AnyOf):
        return set().union(*(_evaluate(part, columns, numbers) for part in filter_.filters))
    if isinstance(filter_, Not):
        return numbers - _evaluate(filter_.filter, columns, numbers)
    column = columns[filter_.path]
    if filter_.exists is False:
        return numbers.difference(column.existing)
    if filter_.one_of is None and not filter_.limits:
        return set(column.existing)
    return column.matching(filter_)
