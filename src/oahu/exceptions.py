"""Everything oahu raises on purpose: one root, few leaves."""

from __future__ import annotations

from typing import Any

from sklearn.exceptions import NotFittedError as SklearnNotFittedError

__all__ = [
    "ContradictionError",
    "DatasetError",
    "InvalidInputError",
    "InvalidTypeError",
    "ModelFileError",
    "NoDistanceError",
    "NotFittedError",
    "OAHUError",
    "OverflowedItemError",
    "RejectedConstraintError",
    "ServiceRequestError",
    "StreamError",
]


class OAHUError(Exception):
    """The root of every error that oahu raises on purpose."""


class InvalidInputError(OAHUError, ValueError):
    """The input is not what was asked for; nothing was learned from it."""


class InvalidTypeError(InvalidInputError, TypeError):
    """The input is of a kind that cannot be what was asked for, such as a sparse matrix or a dictionary."""


class NotFittedError(OAHUError, SklearnNotFittedError):  # type: ignore[misc]
    """A learner was asked for its metric before it had seen the number of features."""


class NoDistanceError(OAHUError, AttributeError):
    """A bilinear similarity was asked for distances or vectors: it has scores only."""


class ModelFileError(OAHUError):
    """A model file cannot be read: truncated, damaged, foreign, or from a newer oahu."""


class DatasetError(OAHUError):
    """A data set is not here and cannot be had, or a file of it is damaged."""


class _RowError(OAHUError):
    """An error about one row of a call.

    Attributes
    ----------
    row : int
        Which constraint or item of the call it was, counted from 0.
    """

    def __init__(self, message: str, row: int) -> None:
        super().__init__(message)
        self.row = row

    def __reduce__(self) -> tuple[type[_RowError], tuple[str, int]]:
        return type(self), (str(self), self.row)


class RejectedConstraintError(_RowError, ArithmeticError):
    """Learning a constraint would have overflowed the model; the model is as it was before the call."""


class OverflowedItemError(_RowError, InvalidInputError):
    """An item is finite, and its embedding is not."""

    def about(self, item: str) -> str:
        """The message, with ``item`` in place of the row as what it is about."""
        return f"{item[:1].upper()}{item[1:]}{str(self).removeprefix(f'Item {self.row}')}"


class StreamError(InvalidInputError):
    """A line of a file cannot be read.

    Attributes
    ----------
    line : int
        Which line it is, counted from 1.
    source : str
        The file, as it was named.
    """

    def __init__(self, problem: str, source: str, line: int) -> None:
        super().__init__(f"{source}, line {line}: {problem}")
        self.problem, self.source, self.line = problem, source, line

    def __reduce__(self) -> tuple[type[StreamError], tuple[str, str, int]]:
        return type(self), (self.problem, self.source, self.line)


class ContradictionError(InvalidInputError):
    """A constraint says the opposite of what follows from those before; the graph is as it was.

    Attributes
    ----------
    constraint : Pair or Triplet
        What was refused.
    chain : tuple of GivenPair
        What proves the opposite, link by link.
    """

    def __init__(self, message: str, constraint: Any, chain: tuple[Any, ...]) -> None:
        super().__init__(message)
        self.constraint, self.chain = constraint, chain

    def __reduce__(self) -> tuple[type[ContradictionError], tuple[str, Any, tuple[Any, ...]]]:
        return type(self), (str(self), self.constraint, self.chain)


class ServiceRequestError(OAHUError):
    """A service did not do what a `Client` asked for, or cannot be reached.

    Attributes
    ----------
    status : int
        Of HTTP; 0 if there was no answer.
    problem : dict
        What it said (RFC 9457): ``type``, ``title``, ``detail``, and for a contradiction its ``chain``.
    """

    def __init__(self, message: str, status: int, problem: dict[str, Any]) -> None:
        super().__init__(message)
        self.status, self.problem = status, problem

    def __reduce__(self) -> tuple[type[ServiceRequestError], tuple[str, int, dict[str, Any]]]:
        return type(self), (str(self), self.status, self.problem)
