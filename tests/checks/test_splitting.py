"""The result does not depend on how a stream is split, or on whether it has pairs or triplets."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from oahu import Pairs, Triplets
from oahu.learners.base import Learner as AnyLearner

Learner = AnyLearner[Any]
Factory = Callable[..., Learner]
Saved = Callable[[Learner], bytes]
Floats = NDArray[np.floating]


#: Where to cut a stream: anywhere, and often near the end of a block of 128 triplets.
CUTS = st.lists(st.integers(1, 299) | st.sampled_from([1, 127, 128, 129, 255, 256, 257]), max_size=8)
LONG_CUTS = st.lists(st.integers(1, 2499) | st.sampled_from([1023, 1024, 1025, 2047, 2048, 2049]), max_size=8)


def parts(stream: NDArray[Any], cuts: list[int]) -> Iterator[NDArray[Any]]:
    """The stream in pieces, none of them empty."""
    return (part for part in np.split(stream, sorted(set(cuts))) if len(part))


@given(
    dtype=st.sampled_from(["float32", "float64"]),
    cuts=CUTS,
    n=st.integers(1, 300),
    n_features=st.integers(1, 40),
    seed=st.integers(0, 9),
)
@settings(max_examples=15)
def test_any_chunks_give_the_bits_of_one_call(
    make_every: Factory, saved: Saved, dtype: str, cuts: list[int], n: int, n_features: int, seed: int
) -> None:
    stream = np.random.default_rng(seed).normal(size=(n, 3, n_features))
    chunked = make_every(dtype=dtype)
    for part in parts(stream, cuts):
        chunked.partial_fit(part)
    assert saved(chunked) == saved(make_every(dtype=dtype).partial_fit(stream))


def test_one_by_one_gives_the_bits_of_one_call_in_float64(
    make_every: Factory, saved: Saved, triplets: Floats
) -> None:
    single = make_every(dtype="float64")
    for anchor, positive, negative in triplets[:150]:
        single.learn_one(anchor, positive, negative)
    assert saved(single) == saved(make_every(dtype="float64").partial_fit(triplets[:150]))


@given(cuts=LONG_CUTS, n=st.sampled_from([1024, 1025, 1500, 2049, 2500]))
@settings(max_examples=8)
def test_chunks_of_a_stream_longer_than_the_history_give_the_bits_of_one_call(
    make: Factory, saved: Saved, cuts: list[int], n: int
) -> None:
    stream = np.random.default_rng(n).normal(size=(n, 3, 4))
    chunked = make()
    for part in parts(stream, cuts):
        chunked.partial_fit(part)
    assert saved(chunked) == saved(make().partial_fit(stream))


def test_one_by_one_beyond_the_history_gives_the_bits_of_one_call(make: Factory, saved: Saved) -> None:
    stream = np.random.default_rng(0).normal(size=(1100, 3, 4))
    single = make()
    for triplet in stream:
        single.learn_one(*triplet)
    assert saved(single) == saved(make().partial_fit(stream))


@given(cuts=CUTS)
@settings(max_examples=10)
def test_values_and_indices_in_turn_give_the_bits_of_values(
    make: Factory, saved: Saved, table: Floats, indices: NDArray[np.int64], cuts: list[int]
) -> None:
    mixed = make(preprocessor=table)
    for turn, part in enumerate(parts(indices, cuts)):
        mixed.partial_fit(table[part] if turn % 2 else part)
    assert saved(mixed) == saved(make().partial_fit(table[indices]))


def test_a_row_number_at_a_time_gives_the_bits_of_values(
    make: Factory, saved: Saved, table: Floats, indices: NDArray[np.int64]
) -> None:
    single = make(preprocessor=table)
    for row in indices:
        single.learn_one(*row)
    assert saved(single) == saved(make().partial_fit(table[indices]))


def test_fit_learns_triplets_as_partial_fit_does(make: Factory, saved: Saved, triplets: Floats) -> None:
    assert saved(make().fit(triplets)) == saved(make().partial_fit(triplets))


# -- pairs and triplets ----------------------------------------------------------------------------------


def test_triplets_of_their_own_table_give_the_bits_of_values(
    make: Factory, saved: Saved, table: Floats, indices: NDArray[np.int64]
) -> None:
    by_object = make().partial_fit(Triplets(indices, preprocessor=table))
    assert saved(by_object) == saved(make().partial_fit(table[indices]))


def test_a_triplet_is_its_similar_pair_and_then_its_dissimilar_one(
    make_of_pairs: Factory, saved: Saved, triplets: Floats
) -> None:
    pairs = triplets[:, [0, 1, 0, 2]].reshape(-1, 2, 5)
    split = make_of_pairs().partial_fit(pairs, np.tile([1, -1], len(triplets)))
    assert saved(split) == saved(make_of_pairs().partial_fit(triplets))


@given(cuts=CUTS)
@settings(max_examples=10)
def test_pairs_in_any_chunks_and_forms_give_the_bits_of_one_call(
    make_of_pairs: Factory, saved: Saved, table: Floats, indices: NDArray[np.int64], cuts: list[int]
) -> None:
    pairs, same = indices[:, :2], np.arange(300) % 3 == 0
    whole = make_of_pairs().partial_fit(table[pairs], np.where(same, 1, -1))
    chunked = make_of_pairs(preprocessor=table)
    for turn, part in enumerate(parts(np.arange(300), cuts)):
        if turn % 3 == 0:
            chunked.partial_fit(pairs[part], same[part])
        elif turn % 3 == 1:
            chunked.partial_fit(Pairs(table[pairs[part]], np.where(same[part], 1.0, -1.0)))
        else:
            for row in part:
                chunked.learn_one(*pairs[row], y=1 if same[row] else -1)
    assert saved(chunked) == saved(whole)


def test_similar_and_dissimilar_pairs_are_counted_apart(make_of_pairs: Factory, triplets: Floats) -> None:
    learner = make_of_pairs().partial_fit(triplets[:, :2], np.arange(300) % 3 == 0)
    similar, dissimilar = learner.utilization_similar_ * 100, learner.utilization_dissimilar_ * 200
    assert similar == pytest.approx(round(similar))
    assert dissimilar == pytest.approx(round(dissimilar))
    assert learner.utilization_ == pytest.approx((similar + dissimilar) / 300)


@pytest.mark.parametrize(("y", "absent"), [(1, "dissimilar"), (-1, "similar")])
def test_the_share_of_a_kind_that_was_not_seen_is_nan(
    make_of_pairs: Factory, triplets: Floats, y: int, absent: str
) -> None:
    learner = make_of_pairs().partial_fit(triplets[:, :2], np.full(300, y))
    assert math.isnan(getattr(learner, f"utilization_{absent}_"))


def test_fit_takes_pairs(make_of_pairs: Factory, saved: Saved, table: Floats, indices: NDArray[np.int64]) -> None:
    pairs, y = indices[:, :2], np.where(np.arange(300) % 3 == 0, 1, -1)
    expected = saved(make_of_pairs().partial_fit(table[pairs], y))
    assert saved(make_of_pairs(preprocessor=table).fit(pairs, y)) == expected
    assert saved(make_of_pairs().fit(table[pairs], y)) == expected
    assert saved(make_of_pairs().fit(Pairs(pairs, y, preprocessor=table))) == expected
