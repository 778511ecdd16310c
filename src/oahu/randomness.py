"""Where randomness comes from: every draw in oahu is a numpy Generator's."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from oahu.exceptions import InvalidInputError

__all__ = ["RandomState", "as_generator", "generator_from_state", "generator_state"]

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
    seed: Any = random_state
    whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    if seed is not None and not (whole and seed >= 0):
        raise InvalidInputError(
            "The 'random_state' parameter must be None, an int of at least 0, a numpy Generator or a "
            f"RandomState. Got {random_state!r} instead."
        )
    return np.random.default_rng(random_state)


_BIT_GENERATORS: Final = {
    cls.__name__: cls
    for cls in (np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64)
}


def generator_state(generator: np.random.Generator) -> dict[str, Any]:
    """Where a generator stands, as plain JSON."""
    state: dict[str, Any] = _plain(generator.bit_generator.state)
    return state


def generator_from_state(state: dict[str, Any]) -> np.random.Generator:
    """A generator that goes on from there.

    >>> rng = np.random.default_rng(0)
    >>> twin = generator_from_state(generator_state(rng))
    >>> bool(rng.random() == twin.random())
    True
    """
    bits = _BIT_GENERATORS[state["bit_generator"]](0)
    bits.state = _arrays(state)
    return np.random.Generator(bits)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _arrays(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _arrays(part) for name, part in value.items()}
    return np.array(value, dtype=np.uint64) if isinstance(value, list) else value
