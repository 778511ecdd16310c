"""The memory layout and type of the input do not matter, and tables are not copied."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone

from oahu.learners.base import Learner as AnyLearner

Learner = AnyLearner[Any]
Factory = Callable[..., Learner]
Saved = Callable[[Learner], bytes]
Floats = NDArray[np.floating]


def mapped(array: NDArray[Any], folder: Path) -> NDArray[Any]:
    np.save(folder / "array.npy", array)
    return np.load(folder / "array.npy", mmap_mode="r")


def strided(array: NDArray[Any], folder: Path) -> NDArray[Any]:
    """Every third row and every second feature of a larger array."""
    larger = np.full((3 * len(array), *array.shape[1:-1], 2 * array.shape[-1]), 99.0)
    larger[::3, ..., ::2] = array
    return larger[::3, ..., ::2]


def backwards(array: NDArray[Any], folder: Path) -> NDArray[Any]:
    """A view that walks its memory backwards."""
    return array[::-1, ..., ::-1].copy()[::-1, ..., ::-1]


def unaligned(array: NDArray[Any], folder: Path) -> NDArray[Any]:
    """Numbers that begin at an odd byte."""
    view = np.empty(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


#: The same numbers in other types and layouts.
FORMS: dict[str, Callable[[NDArray[Any], Path], Any]] = {
    "list": lambda array, folder: array.tolist(),
    "tuple of arrays": lambda array, folder: tuple(array),
    "objects": lambda array, folder: array.astype(object),
    "float16": lambda array, folder: array.astype(np.float16),
    "float32": lambda array, folder: array.astype(np.float32),
    "long double": lambda array, folder: array.astype(np.longdouble),
    "other byte order": lambda array, folder: array.astype(array.dtype.newbyteorder()),
    "uint8": lambda array, folder: array.astype(np.uint8),
    "int64": lambda array, folder: array.astype(np.int64),
    "memory map": mapped,
    "writable": lambda array, folder: array.copy(),
    "Fortran order": lambda array, folder: np.asfortranarray(array),
    "strided view": strided,
    "reversed view": backwards,
    "unaligned": unaligned,
    "read-only float32": lambda array, folder: mapped(array.astype(np.float32), folder),
    "Fortran float32": lambda array, folder: np.asfortranarray(array.astype(np.float32)),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_the_form_of_the_table_does_not_matter(
    make_typical: Factory,
    saved: Saved,
    tmp_path: Path,
    table: Floats,
    indices: NDArray[np.int64],
    form: Callable[..., Any],
) -> None:
    learner = make_typical(preprocessor=form(table, tmp_path)).partial_fit(indices)
    assert saved(learner) == saved(make_typical().partial_fit(table[indices]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_the_form_of_the_values_does_not_matter(
    make_typical: Factory,
    saved: Saved,
    tmp_path: Path,
    table: Floats,
    indices: NDArray[np.int64],
    form: Callable[..., Any],
    dtype: str,
) -> None:
    learner = make_typical(dtype=dtype).partial_fit(form(table[indices], tmp_path))
    assert saved(learner) == saved(make_typical(dtype=dtype).partial_fit(table[indices]))


@pytest.mark.parametrize("form", ["read-only float32", "Fortran float32"])
def test_values_of_the_models_type_are_learned_in_every_layout(
    make_every: Factory, saved: Saved, tmp_path: Path, table: Floats, indices: NDArray[np.int64], form: str
) -> None:
    learner = make_every().partial_fit(FORMS[form](table[indices], tmp_path))
    assert saved(learner) == saved(make_every().partial_fit(table[indices]))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64", ">i8", "list", "Fortran order"])
def test_the_form_of_the_indices_does_not_matter(
    make_typical: Factory, saved: Saved, table: Floats, indices: NDArray[np.int64], dtype: str
) -> None:
    forms = {"list": indices.tolist, "Fortran order": lambda: np.asfortranarray(indices)}
    formed = forms.get(dtype, lambda: indices.astype(dtype))()
    expected = make_typical(preprocessor=table).partial_fit(indices)
    assert saved(make_typical(preprocessor=table).partial_fit(formed)) == saved(expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_float32_table_gives_the_bits_of_the_same_numbers_in_float64(
    make: Factory, saved: Saved, indices: NDArray[np.int64], dtype: str
) -> None:
    single = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    double = make(preprocessor=single.astype(np.float64), dtype=dtype)
    assert saved(make(preprocessor=single, dtype=dtype).partial_fit(indices)) == saved(double.partial_fit(indices))


def test_a_small_index_type_reaches_into_a_table_larger_than_it_can_count(make: Factory, saved: Saved) -> None:
    table = np.random.default_rng(0).normal(size=(300, 5))
    indices = np.array([[0, 127, 5]])
    learner = make(preprocessor=table).partial_fit(indices.astype(np.int8))
    assert saved(learner) == saved(make().partial_fit(table[indices]))


# -- tables are shared -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form", [FORMS["writable"], FORMS["memory map"], FORMS["list"]], ids=["array", "map", "list"]
)
def test_a_clone_shares_the_table(
    make_oahu: Factory, tmp_path: Path, table: Floats, form: Callable[..., Any]
) -> None:
    shared = form(table, tmp_path)
    assert clone(make_oahu(preprocessor=shared)).preprocessor is shared


def test_learning_from_a_memory_map_does_not_copy_it(make: Factory, tmp_path: Path) -> None:
    shape = (10_000, 64)
    table = np.lib.format.open_memmap(tmp_path / "table.npy", mode="w+", dtype=np.float32, shape=shape)
    table[:] = np.random.default_rng(0).random(shape, dtype=np.float32)
    indices = np.random.default_rng(1).integers(0, len(table), (2_500, 3))
    learner = make(preprocessor=table).partial_fit(indices[:10])
    learner.score(indices[:10])  # what is imported and compiled for it is not of interest
    tracemalloc.start()
    try:
        learner.partial_fit(indices)
        learner.score(indices)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < table.nbytes / 4  # of 2.6 MB; the triplets as values would be 1.9 MB
