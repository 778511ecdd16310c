"""Where randomness comes from: every draw in oahu is a numpy Generator's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from oahu.exceptions import InvalidInputError
from oahu.messages import shorten

__all__ = [
    "SEED_DESCRIPTION",
    "RandomState",
    "as_generator",
    "generator_from_state",
    "generator_state",
    "is_valid_seed",
    "private_generator",
    "state_restorer",
]

#: In words, what `is_valid_seed` accepts.
SEED_DESCRIPTION: Final = "None, an int of at least 0, a numpy Generator or a RandomState"

RandomState = int | np.integer | np.random.Generator | np.random.RandomState | None


def as_generator(random_state: RandomState) -> np.random.Generator:
    """A Generator from what scikit-learn's users pass as ``random_state``.

    An int gives the same draws every time, None fresh ones. A Generator is used as it is and moves on; a legacy
    RandomState moves on by the seed that is drawn from it.

    >>> as_generator(7).integers(100) == as_generator(7).integers(100)
    np.True_
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**32, size=4, dtype=np.uint32))
    if not is_valid_seed(random_state):
        raise InvalidInputError(
            f"The 'random_state' parameter must be {SEED_DESCRIPTION}. Got {shorten(random_state)} instead."
        )
    return np.random.default_rng(random_state)


def is_valid_seed(value: Any) -> bool:
    """Whether a generator can come of ``value``."""
    if isinstance(value, int | np.integer):
        return not isinstance(value, bool) and bool(value >= 0)
    return value is None or isinstance(value, np.random.Generator | np.random.RandomState)


def private_generator(random_state: RandomState) -> np.random.Generator:
    """A generator that nobody else draws from, always a PCG64: what a learner keeps.

    A Generator or RandomState that is passed moves on by the seed that is drawn from it.
    """
    if isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state.integers(2**32, size=4, dtype=np.uint32))
    return as_generator(random_state)


def state_restorer(random_state: Any) -> Callable[[], None]:
    """What puts a Generator or RandomState back to where it stands now; does nothing for other seeds."""
    if isinstance(random_state, np.random.Generator):
        bits, place = random_state.bit_generator, random_state.bit_generator.state
        return lambda: setattr(bits, "state", place)
    if isinstance(random_state, np.random.RandomState):
        legacy = random_state.get_state(legacy=False)
        return lambda: random_state.set_state(legacy)
    return lambda: None


def generator_state(generator: np.random.Generator) -> dict[str, Any]:
    """Where a generator of `private_generator` stands, as plain JSON."""
    state = generator.bit_generator.state
    return {**state["state"], "has_uint32": state["has_uint32"], "uinteger": state["uinteger"]}


def generator_from_state(state: dict[str, Any]) -> np.random.Generator:
    """A generator that goes on from there; ValueError if there is no such place.

    >>> rng = private_generator(0)
    >>> twin = generator_from_state(generator_state(rng))
    >>> bool(rng.random() == twin.random())
    True
    """
    for name, limit in _PLACES.items():
        value = state[name]
        if not isinstance(value, int) or not 0 <= value < limit:
            raise ValueError(f"a generator's {name!r} cannot be {shorten(value)}")
    bits = np.random.PCG64(0)
    bits.state = {
        "bit_generator": "PCG64",
        "state": {"state": state["state"], "inc": state["inc"]},
        "has_uint32": state["has_uint32"],
        "uinteger": state["uinteger"],
    }
    return np.random.Generator(bits)


_PLACES: Final = {"state": 2**128, "inc": 2**128, "has_uint32": 2, "uinteger": 2**32}
