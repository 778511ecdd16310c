"""Keys of quantized items are tight lower bounds."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from oahu.index.quantized import QuantizedItems

Array = NDArray[Any]
U = 2.0**-24

SHAPES = {
    "normal": lambda rng, n, d: rng.normal(size=(n, d)),
    "one number": lambda rng, n, d: np.eye(d)[rng.integers(d, size=n)],
    "a few large": lambda rng, n, d: rng.normal(size=(n, d)) ** 9,
    "far away": lambda rng, n, d: 1e4 + rng.normal(size=(n, d)),
    "zeros": lambda rng, n, d: rng.normal(size=(n, d)) * rng.integers(2, size=(n, 1)),
    "of all sizes": lambda rng, n, d: rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-25, 10, size=(n, 1)),
}


@st.composite
def problems(draw: st.DrawFn) -> tuple[Array, Array]:
    """Items and a query, which may be one of them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(1, 70)), draw(st.integers(1, 300))
    size = 10.0 ** draw(st.integers(-42, 6))
    items = (SHAPES[draw(st.sampled_from(sorted(SHAPES)))](rng, n + 1, d) * size).astype(np.float32)
    query = items[0] if draw(st.booleans()) else items[-1]
    return items[:-1], query


def quantized(items: Array, width: int = 64, parts: int = 1) -> QuantizedItems:
    made = QuantizedItems(-(-len(items) // width), items.shape[1], width)
    edges = np.linspace(0, len(items), parts + 1).astype(int)
    for begin, end in pairwise(edges):
        if end > begin:
            made.write(items[begin:end], int(begin))
    return made


def hidden_of(made: QuantizedItems, n: int) -> Array:
    hidden = np.full(made.steps.shape, np.inf, np.float32)
    hidden.ravel()[:n] = 0
    return hidden


def keys_of(items: Array, query: Array, euclidean: bool) -> tuple[QuantizedItems, Array]:
    made = quantized(items)
    parts = [
        keys
        for _, keys in made.query(query, euclidean).sort_values(hidden_of(made, len(items)), 0, len(made.steps))
    ]
    return made, np.concatenate(parts)[: len(items)].astype(np.float64)


def truth(items: Array, query: Array, euclidean: bool) -> Array:
    rows, query_ = items.astype(np.longdouble), query.astype(np.longdouble)
    return np.square(rows - query_).sum(axis=1) if euclidean else -(rows * query_).sum(axis=1)


@given(problem=problems(), euclidean=st.booleans())
@settings(max_examples=50)
def test_keys_are_lower_bounds(problem: tuple[Array, Array], euclidean: bool) -> None:
    items, query = problem
    _, keys = keys_of(items, query, euclidean)
    true = truth(items, query, euclidean)
    assert (keys <= true + 2 * U * np.abs(keys) + 1e-40).all()


@given(problem=problems(), euclidean=st.booleans())
@settings(max_examples=50)
def test_keys_are_low_by_no_more_than_the_quantization_error(problem: tuple[Array, Array], euclidean: bool) -> None:
    items, query = problem
    made, keys = keys_of(items, query, euclidean)
    true = truth(items, query, euclidean)
    length, lengths = np.linalg.norm(query.astype(np.float64)), np.linalg.norm(items.astype(np.float64), axis=1)
    off = made.errors.ravel()[: len(items)]
    summed = 4 * (len(query) + 10) * U * length * (lengths + off) + 1e-40
    if euclidean:
        least = np.maximum(np.sqrt(np.maximum(true - summed, 0)) - 2 * off, 0) ** 2
    else:
        least = true - summed - 2 * length * off
    assert (keys >= least - 4 * U * np.abs(least) - 1e-37).all()


@given(problem=problems())
@settings(max_examples=50)
def test_quantization_errors_are_tight_upper_bounds(problem: tuple[Array, Array]) -> None:
    items, _ = problem
    made, n = quantized(items), len(items)
    steps = made.steps.ravel()[:n].astype(np.longdouble)
    columns = made.blocks.transpose(0, 2, 1).reshape(-1, items.shape[1])[:n].astype(np.longdouble)
    there = columns * steps[:, None]
    gap = np.sqrt(np.square(items.astype(np.longdouble) - there).sum(axis=1))
    off = made.errors.ravel()[:n]
    length = np.sqrt(np.square(there).sum(axis=1))
    assert (gap <= off).all()
    assert (off <= gap * (1 + 1e-8) + 1e-13 * length).all()
    np.testing.assert_allclose(made.lengths.ravel()[:n], length.astype(np.float64), rtol=1e-12)
    small = np.abs(items).max(axis=1) > 1e-29  # smaller items are quantized to 0
    assert (np.abs(items - there)[small] <= 0.501 * steps[small, None]).all()


def test_writing_in_parts_equals_writing_at_once() -> None:
    items = np.random.default_rng(0).normal(size=(333, 50)).astype(np.float32)
    whole = quantized(items, 128)
    for parts in (2, 7, 333):
        made = quantized(items, 128, parts)
        for name in ("blocks", "steps", "lengths", "errors"):
            np.testing.assert_array_equal(getattr(made, name), getattr(whole, name))


@pytest.mark.parametrize("euclidean", [True, False])
def test_quantization_leaves_few_candidates(euclidean: bool) -> None:
    everything = np.random.default_rng(0).normal(size=(5001, 200)).astype(np.float32)
    items, query = everything[:-1], everything[-1]
    made = quantized(items, 512)
    tenth = float(np.sort(truth(items, query, euclidean))[9])
    left = made.query(query, euclidean).collect(hidden_of(made, 5000), tenth)
    assert 10 <= len(left) < 60
    assert (np.diff(left) > 0).all()


def test_hidden_items_are_neither_kept_nor_collected() -> None:
    items = np.random.default_rng(0).normal(size=(100, 20)).astype(np.float32)
    made = quantized(items)
    hidden = hidden_of(made, 100)
    hidden.ravel()[:90] = np.inf
    query_ = made.query(items[0], True)
    assert query_.collect(hidden, np.inf).tolist() == list(range(90, 100))
    keys, positions = np.full(20, np.inf, np.float32), np.full(20, -1, np.int64)
    query_.keep_smallest(hidden, 0, len(hidden), keys, positions)
    assert sorted(positions[:10].tolist()) == list(range(90, 100))
    assert (positions[10:] == -1).all()
