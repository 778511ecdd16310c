"""Tests of constraint streams: drawn seeds, implied constraints, excluded pairs, and the cache."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from oahu import ConstraintGraph, Pair, Triplet, sample_pairs, sample_triplets
from oahu.evaluation.protocols import constraint_streams as module
from oahu.evaluation.protocols.constraint_streams import (
    ConstraintCache,
    ConstraintStream,
    draw_constraints,
    generator_for,
)

KINDS = ("triplets", "pairs")
every_kind = pytest.mark.parametrize("kind", KINDS)

#: Labels with several of every class, and excluded pairs of items; enough other pairs remain.
LABELS = st.lists(st.integers(0, 3), min_size=4, max_size=20).map(lambda y: np.array([*y, 0, 0, 0, 1, 1, 1]))
NUMBERS = st.tuples(st.integers(1, 30), st.integers(0, 60)).map(lambda both: (both[0], sum(both)))


@st.composite
def requests(draw: st.DrawFn, some_excluded: bool = True) -> dict[str, Any]:
    y = draw(LABELS)
    exclude = None
    if some_excluded:
        pairs = st.tuples(st.integers(0, len(y) - 7), st.integers(0, len(y) - 1)).filter(
            lambda pair: pair[0] != pair[1]
        )
        exclude = np.array(draw(st.lists(pairs, min_size=1, max_size=6)))
    n_seeds, n = draw(NUMBERS)
    return {"kind": draw(st.sampled_from(KINDS)), "y": y, "n": n, "n_seeds": n_seeds, "exclude": exclude}


def stream_of(seed: int = 0, **request: Any) -> ConstraintStream:
    return draw_constraints(**request, rng=np.random.default_rng(seed))


def constraints_of(stream: ConstraintStream) -> list[Any]:
    if stream.same is None:
        return [Triplet(*row) for row in stream.rows.tolist()]
    return [Pair(*row, same > 0) for row, same in zip(stream.rows.tolist(), stream.same.tolist(), strict=True)]


def equal(one: ConstraintStream, two: ConstraintStream) -> bool:
    same = (one.same is None and two.same is None) or np.array_equal(one.same, two.same)  # type: ignore[arg-type]
    return np.array_equal(one.rows, two.rows) and same and one.n_implied == two.n_implied


# -- drawing ---------------------------------------------------------------------------------------


@given(request=requests(), seed=st.integers(0, 99))
def test_stream_has_n_true_constraints(request: dict[str, Any], seed: int) -> None:
    y, stream = request["y"], stream_of(seed, **request)
    assert len(stream) == len(stream.rows) == request["n"]
    for constraint in constraints_of(stream):
        match constraint:
            case Triplet(anchor, positive, negative):
                assert y[anchor] == y[positive] != y[negative]
                assert anchor != positive
            case Pair(first, second, same):
                assert (y[first] == y[second]) == same
                assert first != second


@given(request=requests(), seed=st.integers(0, 99))
def test_no_constraint_contains_an_excluded_pair(request: dict[str, Any], seed: int) -> None:
    forbidden = {frozenset(pair) for pair in request["exclude"].tolist()}
    contained = {frozenset(two) for row in stream_of(seed, **request).rows.tolist() for two in combinations(row, 2)}
    assert not contained & forbidden


@given(request=requests(), seed=st.integers(0, 99))
def test_seeds_are_sampled_from_labels(request: dict[str, Any], seed: int) -> None:
    stream = stream_of(seed, **request | {"n": request["n_seeds"]})
    sample = sample_triplets if request["kind"] == "triplets" else sample_pairs
    expected: Any = sample(request["y"], request["n_seeds"], seed, exclude=request["exclude"])
    rows, same = expected if request["kind"] == "pairs" else (expected, None)
    np.testing.assert_array_equal(stream.rows, rows)
    np.testing.assert_array_equal(stream.same, same)
    assert stream.n_implied == 0


@given(request=st.booleans().flatmap(lambda some: requests(some)), seed=st.integers(0, 99))
def test_implied_constraints_come_after_the_seeds_that_imply_them(request: dict[str, Any], seed: int) -> None:
    """An implied constraint is new and follows from the seeds before it."""
    seeds, stream = (
        constraints_of(stream_of(seed, **request | {"n": request["n_seeds"]})),
        stream_of(seed, **request),
    )
    before, graph, known = iter([*seeds, None]), ConstraintGraph(), set(seeds)
    next_seed = next(before)
    for constraint in constraints_of(stream)[: len(seeds) + stream.n_implied]:
        if constraint == next_seed:
            graph.add(constraint)
            next_seed = next(before)
        else:
            assert graph.implies(constraint)
            assert constraint not in known
            known.add(constraint)
    assert next_seed is None


@given(request=requests(some_excluded=False), seed=st.integers(0, 99))
def test_as_many_constraints_as_possible_are_implied(request: dict[str, Any], seed: int) -> None:
    graph = ConstraintGraph()
    for constraint in constraints_of(stream_of(seed, **request | {"n": request["n_seeds"]})):
        graph.add(constraint)
    implied = graph.implied_triplets if request["kind"] == "triplets" else graph.implied_pairs
    assert stream_of(seed, **request).n_implied == min(request["n"] - request["n_seeds"], implied.count)


@every_kind
def test_excluded_implied_constraint_is_replaced_by_another_implied_one(kind: Any) -> None:
    """A hundred seeds over twenty items of two classes imply far more constraints than requested."""
    exclude = np.array([[0, i] for i in range(11, 15)])
    stream = stream_of(kind=kind, y=np.arange(20) // 10, n=160, n_seeds=100, exclude=exclude)
    assert stream.n_implied == 60


@every_kind
def test_missing_constraints_are_drawn_from_labels(kind: Any) -> None:
    """A triplet implies the one with anchor and positive swapped; a pair implies nothing."""
    stream = stream_of(kind=kind, y=np.arange(1000) % 10, n=40, n_seeds=1, exclude=None)
    assert len(stream) == 40
    assert stream.n_implied == (1 if kind == "triplets" else 0)


@every_kind
def test_empty_exclude_equals_none(kind: Any) -> None:
    request = {"kind": kind, "y": np.arange(30) % 3, "n": 40, "n_seeds": 20}
    assert equal(stream_of(**request, exclude=np.empty((0, 2), np.intp)), stream_of(**request, exclude=None))


# -- generators ------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 9), st.text(max_size=3), st.integers(0, 9)), min_size=2, max_size=2))
def test_generator_depends_on_seed_and_words_only(both: list[tuple[int, str, int]]) -> None:
    one, two = (generator_for(*words).integers(2**63, size=3).tolist() for words in both)
    assert (one == two) == (both[0] == both[1])


# -- sampling --------------------------------------------------------------------------------------------


@given(request=requests(), seed=st.integers(0, 99), data=st.data())
def test_sample_preserves_the_order(request: dict[str, Any], seed: int, data: st.DataObject) -> None:
    stream = stream_of(0, **request)
    n = data.draw(st.integers(1, len(stream)))
    some, remaining = constraints_of(stream.sample(n, np.random.default_rng(seed))), iter(constraints_of(stream))
    assert len(some) == n
    assert all(constraint in remaining for constraint in some)  # consumes the iterator, so that the order counts


@every_kind
def test_sample_counts_its_implied_constraints(kind: Any) -> None:
    """The stream has no duplicates, so that implied constraints differ from seeds."""
    request = {"kind": kind, "y": np.arange(60) % 3, "n": 200, "n_seeds": 100, "exclude": None}
    stream, seeds = stream_of(**request), set(constraints_of(stream_of(**request | {"n": 100})))
    assert len(set(constraints_of(stream))) == 200
    assert stream.n_implied == 100
    for n in (1, 10, 100, 199):
        some = stream.sample(n, np.random.default_rng(n))
        assert some.n_implied == len(set(constraints_of(some)) - seeds)


# -- cache ---------------------------------------------------------------------------------

REQUEST: dict[str, Any] = {
    "kind": "triplets", "y": np.array([0, 0, 1, 1, 0, 1]), "n": 12, "n_seeds": 6,
    "seed_words": (0, "digits", "run", 1),
}  # fmt: skip
OTHERS: dict[str, dict[str, Any]] = {
    "kind": {"kind": "pairs"},
    "a label": {"y": np.array([0, 0, 1, 1, 1, 1])},
    "another item": {"y": np.array([0, 0, 1, 1, 0, 1, 1])},
    "strings": {"y": np.array(list("001101"))},
    "longer strings": {"y": np.array(["0 ", "0", "1", "1", "0", "1"])},
    "n": {"n": 13},
    "n_seeds": {"n_seeds": 7},
    "seed": {"seed_words": (1, "digits", "run", 1)},
    "name": {"seed_words": (0, "digit", "run", 1)},
    "run": {"seed_words": (0, "digits", "run", 2)},
    "words split differently": {"seed_words": (0, "digitsrun", "", 1)},
    "exclude": {"exclude": np.array([[0, 2]])},
    "exclude other": {"exclude": np.array([[0, 3]])},
}


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@every_kind
@pytest.mark.parametrize("exclude", [None, np.array([[0, 2]])], ids=["all", "some excluded"])
def test_stream_is_drawn_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, exclude: NDArray[Any] | None
) -> None:
    request = {**REQUEST, "kind": kind, "exclude": exclude}
    first = ConstraintCache(tmp_path / "constraints").get(**request)
    monkeypatch.setattr(module, "draw_constraints", None)
    again = ConstraintCache(tmp_path / "constraints").get(**request)
    assert equal(again, first)
    assert again.rows.dtype == first.rows.dtype
    assert again.same is None or (first.same is not None and again.same.dtype == first.same.dtype)
    assert len(files(tmp_path / "constraints")) == 1


@every_kind
def test_stream_does_not_depend_on_the_cache(tmp_path: Path, kind: str) -> None:
    request = {**REQUEST, "kind": kind}
    cache = ConstraintCache(tmp_path)
    for other in OTHERS.values():
        cache.get(**{**request, **other})
    assert equal(cache.get(**request), ConstraintCache().get(**request))


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_different_requests_are_stored_separately(tmp_path: Path, other: dict[str, Any]) -> None:
    cache = ConstraintCache(tmp_path)
    cache.get(**REQUEST)
    request = {**REQUEST, **other}
    assert equal(cache.get(**request), ConstraintCache().get(**request))
    assert len(files(tmp_path)) == 2


def test_digest_separates_labels_and_excluded_pairs(tmp_path: Path) -> None:
    """The last two labels of the one request are the excluded pair of the other."""
    cache = ConstraintCache(tmp_path)
    cache.get(**REQUEST)
    request = {**REQUEST, "y": REQUEST["y"][:4], "exclude": REQUEST["y"][4:].reshape(1, 2)}
    assert equal(cache.get(**request), ConstraintCache().get(**request))


def test_stream_uses_the_generator_of_its_seed_words() -> None:
    """The kind is one of the words, so that pairs and triplets are drawn independently."""
    y, words = np.arange(20) % 4, (3, "digits")
    for kind in KINDS:
        expected = draw_constraints(kind, y, 20, 10, generator_for(*words, kind))  # type: ignore[arg-type]
        assert equal(ConstraintCache().get(kind, y, 20, 10, words), expected)  # type: ignore[arg-type]


def test_damaged_file_is_drawn_again(tmp_path: Path) -> None:
    y = np.arange(40) % 4
    first = ConstraintCache(tmp_path).get("triplets", y, 60, 30, (0, "words"))
    (path,) = tmp_path.glob("*.npz")
    path.write_bytes(path.read_bytes()[:200])
    again = ConstraintCache(tmp_path).get("triplets", y, 60, 30, (0, "words"))
    np.testing.assert_array_equal(first.rows, again.rows)
