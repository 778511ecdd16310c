"""Streams of constraints: seeds, what follows from them, and nothing that is forbidden or false."""

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
from oahu.evaluation.protocols import draws as module
from oahu.evaluation.protocols.constraint_streams import ConstraintCache, ConstraintStream, draw, generator_for

KINDS = ("triplets", "pairs")
every_kind = pytest.mark.parametrize("kind", KINDS)

#: Labels with several of every class, and pairs of items that are not to be drawn: few enough to leave others.
LABELS = st.lists(st.integers(0, 3), min_size=4, max_size=20).map(lambda y: np.array([*y, 0, 0, 0, 1, 1, 1]))
NUMBERS = st.tuples(st.integers(1, 30), st.integers(0, 60)).map(lambda both: (both[0], sum(both)))


@st.composite
def requests(draw: st.DrawFn, some_excluded: bool = True) -> dict[str, Any]:
    y = draw(LABELS)
    exclude = None
    if some_excluded:
        free = st.tuples(st.integers(0, len(y) - 7), st.integers(0, len(y) - 1)).filter(
            lambda pair: pair[0] != pair[1]
        )
        exclude = np.array(draw(st.lists(free, min_size=1, max_size=6)))
    n_seeds, n = draw(NUMBERS)
    return {"kind": draw(st.sampled_from(KINDS)), "y": y, "n": n, "n_seeds": n_seeds, "exclude": exclude}


def drawn(seed: int = 0, **request: Any) -> ConstraintStream:
    return draw(**request, rng=np.random.default_rng(seed))


def records(stream: ConstraintStream) -> list[Any]:
    if stream.same is None:
        return [Triplet(*row) for row in stream.rows.tolist()]
    return [Pair(*row, same > 0) for row, same in zip(stream.rows.tolist(), stream.same.tolist(), strict=True)]


def equal(one: ConstraintStream, two: ConstraintStream) -> bool:
    same = (one.same is None and two.same is None) or np.array_equal(one.same, two.same)  # type: ignore[arg-type]
    return np.array_equal(one.rows, two.rows) and same and one.n_followed == two.n_followed


# -- what is drawn ---------------------------------------------------------------------------------------


@given(request=requests(), seed=st.integers(0, 99))
def test_there_are_n_constraints_and_all_are_true(request: dict[str, Any], seed: int) -> None:
    y, stream = request["y"], drawn(seed, **request)
    assert len(stream) == len(stream.rows) == request["n"]
    for constraint in records(stream):
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
    contained = {frozenset(two) for row in drawn(seed, **request).rows.tolist() for two in combinations(row, 2)}
    assert not contained & forbidden


@given(request=requests(), seed=st.integers(0, 99))
def test_without_more_the_seeds_are_what_is_sampled(request: dict[str, Any], seed: int) -> None:
    stream = drawn(seed, **request | {"n": request["n_seeds"]})
    sample = sample_triplets if request["kind"] == "triplets" else sample_pairs
    expected: Any = sample(request["y"], request["n_seeds"], seed, exclude=request["exclude"])
    rows, same = expected if request["kind"] == "pairs" else (expected, None)
    np.testing.assert_array_equal(stream.rows, rows)
    np.testing.assert_array_equal(stream.same, same)
    assert stream.n_followed == 0


@given(request=st.booleans().flatmap(lambda some: requests(some)), seed=st.integers(0, 99))
def test_seeds_stand_in_order_each_with_what_follows_then_behind(request: dict[str, Any], seed: int) -> None:
    """Then what is missing. A constraint that follows does so from the seeds before it, and is new."""
    seeds, stream = records(drawn(seed, **request | {"n": request["n_seeds"]})), drawn(seed, **request)
    before, graph, known = iter([*seeds, None]), ConstraintGraph(), set(seeds)
    coming = next(before)
    for constraint in records(stream)[: len(seeds) + stream.n_followed]:
        if constraint == coming:
            graph.add(constraint)
            coming = next(before)
        else:
            assert graph.implies(constraint)
            assert constraint not in known
            known.add(constraint)
    assert coming is None


@given(request=requests(some_excluded=False), seed=st.integers(0, 99))
def test_only_what_does_not_follow_is_filled_up(request: dict[str, Any], seed: int) -> None:
    graph = ConstraintGraph()
    for constraint in records(drawn(seed, **request | {"n": request["n_seeds"]})):
        graph.add(constraint)
    following = graph.implied_triplets if request["kind"] == "triplets" else graph.implied_pairs
    assert drawn(seed, **request).n_followed == min(request["n"] - request["n_seeds"], following.count)


@every_kind
def test_what_follows_and_is_excluded_is_replaced_by_another_that_follows(kind: Any) -> None:
    """A hundred seeds tell all about twenty items of two classes: far more follows than is asked for."""
    exclude = np.array([[0, i] for i in range(11, 15)])
    stream = drawn(kind=kind, y=np.arange(20) // 10, n=160, n_seeds=100, exclude=exclude)
    assert stream.n_followed == 60


@every_kind
def test_one_seed_of_many_items_is_filled_up(kind: Any) -> None:
    """From a triplet follows its turned one; from a pair nothing."""
    stream = drawn(kind=kind, y=np.arange(1000) % 10, n=40, n_seeds=1, exclude=None)
    assert len(stream) == 40
    assert stream.n_followed == (1 if kind == "triplets" else 0)


@every_kind
def test_excluding_nothing_is_as_good_as_not_excluding(kind: Any) -> None:
    request = {"kind": kind, "y": np.arange(30) % 3, "n": 40, "n_seeds": 20}
    assert equal(drawn(**request, exclude=np.empty((0, 2), np.intp)), drawn(**request, exclude=None))


# -- generators ------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 9), st.text(max_size=3), st.integers(0, 9)), min_size=2, max_size=2))
def test_a_generator_depends_on_its_words_alone(both: list[tuple[int, str, int]]) -> None:
    one, two = (generator_for(*words).integers(2**63, size=3).tolist() for words in both)
    assert (one == two) == (both[0] == both[1])


# -- a sample --------------------------------------------------------------------------------------------


@given(request=requests(), seed=st.integers(0, 99), data=st.data())
def test_a_sample_keeps_the_order(request: dict[str, Any], seed: int, data: st.DataObject) -> None:
    stream = drawn(0, **request)
    n = data.draw(st.integers(1, len(stream)))
    some, whole = records(stream.sample(n, np.random.default_rng(seed))), iter(records(stream))
    assert len(some) == n
    assert all(constraint in whole for constraint in some)  # one after the other


@every_kind
def test_of_a_sample_as_many_follow_as_are_in_it(kind: Any) -> None:
    """No constraint of this stream is there twice: one that follows can be told from a seed."""
    request = {"kind": kind, "y": np.arange(60) % 3, "n": 200, "n_seeds": 100, "exclude": None}
    stream, seeds = drawn(**request), set(records(drawn(**request | {"n": 100})))
    assert len(set(records(stream))) == 200
    assert stream.n_followed == 100
    for n in (1, 10, 100, 199):
        some = stream.sample(n, np.random.default_rng(n))
        assert some.n_followed == len(set(records(some)) - seeds)


# -- draws that are kept ---------------------------------------------------------------------------------

REQUEST: dict[str, Any] = {
    "kind": "triplets", "y": np.array([0, 0, 1, 1, 0, 1]), "n": 12, "n_seeds": 6, "words": (0, "digits", "run", 1),
}  # fmt: skip
OTHERS: dict[str, dict[str, Any]] = {
    "kind": {"kind": "pairs"},
    "a label": {"y": np.array([0, 0, 1, 1, 1, 1])},
    "another item": {"y": np.array([0, 0, 1, 1, 0, 1, 1])},
    "strings": {"y": np.array(list("001101"))},
    "longer strings": {"y": np.array(["0 ", "0", "1", "1", "0", "1"])},
    "n": {"n": 13},
    "n_seeds": {"n_seeds": 7},
    "seed": {"words": (1, "digits", "run", 1)},
    "name": {"words": (0, "digit", "run", 1)},
    "run": {"words": (0, "digits", "run", 2)},
    "words cut elsewhere": {"words": (0, "digitsrun", "", 1)},
    "exclude": {"exclude": np.array([[0, 2]])},
    "exclude other": {"exclude": np.array([[0, 3]])},
}


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@every_kind
@pytest.mark.parametrize("exclude", [None, np.array([[0, 2]])], ids=["all", "without some"])
def test_a_draw_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, exclude: NDArray[Any] | None
) -> None:
    request = {**REQUEST, "kind": kind, "exclude": exclude}
    first = ConstraintCache(tmp_path / "draws").get(**request)
    monkeypatch.setattr(module, "draw", None)
    kept = ConstraintCache(tmp_path / "draws").get(**request)
    assert equal(kept, first)
    assert kept.rows.dtype == first.rows.dtype
    assert kept.same is None or (first.same is not None and kept.same.dtype == first.same.dtype)
    assert len(files(tmp_path / "draws")) == 1


@every_kind
def test_a_draw_does_not_depend_on_where_it_is_kept_and_on_others(tmp_path: Path, kind: str) -> None:
    request = {**REQUEST, "kind": kind}
    kept = ConstraintCache(tmp_path)
    for other in OTHERS.values():
        kept.get(**{**request, **other})
    assert equal(kept.get(**request), ConstraintCache().get(**request))


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_what_differs_is_kept_apart(tmp_path: Path, other: dict[str, Any]) -> None:
    kept = ConstraintCache(tmp_path)
    kept.get(**REQUEST)
    asked = {**REQUEST, **other}
    assert equal(kept.get(**asked), ConstraintCache().get(**asked))
    assert len(files(tmp_path)) == 2


def test_labels_are_not_taken_for_what_is_excluded(tmp_path: Path) -> None:
    """The last two labels of the one request are the excluded pair of the other."""
    kept = ConstraintCache(tmp_path)
    kept.get(**REQUEST)
    asked = {**REQUEST, "y": REQUEST["y"][:4], "exclude": REQUEST["y"][4:].reshape(1, 2)}
    assert equal(kept.get(**asked), ConstraintCache().get(**asked))


def test_a_draw_is_that_of_its_own_generator() -> None:
    """Its kind is a word too: pairs and triplets are drawn independently."""
    y, words = np.arange(20) % 4, (3, "digits")
    for kind in KINDS:
        expected = draw(kind, y, 20, 10, generator_for(*words, kind))  # type: ignore[arg-type]
        assert equal(ConstraintCache().get(kind, y, 20, 10, words), expected)  # type: ignore[arg-type]


def test_a_damaged_file_is_drawn_anew(tmp_path: Path) -> None:
    y = np.arange(40) % 4
    first = ConstraintCache(tmp_path).get("triplets", y, 60, 30, (0, "words"))
    (path,) = tmp_path.glob("*.npz")
    path.write_bytes(path.read_bytes()[:200])
    again = ConstraintCache(tmp_path).get("triplets", y, 60, 30, (0, "words"))
    np.testing.assert_array_equal(first.rows, again.rows)
