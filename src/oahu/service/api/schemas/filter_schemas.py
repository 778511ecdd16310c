"""Schemas of filters on payload fields."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, Tag, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from oahu.service.api.schemas.common_schemas import STOP_AT_FIRST_ERROR, RequestModel, selected_by_field
from oahu.service.filters import AllOf, AnyOf, FieldFilter, Filter, Not, Scalar

__all__ = ["PayloadFilter"]

_MAX_DEPTH = 16
_MAX_CONDITIONS = 100
_SEPARATOR = re.compile(r"(?<!\\)\.")  # a dot without a backslash before it


def _scalar(value: Any) -> Any:
    if value is None or isinstance(value, list | dict):
        raise ValueError(
            "expected a text, a number, true or false; use 'in' for several values, and 'exists' for null"
        )
    return value


def _limit(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("expected a number or a text")
    return value


def _truth(value: Any) -> Any:
    if not isinstance(value, bool):
        raise ValueError("expected true or false")
    return value


def _field_name(name: str) -> str:
    if not all(_SEPARATOR.split(name)):
        raise ValueError("expected names separated by single dots, such as 'size.width'")
    return name


_Scalar = Annotated[
    JsonValue,
    AfterValidator(_scalar),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]}),
]
_Limit = Annotated[
    JsonValue, AfterValidator(_limit), WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string"}]})
]

_Truth = Annotated[JsonValue, AfterValidator(_truth), WithJsonSchema({"type": "boolean"})]


class FieldCondition(RequestModel):
    """A condition on one field of the payload. It holds if one value of the field passes all given tests.

    A field that contains a list has the values of its elements.
    """

    field: Annotated[str, AfterValidator(_field_name)] = Field(
        min_length=1,
        max_length=512,
        description="Name of the field. A dot leads into an object. In JSON, write a dot in a name as '\\\\.'.",
        examples=["size.width"],
    )
    equals: _Scalar = Field(None, description="The value is this text, number, true or false.")
    in_: Annotated[list[_Scalar], STOP_AT_FIRST_ERROR] = Field(
        [], alias="in", min_length=1, max_length=1_000, description="The value is one of these."
    )
    gt: _Limit = Field(
        None, description="The value is greater. Texts are compared in the order of their characters."
    )
    gte: _Limit = Field(None, description="The value is greater or equal.")
    lt: _Limit = Field(None, description="The value is less.")
    lte: _Limit = Field(None, description="The value is less or equal.")
    exists: _Truth = Field(None, description="Whether the field has a value. Null and an empty list are no values.")

    @model_validator(mode="before")
    @classmethod
    def _check_tests(cls, given: Any) -> Any:
        if isinstance(given, dict):
            if unknown := [name for name in given if name not in _TESTS and name != "field"]:
                raise ValueError(f"unknown test {unknown[0][:100]!r}; the tests are {', '.join(_TESTS)}")
            tests = given.keys() & _TESTS
            if not tests:
                raise ValueError(f"expected at least one test of the field: {', '.join(_TESTS)}")
            if given.get("exists") is False and len(tests) > 1:
                raise ValueError("'exists': false cannot be combined with other tests, because there is no value")
        return given

    def to_filter(self) -> Filter:
        """Return the filter of the service."""
        given = {name: getattr(self, name) for name in self.model_fields_set - {"field", "equals", "in_"}}
        path = tuple(name.replace("\\.", ".") for name in _SEPARATOR.split(self.field))
        return FieldFilter(path, one_of=self._one_of(), **given)

    def _one_of(self) -> tuple[Scalar, ...] | None:
        """Return the values that pass 'equals' and 'in', or None without these tests."""
        given: list[Any] = self.in_ if "in_" in self.model_fields_set else [self.equals]
        if not self.model_fields_set & {"equals", "in_"}:
            return None
        if "equals" in self.model_fields_set:  # True == 1 in Python, but not in JSON
            same_kind = [value for value in given if isinstance(value, bool) == isinstance(self.equals, bool)]
            given = [value for value in same_kind if value == self.equals]
        return tuple(given)


_TESTS = ("equals", "in", "gt", "gte", "lt", "lte", "exists")


class AndFilter(RequestModel):
    """All filters hold."""

    and_: Annotated[list[_PartFilter], STOP_AT_FIRST_ERROR] = Field(alias="and", min_length=1)

    def to_filter(self) -> Filter:
        """Return the filter of the service."""
        return AllOf(tuple(part.to_filter() for part in self.and_))


class OrFilter(RequestModel):
    """At least one filter holds."""

    or_: Annotated[list[_PartFilter], STOP_AT_FIRST_ERROR] = Field(alias="or", min_length=1)

    def to_filter(self) -> Filter:
        """Return the filter of the service."""
        return AnyOf(tuple(part.to_filter() for part in self.or_))


class NotFilter(RequestModel):
    """The filter does not hold. Items without the field match, too."""

    not_: _PartFilter = Field(alias="not")

    def to_filter(self) -> Filter:
        """Return the filter of the service."""
        return Not(self.not_.to_filter())


_PartFilter = Annotated[
    Annotated[FieldCondition, Tag("<field>")]
    | Annotated[AndFilter, Tag("<and>")]
    | Annotated[OrFilter, Tag("<or>")]
    | Annotated[NotFilter, Tag("<not>")],
    selected_by_field(field="field", **{"and": "and", "or": "or", "not": "not"}),
]
AndFilter.model_rebuild()
OrFilter.model_rebuild()
NotFilter.model_rebuild()


def _check_size(given: Any) -> Any:
    """Reject a filter that is too large before its parts are validated, because validation is recursive."""
    level, depth, n_conditions = [given], 0, 0
    while level:
        depth += 1
        n_conditions += sum("field" in part for part in level if isinstance(part, dict))
        if depth > _MAX_DEPTH or n_conditions > _MAX_CONDITIONS:
            raise PydanticCustomError(
                "filter_size",
                f"a filter can have at most {_MAX_CONDITIONS} conditions and {_MAX_DEPTH} levels of and, or, not",
            )
        level = [part for outer in level if isinstance(outer, dict) for part in _parts(outer)]
    return given


def _parts(outer: dict[str, Any]) -> list[Any]:
    parts: list[Any] = []
    for name in ("and", "or", "not"):
        inner = outer.get(name)
        parts += inner if isinstance(inner, list) else [inner]
    return parts


PayloadFilter = Annotated[
    _PartFilter,
    BeforeValidator(_check_size),
    Field(
        description="Conditions on payload fields. Only items that match are considered.",
        examples=[{"and": [{"field": "price", "lt": 20}, {"not": {"field": "tags", "equals": "sold out"}}]}],
    ),
]
