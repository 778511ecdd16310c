"""Random generators from every accepted kind of random_state."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oahu import InvalidInputError
from oahu.randomness import as_generator, generator_from_state, generator_state, private_generator


def draws(generator: np.random.Generator, n: int = 20) -> list[int]:
    return generator.integers(2**63, size=n).tolist()


# -- as_generator ----------------------------------------------------------------------------------------


@given(seed=st.integers(0, 2**128))
def test_an_int_gives_the_same_draws_every_time(seed: int) -> None:
    assert draws(as_generator(seed)) == draws(as_generator(seed))


@given(seed=st.integers(0, 2**128))
def test_an_int_gives_the_draws_of_numpys_default_generator(seed: int) -> None:
    assert draws(as_generator(seed)) == draws(np.random.default_rng(seed))


@given(seed=st.integers(0, 2**32))
def test_the_next_int_gives_other_draws(seed: int) -> None:
    assert draws(as_generator(seed)) != draws(as_generator(seed + 1))


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.int16])
def test_an_int_of_numpy_is_an_int(kind: type[np.integer[Any]]) -> None:
    assert draws(as_generator(kind(7))) == draws(as_generator(7))


def test_none_gives_different_draws() -> None:
    assert draws(as_generator(None)) != draws(as_generator(None))


def test_a_generator_is_returned_itself() -> None:
    generator = np.random.default_rng(0)
    assert as_generator(generator) is generator


def test_a_legacy_state_gives_the_same_draws_from_the_same_seed() -> None:
    assert draws(as_generator(np.random.RandomState(3))) == draws(as_generator(np.random.RandomState(3)))


def test_a_legacy_state_gives_other_draws_from_another_seed() -> None:
    assert draws(as_generator(np.random.RandomState(3))) != draws(as_generator(np.random.RandomState(4)))


def test_a_legacy_state_is_advanced() -> None:
    legacy = np.random.RandomState(3)
    assert draws(as_generator(legacy)) != draws(as_generator(legacy))


def test_draws_do_not_advance_the_legacy_state() -> None:
    legacy, twin = np.random.RandomState(3), np.random.RandomState(3)
    as_generator(legacy)
    draws(as_generator(twin))
    assert legacy.randint(2**31) == twin.randint(2**31)


@pytest.mark.parametrize(
    "wrong", [-1, np.int64(-1), 1.0, np.float64(1.0), True, False, np.True_, "1", [1], np.array(1), np.nan, object]
)
def test_other_values_are_rejected_and_quoted(wrong: Any) -> None:
    with pytest.raises(
        InvalidInputError, match="'random_state' parameter must be None, an int of at least 0"
    ) as error:
        as_generator(wrong)
    assert f"Got {wrong!r} instead" in str(error.value)


# -- private_generator -----------------------------------------------------------------------------------

SEEDS: dict[str, Callable[[], Any]] = {
    "int": lambda: 7,
    "Generator": lambda: np.random.default_rng(7),
    "Generator of another kind": lambda: np.random.Generator(np.random.MT19937(7)),
    "RandomState": lambda: np.random.RandomState(7),
}


@pytest.mark.parametrize("seed", SEEDS.values(), ids=SEEDS.keys())
def test_a_private_generator_depends_only_on_the_seed(seed: Callable[[], Any]) -> None:
    assert draws(private_generator(seed())) == draws(private_generator(seed()))


@pytest.mark.parametrize("seed", SEEDS.values(), ids=SEEDS.keys())
def test_a_private_generator_can_be_stored(seed: Callable[[], Any]) -> None:
    assert type(private_generator(seed()).bit_generator) is np.random.PCG64


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState], ids=["Generator", "RandomState"])
def test_the_next_private_generator_of_a_generator_differs(make: Any) -> None:
    passed = make(7)
    assert draws(private_generator(passed)) != draws(private_generator(passed))


def test_a_private_generator_does_not_depend_on_later_draws_of_its_source() -> None:
    passed = np.random.default_rng(7)
    own = private_generator(passed)
    passed.random()
    assert draws(own) == draws(private_generator(np.random.default_rng(7)))


def test_a_private_generator_does_not_advance_its_source() -> None:
    passed, twin = np.random.default_rng(7), np.random.default_rng(7)
    private_generator(passed)
    draws(private_generator(twin))
    assert draws(passed) == draws(twin)


def test_without_a_seed_private_generators_differ() -> None:
    assert draws(private_generator(None)) != draws(private_generator(None))


def test_an_invalid_seed_of_a_private_generator_is_rejected() -> None:
    with pytest.raises(InvalidInputError, match=r"'random_state' parameter .*Got -1 instead"):
        private_generator(-1)


# -- states ----------------------------------------------------------------------------------------------


def advance(generator: np.random.Generator, kinds: list[str]) -> None:
    """Draw in ways that leave different states: with and without a buffered half word."""
    for kind in kinds:
        if kind == "word":
            generator.random()
        elif kind == "half":
            generator.integers(2**31, dtype=np.uint32)
        else:
            generator.normal(size=3)


@given(seed=st.integers(0, 2**64), kinds=st.lists(st.sampled_from(["word", "half", "normal"]), max_size=20))
def test_a_restored_generator_continues(seed: int, kinds: list[str]) -> None:
    generator = private_generator(seed)
    advance(generator, kinds)
    twin = generator_from_state(json.loads(json.dumps(generator_state(generator))))
    halves = [g.integers(2**31, size=5, dtype=np.uint32).tolist() for g in (generator, twin)]
    assert halves[0] == halves[1]
    assert draws(generator) == draws(twin)


def test_reading_the_state_does_not_advance_the_generator() -> None:
    generator = private_generator(0)
    generator_state(generator)
    assert draws(generator) == draws(private_generator(0))


def test_a_state_does_not_change_with_its_generator() -> None:
    generator = private_generator(0)
    state = generator_state(generator)
    draws(generator)
    assert draws(generator_from_state(state)) == draws(private_generator(0))


def test_a_restored_generator_is_independent() -> None:
    generator = private_generator(0)
    draws(generator_from_state(generator_state(generator)))
    assert draws(generator) == draws(private_generator(0))


@pytest.mark.parametrize(
    ("name", "value"),
    [("state", -1), ("state", 2**128), ("inc", "1"), ("has_uint32", 2), ("uinteger", 2**32), ("uinteger", 0.5)],
)
def test_an_invalid_state_is_rejected(name: str, value: Any) -> None:
    state = generator_state(private_generator(0)) | {name: value}
    with pytest.raises(ValueError, match=f"'{name}' of a generator must be an int"):
        generator_from_state(state)
