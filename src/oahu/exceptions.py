"""The exceptions of oahu, which are all subclasses of OAHUError."""

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
    "ServiceTimeoutError",
    "StreamError",
]


class OAHUError(Exception):
    """Base class of all exceptions of oahu."""


class InvalidInputError(OAHUError, ValueError):
    """The input is invalid. Nothing was learned from the input."""


class InvalidTypeError(InvalidInputError, TypeError):
    """The input has a type that is not supported, such as a dictionary."""


class NotFittedError(OAHUError, SklearnNotFittedError):  # type: ignore[misc]
    """An object was used before it was fitted: for example, a learner before its first constraint."""


class NoDistanceError(OAHUError, AttributeError):
    """Distances or vectors of a bilinear similarity were requested, but a bilinear similarity has only scores."""


class ModelFileError(OAHUError):
    """A model file cannot be read: it is truncated, damaged, of another format, or from a newer version of oahu."""


class DatasetError(OAHUError):
    """A data set cannot be downloaded, or one of its files is damaged."""


class _RowError(OAHUError):
    """An error about one row of the input.

    Attributes
    ----------
    row : int
        The row number of the constraint or item in the input, counted from 0.
    """

    def __init__(self, message: str, row: int) -> None:
        super().__init__(message)
        self.row = row

    def __reduce__(self) -> tuple[type[_RowError], tuple[str, int]]:
        return type(self), (str(self), self.row)


class RejectedConstraintError(_RowError, ArithmeticError):
    """Learning a constraint would have made the model overflow. The call did not change the model."""


class OverflowedItemError(_RowError, InvalidInputError):
    """The features of an item are finite, but its embedding overflows."""

    def about(self, item: str) -> str:
        """Return the message with a description of the item in place of its row number."""
        return f"{item[:1].upper()}{item[1:]}{str(self).removeprefix(f'Item {self.row}')}"


class StreamError(InvalidInputError):
    """A line of a file is invalid.

    Attributes
    ----------
    line : int
        The line number, counted from 1.
    source : str
        The name of the file.
    """

    def __init__(self, problem: str, source: str, line: int) -> None:
        super().__init__(f"{source}, line {line}: {problem}")
        self.problem, self.source, self.line = problem, source, line

    def __reduce__(self) -> tuple[type[StreamError], tuple[str, str, int]]:
        return type(self), (self.problem, self.source, self.line)


class ContradictionError(InvalidInputError):
    """A constraint contradicts earlier constraints. It was not added to the constraint graph.

    Attributes
    ----------
    constraint : Pair or Triplet
        The rejected constraint.
    chain : tuple of GivenPair
        The proof of the contradiction: given pairs that imply the opposite of the constraint.
    """

    def __init__(self, message: str, constraint: Any, chain: tuple[Any, ...]) -> None:
        super().__init__(message)
        self.constraint, self.chain = constraint, chain

    def __reduce__(self) -> tuple[type[ContradictionError], tuple[str, Any, tuple[Any, ...]]]:
        return type(self), (str(self), self.constraint, self.chain)


class ServiceRequestError(OAHUError):
    """A request of a `Client` failed, or the service cannot be reached.

    Attributes
    ----------
    status : int
        The HTTP status code, or 0 if there was no response.
    problem : dict
        The problem details (RFC 9457): ``type``, ``title``, ``detail``, and ``chain`` for a contradiction.
    """

    def __init__(self, message: str, status: int, problem: dict[str, Any]) -> None:
        super().__init__(message)
        self.status, self.problem = status, problem

    def __reduce__(self) -> tuple[type[ServiceRequestError], tuple[str, int, dict[str, Any]]]:
        return type(self), (str(self), self.status, self.problem)


class ServiceTimeoutError(ServiceRequestError, TimeoutError):
    """The service has not finished in the given time, for example with learning feedback."""
