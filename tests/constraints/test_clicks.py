"""Clicks are validated, stored without padding, and converted to and from pairs and triplets."""

from __future__ import annotations

import pickle
from math import lcm
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from oahu import Click, Clicks, InvalidInputError, InvalidTypeError, Pair, Pairs, Triplet, Triplets

N_ITEMS, N_FEATURES = 12, 3
TABLE = np.random.default_rng(0).normal(size=(N_ITEMS, N_FEATURES))


@st.composite
def clicks_of_rows(draw: st.DrawFn, vectors: bool = True) -> list[Click]:
    """Clicks on rows of TABLE. Some queries are vectors that are not rows."""
    clicks = []
    for _ in range(draw(st.integers(1, 6))):
        rows = draw(st.permutations(range(N_ITEMS)))
        query: Any = rows[0]
        if vectors and draw(st.booleans()):
            query = draw(st.lists(st.floats(-9, 9), min_size=N_FEATURES, max_size=N_FEATURES))
        n_marked = draw(st.integers(1, 6))
        n_positives = draw(st.integers(0, n_marked))
        n_shown = draw(st.integers(0, 3))
        positives, negatives = rows[1 : 1 + n_positives], rows[1 + n_positives : 1 + n_marked]
        shown = rows[1 + n_marked : 1 + n_marked + n_shown]
        clicks.append(Click(query, positives, negatives, shown, draw(st.floats(0.01, 1.0))))
    return clicks


def vector_of(item: Any) -> list[float]:
    return item if isinstance(item, list) else TABLE[item].tolist()


def by_value(clicks: list[Click]) -> list[Click]:
    """The same clicks, with feature vectors instead of rows."""
    return [
        Click(vector_of(c.query), *([vector_of(item) for item in part] for part in c[1:4]), weight=c.weight)
        for c in clicks
    ]


def batch_of(clicks: list[Click], values: bool) -> Clicks:
    return Clicks(by_value(clicks)) if values else Clicks(clicks, preprocessor=TABLE)


def check_all_blocks(constraints: Any) -> None:
    """Read all blocks and check that they are finite."""
    for start, *_, block in constraints.blocks("float32"):
        constraints.check_finite(start, block)


# -- attributes ------------------------------------------------------------------------------------------


@given(clicks=clicks_of_rows(), values=st.booleans())
def test_the_items_of_each_click_are_its_query_positives_negatives_and_shown_items(
    clicks: list[Click], values: bool
) -> None:
    batch = batch_of(clicks, values)
    assert (len(batch), batch.n_features, batch.by_value) == (len(clicks), N_FEATURES, values)
    for i, click in enumerate(clicks):
        items = [click.query, *click.positives, *click.negatives, *click.shown]
        np.testing.assert_array_equal(batch.values(i), [vector_of(item) for item in items])
        marks = [1] + [1] * len(click.positives) + [-1] * len(click.negatives) + [0] * len(click.shown)
        assert batch.marks[batch.offsets[i] : batch.offsets[i + 1]].tolist() == marks
        assert batch.weights[i] == click.weight


@given(clicks=clicks_of_rows())
def test_refs_are_rows_of_the_table_or_of_the_vectors(clicks: list[Click]) -> None:
    batch = batch_of(clicks, values=False)
    vectors = [click.query for click in clicks if isinstance(click.query, list)]
    assert batch.vectors.tolist() == vectors
    expected, n_vectors = [], 0
    for click in clicks:
        if isinstance(click.query, list):
            n_vectors += 1
        expected += [-n_vectors if isinstance(click.query, list) else click.query]
        expected += [*click.positives, *click.negatives, *click.shown]
    assert batch.refs.tolist() == expected


def test_the_types_of_the_attributes() -> None:
    batch = Clicks([Click(np.int8(0), np.array([1, 2]), (), [3])], preprocessor=TABLE)
    types = {name: getattr(batch, name).dtype.name for name in ("refs", "marks", "offsets", "weights")}
    assert types == {"refs": "int64", "marks": "int8", "offsets": "int64", "weights": "float64"}
    assert Clicks(by_value([Click(0, [1])])).refs.dtype == np.int64


def test_the_table_is_not_copied(tmp_path: Path) -> None:
    np.save(tmp_path / "table.npy", TABLE)
    mapped = np.load(tmp_path / "table.npy", mmap_mode="r")
    batch = Clicks([Click([0.0] * N_FEATURES, [1], [2])], preprocessor=mapped)
    assert np.shares_memory(batch.table, mapped)
    assert np.shares_memory(batch.triplets().table.table, mapped)


def test_a_description_for_people() -> None:
    clicks = [Click(0, [1], [2, 3]), Click([0.0] * N_FEATURES, negatives=[0])]
    assert (
        repr(Clicks(clicks, preprocessor=TABLE))
        == "<2 clicks of 3 features, rows of a table of 12, 1 query vector>"
    )
    assert repr(Clicks(by_value(clicks))) == "<2 clicks of 3 features, values>"


@given(clicks=clicks_of_rows(), values=st.booleans(), data=st.data())
def test_selected_clicks_are_the_batch_of_the_selected_clicks(
    clicks: list[Click], values: bool, data: st.DataObject
) -> None:
    rows = data.draw(st.lists(st.integers(0, len(clicks) - 1), min_size=1))
    chosen, expected = batch_of(clicks, values)[np.array(rows)], batch_of([clicks[row] for row in rows], values)
    assert (chosen.marks.tolist(), chosen.offsets.tolist()) == (expected.marks.tolist(), expected.offsets.tolist())
    assert chosen.weights.tolist() == expected.weights.tolist()
    np.testing.assert_array_equal(chosen.values(), expected.values())


def test_slices_and_masks_select_clicks() -> None:
    batch = Clicks([Click(0, [1]), Click(2, [3]), Click(4, [5])], preprocessor=TABLE)
    assert batch[1:].refs.tolist() == batch[np.array([False, True, True])].refs.tolist() == [2, 3, 4, 5]
    with pytest.raises(InvalidInputError, match="At least one click is needed"):
        batch[:0]
    with pytest.raises(InvalidInputError, match="a slice, a mask or an array of row numbers"):
        batch[0]  # type: ignore[index]


@given(clicks=clicks_of_rows())
def test_pickled_clicks_are_the_same(clicks: list[Click]) -> None:
    batch = batch_of(clicks, values=False)
    again = pickle.loads(pickle.dumps(batch))
    np.testing.assert_array_equal(again.values(), batch.values())
    np.testing.assert_array_equal(again.pairs().values(), batch.pairs().values())


# -- conversion ------------------------------------------------------------------------------------------


@given(clicks=clicks_of_rows(), values=st.booleans())
def test_the_pairs_of_clicks(clicks: list[Click], values: bool) -> None:
    pairs = batch_of(clicks, values).pairs()
    expected = [pair for click in clicks for pair in click.pairs]
    assert pairs.same.tolist() == [pair.same for pair in expected]
    np.testing.assert_array_equal(pairs.values(), [list(map(vector_of, pair[:2])) for pair in expected])


def triplets_of(click: Click, limit: int | None) -> list[tuple[Any, Any, Any]]:
    """The documented order of the triplets of a click."""
    p, q = len(click.positives), len(click.negatives)
    n = min(max(p, q) if limit is None else limit, p * q)
    return [(click.query, click.positives[k % p], click.negatives[(k + k // lcm(p, q)) % q]) for k in range(n)]


@given(clicks=clicks_of_rows(), values=st.booleans(), limit=st.none() | st.integers(1, 40))
def test_the_triplets_of_clicks(clicks: list[Click], values: bool, limit: int | None) -> None:
    expected = [triplet for click in clicks for triplet in triplets_of(click, limit)]
    batch = batch_of(clicks, values)
    assert batch.two_sided.tolist() == [bool(click.positives and click.negatives) for click in clicks]
    if not expected:
        with pytest.raises(InvalidInputError, match=f"None of the {len(clicks)} clicks has both"):
            batch.triplets(limit)
        return
    values_of = [[vector_of(item) for item in triplet] for triplet in expected]
    np.testing.assert_array_equal(batch.triplets(limit).values(), values_of)


@given(p=st.integers(1, 7), q=st.integers(1, 7), limit=st.integers(1, 60))
def test_triplets_are_distinct_and_use_marked_items_equally_often(p: int, q: int, limit: int) -> None:
    table = np.eye(p + q + 1)
    batch = Clicks([Click(0, list(range(1, p + 1)), list(range(p + 1, p + q + 1)))], preprocessor=table)
    triplets = batch.triplets(limit).indices.tolist()
    assert len(triplets) == len(set(map(tuple, triplets))) == min(limit, p * q)
    for place, first, count in ((1, 1, p), (2, p + 1, q)):
        uses = [sum(triplet[place] == item for triplet in triplets) for item in range(first, first + count)]
        assert max(uses) - min(uses) <= 1


@given(clicks=clicks_of_rows())
def test_by_default_each_marked_item_of_a_two_sided_click_is_in_a_triplet(clicks: list[Click]) -> None:
    for click in clicks:
        if click.positives and click.negatives:
            indices = Clicks([click], preprocessor=TABLE).triplets().indices
            assert set(indices[:, 1:].ravel().tolist()) == {*click.positives, *click.negatives}


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "all"])
def test_the_limit_must_be_a_positive_integer(limit: Any) -> None:
    with pytest.raises(InvalidInputError, match="The 'limit' parameter of Clicks must be an int of at least 1"):
        Clicks([Click(0, [1], [2])], preprocessor=TABLE).triplets(limit)


@given(rows=st.lists(st.tuples(*[st.integers(0, N_ITEMS - 1)] * 3), min_size=1), values=st.booleans())
def test_triplets_become_clicks_and_triplets_again(rows: list[tuple[int, ...]], values: bool) -> None:
    triplets = Triplets(TABLE[np.array(rows)]) if values else Triplets(rows, preprocessor=TABLE)
    clicks = Clicks.from_triplets(triplets)
    assert (len(clicks), clicks.by_value, clicks.weights.tolist()) == (len(rows), values, [1.0] * len(rows))
    np.testing.assert_array_equal(clicks.triplets().indices, triplets.indices)
    np.testing.assert_array_equal(clicks.pairs().indices, triplets.pairs().indices)
    assert clicks.table is triplets.table


@given(
    rows=st.lists(st.tuples(*[st.integers(0, N_ITEMS - 1)] * 2, st.booleans()), min_size=1), values=st.booleans()
)
def test_pairs_become_clicks_and_pairs_again(rows: list[tuple[int, int, bool]], values: bool) -> None:
    indices, same = np.array([row[:2] for row in rows]), [row[2] for row in rows]
    pairs = Pairs(TABLE[indices], same) if values else Pairs(indices, same, preprocessor=TABLE)
    again = Clicks.from_pairs(pairs).pairs()
    np.testing.assert_array_equal(again.indices, pairs.indices)
    assert again.same.tolist() == same


@given(clicks=clicks_of_rows())
def test_the_pairs_of_clicks_with_query_vectors_become_the_same_clicks(clicks: list[Click]) -> None:
    batch = batch_of(clicks, values=False)
    single = Clicks.from_pairs(batch.pairs())
    assert single.table is TABLE
    np.testing.assert_array_equal(single.vectors, batch.vectors)
    np.testing.assert_array_equal(single.pairs().values(), batch.pairs().values())


def test_weights_of_converted_constraints() -> None:
    triplets = Triplets([[0, 1, 2], [3, 4, 5]], preprocessor=TABLE)
    assert Clicks.from_triplets(triplets, [0.5, 1]).weights.tolist() == [0.5, 1.0]
    with pytest.raises(InvalidInputError, match=r"'weights' must be in \(0, 1\]. Got 0.0 for click 1 instead"):
        Clicks.from_triplets(triplets, [0.5, 0.0])
    with pytest.raises(InvalidInputError, match=r"for each of the 2 clicks: shape \(2,\). Got \(1,\) instead"):
        Clicks.from_pairs(Pairs([[0, 1], [2, 3]], [1, -1], preprocessor=TABLE), [1.0])


def test_triplets_and_pairs_are_clicks_in_the_order_of_the_list() -> None:
    mixed = [Triplet(0, 1, 2), Click(3, [4], [5, 6]), Pair(7, 8, np.False_), Pair(9, 10, np.True_)]
    pairs = Clicks(mixed, preprocessor=TABLE).pairs()
    assert pairs.indices.tolist() == [[0, 1], [0, 2], [3, 4], [3, 5], [3, 6], [7, 8], [9, 10]]
    assert pairs.same.tolist() == [True, False, True, False, False, False, True]


def test_the_pairs_of_one_click() -> None:
    click = Click("a", ["b"], ["c", "d"], ["e"])
    assert click.pairs == (Pair("a", "b", True), Pair("a", "c", False), Pair("a", "d", False))


@given(clicks=clicks_of_rows())
def test_a_sparse_table_gives_the_same_features(clicks: list[Click]) -> None:
    table = sparse.csr_matrix(TABLE)
    batch = Clicks(clicks, preprocessor=table)
    np.testing.assert_array_equal(batch.values(), batch_of(clicks, values=False).values())
    np.testing.assert_array_equal(batch.pairs().values(), batch_of(clicks, values=False).pairs().values())
    assert batch.table is table or not len(batch.vectors)


# -- blocks and invalid values ---------------------------------------------------------------------------


@given(sizes=st.lists(st.integers(1, 500), min_size=1, max_size=12), dtype=st.sampled_from(["float32", "float64"]))
@settings(max_examples=30)
def test_blocks_contain_all_clicks_in_order(sizes: list[int], dtype: str) -> None:
    table = np.random.default_rng(1).normal(size=(501, 2))
    batch = Clicks([Click(0, list(range(1, n + 1))) for n in sizes], preprocessor=table)
    end, parts = 0, []
    for start, stop, block in batch.blocks(dtype):
        assert start == end < stop
        assert len(block) == sum(n + 1 for n in sizes[start:stop])
        assert len(block) <= 384 or stop == start + 1
        end, parts = stop, [*parts, block]
    assert end == len(sizes)
    np.testing.assert_array_equal(np.concatenate(parts), batch.values().astype(dtype))


PLACES = [
    "query",
    "1st positive",
    "2nd positive",
    "1st negative",
    "2nd negative",
    "1st shown item",
    "2nd shown item",
]


@given(
    n=st.integers(1, 100),
    place=st.integers(0, 6),
    bad=st.sampled_from([np.nan, np.inf, -np.inf, 1e39]),
    data=st.data(),
)
@settings(max_examples=40)
def test_an_invalid_value_is_located(n: int, place: int, bad: float, data: st.DataObject) -> None:
    number, feature = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, 2))
    values = np.zeros((n, 7, 3))
    values[number, place, feature] = bad
    batch = Clicks([Click(v[0], v[1:3], v[3:5], v[5:]) for v in values])
    with pytest.raises(InvalidInputError, match=f"the {PLACES[place]} of click {number} at feature {feature}"):
        check_all_blocks(batch)


@pytest.mark.parametrize("kind", ["triplets", "pairs"])
@given(place=st.integers(0, 4), number=st.integers(0, 9))
@settings(max_examples=20)
def test_an_invalid_value_in_pairs_and_triplets_is_located_in_the_clicks(
    kind: str, place: int, number: int
) -> None:
    values = np.zeros((10, 5, 3))
    values[number, place, 1] = np.nan
    tuples = getattr(Clicks([Click(v[0], v[1:3], v[3:5]) for v in values]), kind)()
    for part in (tuples, tuples[:]):
        with pytest.raises(InvalidInputError, match=f"NaN: the {PLACES[place]} of click {number} at feature 1"):
            check_all_blocks(part)


def test_the_place_of_an_invalid_value_is_in_a_click_that_is_used() -> None:
    table = TABLE.copy()
    table[5] = np.nan
    clicks = [Click(0, [5]), Click(1, [2], [3], [5]), Click(6, [7], [5])]
    with pytest.raises(InvalidInputError, match="the 1st negative of click 2, row 5 of preprocessor, at feature 0"):
        check_all_blocks(Clicks(clicks, preprocessor=table).triplets())
    with pytest.raises(InvalidInputError, match="the 1st negative of click 1, row 5 of preprocessor, at feature 0"):
        check_all_blocks(Clicks(clicks[1:], preprocessor=table).pairs())


def test_the_place_of_an_invalid_value_names_the_kind_of_constraint() -> None:
    table = TABLE.copy()
    table[[2, 8]] = np.nan
    mixed: list[Any] = [Click(0, [1]), Triplet(0, 1, 2), Pair(7, 8, True), Click([np.nan] * 3, [1])]
    expected = [
        "the negative of triplet 0, row 2 of preprocessor, at",
        "the second item of pair 0, row 8 of preprocessor, at",
        "the query of click 0 at",
    ]
    for constraint, message in zip(mixed[1:], expected, strict=True):
        batch = Clicks([constraint], preprocessor=table)
        ((start, _, block),) = batch.blocks("float64")
        with pytest.raises(InvalidInputError, match=message):
            batch.check_finite(start, block)
    origins = [Clicks(mixed, preprocessor=table).pairs().origin(k) for k in range(5)]
    assert origins == [("click", 0), ("triplet", 1), ("triplet", 1), ("pair", 2), ("click", 3)]


# -- invalid clicks --------------------------------------------------------------------------------------

V = [0.0, 0.0, 0.0]
INVALID: dict[str, tuple[Any, str]] = {
    "no clicks": ([], "At least one click is needed"),
    "one click instead of a list": (
        Click(0, [1]),
        r"must be a list. Got one Click instead: write \[Click\(...\)\]",
    ),
    "no list": (7, "must be a list of Click, Triplet or Pair objects. Got 7 instead"),
    "not a click": ([Click(0, [1]), (0, 1, 2)], r"Got \(0, 1, 2\) at position 1 instead"),
    "nothing marked": ([Click(0, shown=[1])], "Click 0 must have at least one positive or one negative"),
    "twice marked": (
        [Click(0, [1, 2], [3, 1])],
        "Click 0: the item 1 occurs twice, as the 1st positive and as the 2nd neg",
    ),
    "marked and shown": (
        [Click(0, [1], [], [2, 1])],
        "the item 1 occurs twice, as the 1st positive and as the 2nd shown",
    ),
    "query marked": (
        [Click(0, [1]), Click(3, [1], [3])],
        "Click 1: the item 3 occurs twice, as the query and as the 1st neg",
    ),
    "no weight": ([Click(0, [1], weight=0)], r"Click 0: 'weight' must be a number in \(0, 1\]. Got 0 instead"),
    "too much weight": ([Click(0, [1], weight=1.5)], r"must be a number in \(0, 1\]. Got 1.5 instead"),
    "NaN as weight": ([Click(0, [1], weight=np.nan)], "Got nan instead"),
    "True as weight": ([Click(0, [1], weight=True)], "Got True instead"),
    "a text as weight": ([Click(0, [1], weight="1")], "Got '1' instead"),  # type: ignore[arg-type]
    "a text as list": ([Click(0, "12")], "Click 0: 'positives' must be a list of items. Got '12' instead"),
    "a number as list": ([Click(0, [1], 2)], "'negatives' must be a list of items. Got 2 instead"),  # type: ignore[arg-type]
    "an id": (
        [Click(0, ["a"])],
        "The 1st positive of click 0 must be a row number or a feature vector. Got 'a' instead. Replace",
    ),
    "a boolean": (
        [Click(0, [True])],
        "The 1st positive of click 0 must be a row number or a feature vector. Got True",
    ),
    "a float": ([Click(0, [1.0])], "Got 1.0 instead"),
    "a negative row": (
        [Click(0, [1], [-1])],
        "The 1st negative of click 0 is row -1, but the preprocessor has rows 0 to 11",
    ),
    "a row after the last": ([Click(0, [1]), Click(12, [1])], "The query of click 1 is row 12, but"),
    "a huge row": ([Click(0, [1], [], [10**30])], "The 1st shown item of click 0 is row 1000000"),
    "a vector among rows": (
        [Click(0, [1], [V])],
        "The 1st negative of click 0 must be a row number, like the other items",
    ),
    "a row among vectors": (
        [Click(V, [V], [1])],
        "The 1st negative of click 0 must be a feature vector, like the other",
    ),
    "a row as the query of vectors": (
        [Click(0, [V])],
        "The query of click 0 must be a feature vector, like the other items",
    ),
    "a short query": ([Click([0.0], [1])], "The query of click 0 has 1 features, but the preprocessor has 3"),
    "a shorter query": (
        [Click(V, [1]), Click([0.0], [1])],
        "The query of click 1 has 1 features, but the query of click 0 has 3",
    ),
    "a short vector": (
        [Click(V, [V], [V, V[:2]])],
        "The 2nd negative of click 0 has 2 features, but the query of click 0 has 3",
    ),
    "a matrix": (
        [Click(V, [[V]])],
        r"The 1st positive of click 0 must be a feature vector of shape \(n_features,\). Got shape \(1, 3\)",
    ),
    "texts in a vector": ([Click(V, [["a", "b", "c"]])], "The 1st positive of click 0 is not a feature vector"),
    "empty vectors": ([Click([], [[]])], "0 feature"),
    "same of a pair": ([Pair(0, 1, 2)], "'same' of a Pair must be True or False"),  # type: ignore[arg-type]
    "other features": ([Click(V[:2], [V[:2]])], "X has 2 features, but OAHU is expecting 3 features"),
}


@pytest.mark.parametrize(("clicks", "message"), INVALID.values(), ids=INVALID.keys())
def test_invalid_clicks_are_rejected(clicks: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Clicks(clicks, preprocessor=TABLE, n_features=3, owner="OAHU")


def test_rows_need_a_table() -> None:
    with pytest.raises(InvalidInputError, match=r"no feature table was given\. Pass the table as preprocessor="):
        Clicks([Click(0, [1])])


def test_a_sparse_table_can_be_refused() -> None:
    with pytest.raises(InvalidTypeError, match="use toarray"):
        Clicks([Click(0, [1])], preprocessor=sparse.csr_matrix(TABLE), accept_sparse=False)


def test_equal_vectors_are_not_equal_items() -> None:
    assert len(Clicks([Click(V, [V], [V])])) == 1


@given(clicks=clicks_of_rows(vectors=False), data=st.data())
def test_an_item_that_occurs_twice_is_rejected(clicks: list[Click], data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(clicks) - 1))
    click = clicks[number]
    items = [click.query, *click.positives, *click.negatives, *click.shown]
    field = data.draw(st.sampled_from(["positives", "negatives", "shown"]))
    again = data.draw(st.sampled_from(items))
    clicks[number] = click._replace(**{field: [*getattr(click, field), again]})
    with pytest.raises(InvalidInputError, match=f"Click {number}: the item {again} occurs twice"):
        Clicks(clicks, preprocessor=TABLE)
