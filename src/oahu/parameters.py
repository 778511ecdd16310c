"""Validation of parameters. All error messages have the same form."""

from __future__ import annotations

import math
import sys
import warnings
from typing import Any

import numpy as np

from oahu.exceptions import InvalidInputError
from oahu.messages import shorten
from oahu.randomness import SEED_DESCRIPTION, is_valid_seed

__all__ = ["check_choice", "check_integer", "check_real", "check_seed", "warn_caller"]


def check_real(owner: object, name: str, value: Any, low: float, high: float, *, closed: str = "neither") -> None:
    """Raise `InvalidInputError` unless ``value`` is a number in the interval from ``low`` to ``high``.

    ``closed`` is "left", "right", "both" or "neither": the ends that belong to the interval.
    """
    left = "[" if closed in ("left", "both") else "("
    right = "]" if closed in ("right", "both") else ")"
    number = isinstance(value, float | int | np.floating | np.integer) and not isinstance(value, bool)
    above = number and (value >= low if left == "[" else value > low)
    below = number and (value <= high if right == "]" else value < high)
    if not (above and below) or not _fits_float(value):
        _raise_invalid(owner, name, f"in {left}{low:g}, {high:g}{right}", value)


def check_integer(owner: object, name: str, value: Any, *, least: int) -> None:
    """Raise `InvalidInputError` unless ``value`` is an integer of at least ``least``."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        _raise_invalid(owner, name, f"an int of at least {least}", value)


def check_choice(owner: object, name: str, value: Any, choices: tuple[Any, ...]) -> None:
    """Raise `InvalidInputError` unless ``value`` is one of ``choices``."""
    plain = bool(value) if isinstance(value, np.bool_) else value
    if not any(plain is choice or (isinstance(plain, str) and plain == choice) for choice in choices):
        _raise_invalid(owner, name, "one of " + ", ".join(map(repr, choices)), value)


def check_seed(owner: object, name: str, value: Any) -> None:
    """Raise `InvalidInputError` unless ``value`` is valid as a ``random_state``."""
    if not is_valid_seed(value):
        _raise_invalid(owner, name, SEED_DESCRIPTION, value)


def warn_caller(message: str) -> None:
    """Issue a warning. It shows the line of the user's code that called oahu."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("oahu."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, UserWarning, stacklevel=level)


def _fits_float(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _raise_invalid(owner: object, name: str, expected: str, value: Any) -> None:
    raise InvalidInputError(
        f"The {name!r} parameter of {type(owner).__name__} must be {expected}. Got {shorten(value)} instead."
    )
