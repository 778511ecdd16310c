"""Values in error messages are short."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oahu
from oahu.messages import shorten

VECTOR = np.random.default_rng(0).normal(size=384)
VALUES = st.recursive(
    st.none() | st.integers() | st.floats() | st.text(max_size=300) | st.binary(max_size=300),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_no_value_takes_more_than_80_characters(value: Any) -> None:
    assert len(shorten(value)) <= 80


@pytest.mark.parametrize("value", [0, 3.0, "tea", None, (1, 2), [1.5], {"a": 1}, True, np.float64(2)])
def test_a_short_value_is_its_repr(value: Any) -> None:
    assert shorten(value) == repr(value)


def test_a_large_array_is_described_by_type_and_shape() -> None:
    assert shorten(VECTOR.astype(np.float32)) == "array of float32, shape (384,)"


@pytest.mark.parametrize(
    "call",
    [
        lambda: oahu.ConstraintGraph().add(VECTOR),  # type: ignore[arg-type]
        lambda: oahu.ConstraintGraph().add(oahu.Pair(VECTOR, 0, True)),
        lambda: oahu.ConstraintGraph().add(oahu.Pair(VECTOR.tolist(), 0, True)),
        lambda: oahu.ConstraintGraph().implies(oahu.Pair(0, 1, VECTOR)),  # type: ignore[arg-type]
        lambda: oahu.ConstraintGraph(VECTOR.tolist()),  # type: ignore[arg-type]
        lambda: oahu.AnchoredOAHU(random_state=VECTOR).fit(np.zeros((2, 3, 4))),
        lambda: oahu.OAHU(tau=VECTOR).fit(np.zeros((2, 3, 4))),
        lambda: oahu.OAHU(tau=VECTOR.tolist()).fit(np.zeros((2, 3, 4))),
        lambda: oahu.OAHU().fit(VECTOR),
        lambda: oahu.OAHU().fit([VECTOR.tolist()]),
        lambda: oahu.LEGO().partial_fit(np.zeros((2, 2, 4)), VECTOR),
        lambda: oahu.LEGO().partial_fit(np.zeros((2, 2, 4)), ["x" * 500, 1]),
        lambda: oahu.sample_triplets([0, 1], VECTOR),  # type: ignore[arg-type]
        lambda: oahu.sample_pairs([0, 0, 1], 3, similar=VECTOR.tolist()),  # type: ignore[arg-type]
    ],
)
def test_errors_do_not_print_a_whole_vector(call: Any) -> None:
    with pytest.raises(oahu.InvalidInputError) as caught:
        call()
    assert len(str(caught.value)) < 300
