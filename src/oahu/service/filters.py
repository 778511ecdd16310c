"""Filters on the payloads of items: conditions on fields, combined with and, or and not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["AllOf", "AnyOf", "FieldFilter", "Filter", "Not", "Scalar", "field_paths", "values_at"]

Scalar = bool | int | float | str
Path = tuple[str, ...]


@dataclass(frozen=True)
class FieldFilter:
    """A condition on the values of one field. It holds if a single value passes all given tests.

    Attributes
    ----------
    path : tuple of str
        The names that lead to the field, outermost first.
    one_of : tuple or None
        The value must be one of these values.
    gt, gte, lt, lte : float, str or None
        Limits of the value. A number is only compared with numbers, a text only with texts.
    exists : bool or None
        Whether the field must have a value, or must have none.
    """

    path: Path
    one_of: tuple[Scalar, ...] | None = None
    gt: float | str | None = None
    gte: float | str | None = None
    lt: float | str | None = None
    lte: float | str | None = None
    exists: bool | None = None

    @property
    def limits(self) -> list[float | str]:
        """The given limits."""
        return [limit for limit in (self.gt, self.gte, self.lt, self.lte) if limit is not None]

    def is_within_limits(self, value: Scalar) -> bool:
        """Return whether a value is within all limits. Values of another type than a limit are not."""
        return (
            (self.gt is None or (_comparable(value, self.gt) and value > self.gt))  # type: ignore[operator]
            and (self.gte is None or (_comparable(value, self.gte) and value >= self.gte))  # type: ignore[operator]
            and (self.lt is None or (_comparable(value, self.lt) and value < self.lt))  # type: ignore[operator]
            and (self.lte is None or (_comparable(value, self.lte) and value <= self.lte))  # type: ignore[operator]
        )


@dataclass(frozen=True)
class AllOf:
    """All filters must hold."""

    filters: tuple[Filter, ...]


@dataclass(frozen=True)
class AnyOf:
    """At least one filter must hold."""

    filters: tuple[Filter, ...]


@dataclass(frozen=True)
class Not:
    """The filter must not hold."""

    filter: Filter


Filter = FieldFilter | AllOf | AnyOf | Not


def field_paths(filter_: Filter) -> set[Path]:
    """Return the paths of all fields in a filter."""
    if isinstance(filter_, FieldFilter):
        return {filter_.path}
    parts = (filter_.filter,) if isinstance(filter_, Not) else filter_.filters
    return set().union(*map(field_paths, parts))


def values_at(payload: Any, path: Path) -> Iterator[Any]:
    """Yield the values of a field. Null is no value. A list has the values of its elements.

    >>> list(values_at({"sizes": [{"cm": 3}, {"cm": [4, None]}]}, ("sizes", "cm")))
    [3, 4]
    """
    if isinstance(payload, list):
        for element in payload:
            yield from values_at(element, path)
    elif not path:
        if payload is not None:
            yield payload
    elif isinstance(payload, dict) and path[0] in payload:
        yield from values_at(payload[path[0]], path[1:])


def _comparable(value: Scalar, limit: float | str) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, str) == isinstance(limit, str)
