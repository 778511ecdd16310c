"""What the protocols have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from oahu.evaluation.cells import Cell, Outcome
from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.protocols.draws import Draws
from oahu.evaluation.protocols.learning import Clock, Learned
from oahu.evaluation.protocols.methods import Method
from oahu.evaluation.protocols.scaling import SCALINGS, check_components
from oahu.exceptions import InvalidInputError
from oahu.messages import shorten
from oahu.version import __version__

__all__ = ["Protocol"]

_AT_LEAST: Final = {"seed": 0, "n_constraints": 1, "n_seeds": 1, "k": 1, "queries": 1}


class Protocol(ABC):
    """How a method is measured on a data set.

    Attributes
    ----------
    name : str
    score : str
        The score that tuning looks at.
    higher : bool
        Whether more of it is better.
    tunable : bool
        Whether it has a way to be tuned.
    tuned_as : str, optional
        The protocol whose tuning it shares, if that is not its own.
    runs : int
        How often it is repeated unless somebody says otherwise.
    defaults : mapping
        The settings of a cell that is not tuned, beside the data set's scaling.
    choices : mapping
        The settings that are one of a few.
    """

    name: ClassVar[str]
    score: ClassVar[str]
    higher: ClassVar[bool] = False
    tunable: ClassVar[bool] = True
    tuned_as: ClassVar[str | None] = None
    runs: ClassVar[int] = 10
    defaults: ClassVar[Mapping[str, Any]] = {}
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"scaling": SCALINGS}

    def settings(self, dataset: Dataset, **changed: Any) -> dict[str, Any]:
        """All settings of a cell, some of them changed."""
        common = {
            "version": __version__,
            "data": dataset.digest,
            "seed": 0,
            "scaling": dataset.scaling,
            "pca": None,
            "params": {},
            "tuned": False,
        }
        known = {**common, **self.defaults}
        for name, value in changed.items():
            if name not in known:
                raise InvalidInputError(
                    f"There is no setting {name!r} of {self.name}. There are {', '.join(known)}."
                )
            if value not in self.choices.get(name, (value,)):
                raise InvalidInputError(
                    f"The setting {name!r} must be one of {', '.join(self.choices[name])}. "
                    f"Got {shorten(value)} instead."
                )
            if name in _AT_LEAST and value is not None and value < _AT_LEAST[name]:
                raise InvalidInputError(
                    f"The setting {name!r} must be at least {_AT_LEAST[name]}. Got {value} instead."
                )
        check_components(changed.get("pca"), dataset.n_features)
        return {**known, **changed}

    def cells(self, dataset: Dataset, method: Method, runs: int, settings: Mapping[str, Any]) -> Sequence[Cell]:
        """What is measured of a method: a cell for every run."""
        return [Cell(self.name, dataset.name, method.name, run, settings) for run in range(runs)]

    def check(self, dataset: Dataset) -> None:  # noqa: B027
        """Raise if there is nothing to measure on such a data set."""

    @abstractmethod
    def measure(self, cell: Cell, dataset: Dataset, method: Method, draws: Draws) -> Outcome:
        """Measure one cell."""

    @abstractmethod
    def validate(self, cell: Cell, dataset: Dataset, method: Method, draws: Draws) -> Outcome:
        """Measure one cell of tuning, on development data: its run is the fold."""


def outcome(cell: Cell, learned: Learned, clock: Clock, scores: Mapping[str, float], **curves: Any) -> Outcome:
    """What came of a cell for which a method has learned."""
    told = {**scores, "utilization": learned.utilization}
    return Outcome(cell, told, {**learned.curves, **curves}, clock.seconds, learned.facts)
