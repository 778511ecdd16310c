"""Random generators: all random numbers in oahu come from a NumPy Generator."""

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

#: Description of valid seeds, for error messages.
SEED_DESCRIPTION: Final = "None, an int of at least 0, a numpy Generator or a RandomState"

RandomState = int | np.integer | np.random.Generator | np.random.RandomState | None


def as_generator(random_state: RandomState) -> np.random.Generator:
    """Return a Generator for a ``random_state``, which has the same meaning as in scikit-learn.

    An int gives the same random numbers in every call. None gives different random numbers in every call. A
    Generator is returned unchanged. For a legacy RandomState, the Generator's seed is drawn from the RandomState.
    This draw advances the RandomState.

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
    """Return whether ``value`` is accepted as ``random_state``."""
    if isinstance(value, int | np.integer):
        return not isinstance(value, bool) and bool(value >= 0)
    return value is None or isinstance(value, np.random.Generator | np.random.RandomState)


def private_generator(random_state: RandomState) -> np.random.Generator:
    """Return a new PCG64 generator that is not shared with other code.

    If ``random_state`` is a Generator or RandomState, the seed of the new generator is drawn from ``random_state``.
    This draw advances ``random_state``.
    """
    if isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state.integers(2**32, size=4, dtype=np.uint32))
    return as_generator(random_state)


def state_restorer(random_state: Any) -> Callable[[], None]:
    """Return a function that resets a Generator or RandomState to its state at the time of this call.

    For any other ``random_state``, the returned function does nothing.
    """
    if isinstance(random_state, np.random.Generator):
        bits, state = random_state.bit_generator, random_state.bit_generator.state
        return lambda: setattr(bits, "state", state)
    if isinstance(random_state, np.random.RandomState):
        legacy = random_state.get_state(legacy=False)
        return lambda: random_state.set_state(legacy)
    return lambda: None


def generator_state(generator: np.random.Generator) -> dict[str, Any]:
    """Return the state of a generator from `private_generator`, as JSON values."""
    state = generator.bit_generator.state
    return {**state["state"], "has_uint32": state["has_uint32"], "uinteger": state["uinteger"]}


def generator_from_state(state: dict[str, Any]) -> np.random.Generator:
    """Return a generator with a state from `generator_state`. Raise ValueError if the state is invalid.

    >>> rng = private_generator(0)
    >>> twin = generator_from_state(generator_state(rng))
    >>> bool(rng.random() == twin.random())
    True
    """
    for name, limit in _STATE_LIMITS.items():
        value = state[name]
        if not isinstance(value, int) or not 0 <= value < limit:
            raise ValueError(f"{name!r} of a generator must be an int in [0, {limit}), not {shorten(value)}")
    bits = np.random.PCG64(0)
    bits.state = {
        "bit_generator": "PCG64",
        "state": {"state": state["state"], "inc": state["inc"]},
        "has_uint32": state["has_uint32"],
        "uinteger": state["uinteger"],
    }
    return np.random.Generator(bits)


_STATE_LIMITS: Final = {"state": 2**128, "inc": 2**128, "has_uint32": 2, "uinteger": 2**32}
