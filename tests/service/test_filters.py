"""Filters: the payload index and searches agree with a direct evaluation of the filter for each item."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from oahu.constraints import Pair
from oahu.service.api.schemas.filter_schemas import PayloadFilter
from oahu.service.collection import Collection
from oahu.service.payload_index import _MAX_COLUMNS, PayloadIndex
from oahu.service.records import AddedItem, CatalogueChange, CollectionConfig, NewItem
from oahu.service.service import Service
from oahu.service.settings import Settings
from oahu.tasks import Retriever

PARSER: TypeAdapter[Any] = TypeAdapter(PayloadFilter)

# -- an independent definition of filters ----------------------------------------------------------------------


def holds(condition: dict[str, Any], payload: Any) -> bool:
    """Return whether a payload matches a filter, by the text of the guide."""
    if "and" in condition:
        return all(holds(part, payload) for part in condition["and"])
    if "or" in condition:
        return any(holds(part, payload) for part in condition["or"])
    if "not" in condition:
        return not holds(condition["not"], payload)
    values = [payload]
    for name in [*condition["field"].split("."), None]:
        while any(isinstance(value, list) for value in values):
            values = [one for value in values for one in (value if isinstance(value, list) else [value])]
        if name is not None:
            values = [value[name] for value in values if isinstance(value, dict) and name in value]
    values = [value for value in values if value is not None]
    tests = {name: limit for name, limit in condition.items() if name not in ("field", "exists")}
    if "exists" in condition and condition["exists"] != bool(values):
        return False
    return not tests or any(all(TESTS[name](value, limit) for name, limit in tests.items()) for value in values)


def kind(value: Any) -> str:
    return {bool: "bool", int: "number", float: "number", str: "text"}.get(type(value), "other")


def compares(operator: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda value, limit: kind(value) == kind(limit) and operator(value, limit)


TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "equals": compares(lambda value, limit: value == limit),
    "in": lambda value, limits: any(kind(value) == kind(limit) and value == limit for limit in limits),
    "gt": compares(lambda value, limit: value > limit),
    "gte": compares(lambda value, limit: value >= limit),
    "lt": compares(lambda value, limit: value < limit),
    "lte": compares(lambda value, limit: value <= limit),
}

# Few names and values, so that filters often match some items.
NAMES = st.sampled_from(["a", "b", "c"])
SCALARS = st.sampled_from([True, 1, False, 0, 1.0, -2.5, "", "x", "ä", "1"])
VALUES = st.recursive(
    SCALARS | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=5,
)
FLAT = st.dictionaries(NAMES, SCALARS, min_size=1, max_size=3)
PAYLOADS = FLAT | st.dictionaries(NAMES, VALUES, max_size=3) | st.none()
LIMITS = st.sampled_from([0, 1, 1.5, -3, "", "x", "y"])
FIELDS = NAMES | st.lists(NAMES, min_size=1, max_size=3).map(".".join)


@st.composite
def conditions(draw: st.DrawFn) -> dict[str, Any]:
    field = draw(FIELDS)
    form = draw(st.sampled_from(["equals", "exists", "tests"]))
    if form == "equals":
        return {"field": field, "equals": draw(SCALARS)}
    if form == "exists":
        return {"field": field, "exists": draw(st.booleans())}
    tests = {"equals": SCALARS, "in": st.lists(SCALARS, min_size=1, max_size=3)}
    tests |= dict.fromkeys(["gt", "gte", "lt", "lte"], LIMITS)
    chosen = draw(st.lists(st.sampled_from(sorted(tests)), min_size=1, max_size=2, unique=True))
    return {"field": field, **{name: draw(tests[name]) for name in chosen}}


FILTERS = st.recursive(
    conditions(),
    lambda inner: (
        st.builds(lambda parts: {"and": parts}, st.lists(inner, min_size=1, max_size=3))
        | st.builds(lambda parts: {"or": parts}, st.lists(inner, min_size=1, max_size=3))
        | st.builds(lambda part: {"not": part}, inner)
    ),
    max_leaves=5,
)


def parsed(condition: dict[str, Any]) -> Any:
    return PARSER.validate_python(condition).to_filter()


# -- the payload index -----------------------------------------------------------------------------------------


@given(payloads=st.lists(PAYLOADS, max_size=12), filters=st.lists(FILTERS, min_size=1, max_size=4), data=st.data())
@settings(max_examples=300, deadline=None)
def test_the_index_finds_exactly_the_matching_items(payloads: list[Any], filters: list[Any], data: Any) -> None:
    stored = dict(enumerate(payloads, 1))
    index = PayloadIndex(lambda: iter(stored.items()))
    for condition in filters:
        assert index.matching(parsed(condition)) == {n for n, one in stored.items() if holds(condition, one)}
        change = CatalogueChange()  # the next filter sees the change, in old and in new columns
        for number in data.draw(st.lists(st.integers(1, 14), max_size=3, unique=True)):
            if stored and data.draw(st.booleans()):
                change.removed.append(number)
                stored.pop(number, None)
            else:
                stored[number] = data.draw(PAYLOADS)
                change.payloads.append((number, stored[number]))
        index.apply(change)
    for condition in filters:
        assert index.matching(parsed(condition)) == {n for n, one in stored.items() if holds(condition, one)}


@pytest.mark.parametrize(
    ("condition", "numbers"),
    [
        ({"equals": 1}, {1, 2}),
        ({"equals": True}, {3}),
        ({"in": [True, "1"]}, {3, 4}),
        ({"gte": 0}, {1, 2, 5}),
        ({"gte": ""}, {4}),
        ({"equals": True, "gte": 0}, set()),
        ({"equals": 0}, {5}),
    ],
)
def test_values_of_different_types_differ(condition: dict[str, Any], numbers: set[int]) -> None:
    values = [1, 1.0, True, "1", [0, False]]
    index = PayloadIndex(lambda: iter((at, {"a": value}) for at, value in enumerate(values, 1)))
    assert index.matching(parsed({"field": "a", **condition})) == numbers


def test_a_dot_with_a_backslash_belongs_to_a_name() -> None:
    index = PayloadIndex(lambda: iter([(1, {"a.b": {"c": 1}}), (2, {"a": {"b": {"c": 1}}})]))
    assert index.matching(parsed({"field": r"a\.b.c", "equals": 1})) == {1}
    assert index.matching(parsed({"field": "a.b.c", "equals": 1})) == {2}


def test_changes_while_an_index_is_built_are_not_lost() -> None:
    stored: dict[int, Any] = {1: {"a": 1}, 2: {"a": 1}, 3: {"a": 1}}

    def read() -> Any:
        yield from list(stored.items())[:2]
        stored.update({1: {"a": 2}, 4: {"a": 2}})
        del stored[3]
        index.apply(CatalogueChange(payloads=[(1, {"a": 2}), (4, {"a": 2})], removed=[3]))
        yield 4, {"a": 2}

    index = PayloadIndex(read)
    assert index.matching(parsed({"field": "a", "equals": 1})) == {2}
    assert index.matching(parsed({"field": "a", "equals": 2})) == {1, 4}
    assert index.matching(parsed({"not": {"field": "a", "exists": False}})) == {1, 2, 4}


def test_a_failed_read_leaves_the_index_usable() -> None:
    failures = [OSError("disk")]

    def read() -> Any:
        if failures:
            raise failures.pop()
        yield 1, {"a": 1}

    index = PayloadIndex(read)
    with pytest.raises(OSError, match="disk"):
        index.matching(parsed({"field": "a", "exists": True}))
    assert index.matching(parsed({"field": "a", "exists": True})) == {1}


def test_only_the_most_recent_fields_are_kept_in_memory() -> None:
    reads = []

    def read() -> Any:
        reads.append(1)
        yield from [(1, {"f0": 1}), (2, {"f1": 1})]

    index = PayloadIndex(read)
    for at in range(_MAX_COLUMNS + 1):
        index.matching(parsed({"field": f"f{at}", "exists": True}))
    assert index.matching(parsed({"field": "f1", "equals": 1})) == {2}
    assert len(reads) == _MAX_COLUMNS + 1
    assert index.matching(parsed({"field": "f0", "equals": 1})) == {1}
    assert len(reads) == _MAX_COLUMNS + 2


# -- searches --------------------------------------------------------------------------------------------------

N = 150  # more than the candidates of an unfiltered search
ROWS = np.random.default_rng(0).normal(size=(N + 60, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A collection, and its payloads by key. The items have different numbers of values in each field."""
    service = Service(
        Settings(data=tmp_path_factory.mktemp("shop"), fresh_wait=600.0, refresh_every=3600, candidates=5)
    )
    service.open()
    collection = service.create(CollectionConfig("shop", 4, "Euclidean"))
    payloads = {f"i{at}": payload(at) for at in range(N)}
    collection.put_items(
        [
            NewItem(key, ROWS[at].tobytes(), "odd" if at % 2 else "even", one)
            for at, (key, one) in enumerate(payloads.items())
        ]
    ).result()
    yield collection, payloads
    service.close()


def payload(at: int) -> dict[str, Any] | None:
    if at % 10 == 0:
        return None
    rare = {"c": "x"} if at == 77 else {}
    return {"a": [1, True, "x", 3, None, [1, "xy"]][at % 6], "b": {"a": at / 10, "b": ["x", at % 3]}, **rare}


def expected(collection: Collection, payloads: dict[str, Any], condition: Any, query: Any, k: int) -> list[str]:
    """Return the keys of the k nearest matching items, from a search in only the matching items."""
    keys = [key for key, one in payloads.items() if holds(condition, one)]
    retriever = Retriever(collection.published.metric, "experts")
    if keys:
        retriever.add(keys, np.array([collection.catalogue.vector(key) for key in keys]))
    return retriever.search(query, k).keys if keys else []


@given(condition=FILTERS, k=st.sampled_from([1, 3, 40, N]), query=st.integers(N, N + 59))
@settings(max_examples=150, deadline=None)
def test_a_filtered_search_equals_a_search_in_the_matching_items(
    shop: Any, condition: Any, k: int, query: int
) -> None:
    collection, payloads = shop
    found = collection.search(ROWS[query], k, filter_=parsed(condition))
    assert [one.key for one in found.matches] == expected(collection, payloads, condition, ROWS[query], k)


@pytest.mark.parametrize(("value", "n"), [("x", 1), ("nothing", 0)])
def test_a_filter_that_few_or_no_items_match(shop: Any, value: str, n: int) -> None:
    collection, _ = shop
    found = collection.search(ROWS[0], 10, filter_=parsed({"field": "c", "equals": value}))
    assert [one.key for one in found.matches] == ["i77"][:n]


def test_a_filter_is_combined_with_a_label_and_the_query_is_left_out(shop: Any) -> None:
    collection, payloads = shop
    found = collection.search("i77", N, "odd", filter_=parsed({"field": "b.a", "gte": 7}))
    keys = {key for at, (key, one) in enumerate(payloads.items()) if at % 2 and one and one["b"]["a"] >= 7}
    assert {one.key for one in found.matches} == keys - {"i77"}


def test_similar_items_by_feedback_are_filtered(open_service: Callable[..., Service]) -> None:
    collection = open_service().create(CollectionConfig("things", 4, "Euclidean"))
    collection.put_items([NewItem(f"i{at}", ROWS[at].tobytes(), None, {"a": at}) for at in range(9)]).result()
    collection.add_feedback([Pair("i0", "i7", True), Pair("i0", "i8", True)]).result()
    found = collection.search("i0", 3, filter_=parsed({"field": "a", "lt": 8})).matches
    assert (found[0].key, found[0].relation) == ("i7", "similar")
    assert "i8" not in {one.key for one in found}


def test_filters_follow_changes_of_items_and_restarts(open_service: Callable[..., Service]) -> None:
    service = open_service()
    collection = service.create(CollectionConfig("things", 4, "Euclidean"))
    price = parsed({"field": "price", "lte": 5})

    def put(at: int, price: int | None, row: int | None = None) -> None:
        item = NewItem(f"i{at}", ROWS[at if row is None else row].tobytes(), None, {"price": price})
        collection.put_items([item]).result()

    def found(collection: Collection) -> set[str]:
        return {one.key for one in collection.search(ROWS[0], 10, filter_=price).matches}

    for at in range(4):
        put(at, at * 3)
    assert found(collection) == {"i0", "i1"}
    put(2, 1)  # only the payload changes
    put(0, 9, row=9)  # the features change, too
    put(5, 5)
    collection.delete_items(["i1"]).result()
    assert found(collection) == {"i2", "i5"}
    service.close()
    assert found(open_service().collection("things")) == {"i2", "i5"}


def test_a_filter_sees_every_change_that_was_stored_before(open_service: Callable[..., Service]) -> None:
    """Also while other threads use filters on new fields, so that payloads are read during the changes."""
    collection = open_service().create(CollectionConfig("things", 4, "Euclidean"))
    collection.put_items([NewItem(f"i{at}", ROWS[at].tobytes()) for at in range(20)]).result()
    stop, errors = Event(), list[BaseException]()

    def use_new_fields(thread: int) -> None:
        at = 0
        try:
            while not stop.is_set():
                collection.search(ROWS[0], 3, filter_=parsed({"field": f"{thread}-{at}", "exists": False}))
                at += 1
        except BaseException as error:
            errors.append(error)

    threads = [Thread(target=use_new_fields, args=(thread,)) for thread in range(2)]
    for thread in threads:
        thread.start()
    try:
        for at in range(200):
            key, row = f"i{at % 20}", at % 20 if at % 3 else at % 200
            collection.put_items([NewItem(key, ROWS[row].tobytes(), None, {"count": at})]).result()
            found = collection.search(ROWS[0], 3, filter_=parsed({"field": "count", "equals": at})).matches
            assert [one.key for one in found] == [key]
            older = collection.search(ROWS[0], 20, filter_=parsed({"field": "count", "lt": at})).matches
            assert len(older) == min(at, 19)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert errors == []


def test_an_item_that_was_added_and_removed_at_once_matches_no_filter(make_collection: Any) -> None:
    collection = make_collection(5)
    assert collection.search("i0", 9, filter_=parsed({"not": {"field": "a", "exists": True}})).matches
    gone = CatalogueChange(added=[AddedItem(99, "x", None, b"")], removed=[99], payloads=[(99, {"a": 1})])
    collection.queries.add_change(gone)
    assert collection.search("i0", 9, filter_=parsed({"field": "a", "exists": True})).matches == ()
