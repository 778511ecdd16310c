"""Base class of all evaluation protocols."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.protocols.constraint_streams import ConstraintCache
from oahu.evaluation.protocols.method_training import Stopwatch, TrainedMetric
from oahu.evaluation.protocols.methods import DEFAULT_METHODS, Method
from oahu.evaluation.protocols.scaling import SCALINGS, check_components
from oahu.evaluation.trials import Outcome, Trial
from oahu.exceptions import InvalidInputError
from oahu.messages import shorten
from oahu.version import __version__

__all__ = ["EvaluationProtocol", "outcome_of"]

_AT_LEAST_ONE: Final = ("n_constraints", "n_seeds", "k", "queries", "n_clicks", "shown", "refresh")
_MINIMUM_VALUES: Final = {"seed": 0, "catalogue": 22, **dict.fromkeys(_AT_LEAST_ONE, 1)}


class EvaluationProtocol(ABC):
    """An experiment that measures a method on a data set.

    Attributes
    ----------
    name : str
        Name of the protocol.
    score : str
        Name of the score that tuning optimises.
    higher_is_better : bool
        Whether a higher score is better.
    tunable : bool
        Whether methods can be tuned for this protocol. Tuning calls `validate`.
    tuned_as : str, optional
        Name of another protocol to use for tuning. None if the protocol itself is used.
    runs : int
        Default number of runs.
    default_methods : tuple of str
        Methods that are compared by default.
    defaults : mapping
        Default values of the settings of a trial. The default scaling is not included, because it depends on the
        data set.
    choices : mapping
        Allowed values of each setting that has a fixed list of values.
    """

    name: ClassVar[str]
    score: ClassVar[str]
    higher_is_better: ClassVar[bool] = False
    tunable: ClassVar[bool] = True
    tuned_as: ClassVar[str | None] = None
    runs: ClassVar[int] = 10
    default_methods: ClassVar[tuple[str, ...]] = DEFAULT_METHODS
    defaults: ClassVar[Mapping[str, Any]] = {}
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"scaling": SCALINGS}

    def settings(self, dataset: Dataset, **changed: Any) -> dict[str, Any]:
        """Return all settings of a trial. Values in ``changed`` are validated and replace default values."""
        common = {
            "version": __version__,
            "data": dataset.digest,
            "seed": 0,
            "scaling": dataset.scaling,
            "pca": None,
            "params": {},
            "tuned": False,
        }
        settings = {**common, **self.defaults}
        for name, value in changed.items():
            if name not in settings:
                raise InvalidInputError(
                    f"{self.name} has no setting {name!r}. Its settings are {', '.join(settings)}."
                )
            if value not in self.choices.get(name, (value,)):
                raise InvalidInputError(
                    f"The setting {name!r} must be one of {', '.join(self.choices[name])}. "
                    f"Got {shorten(value)} instead."
                )
            if name in _MINIMUM_VALUES and value is not None and value < _MINIMUM_VALUES[name]:
                raise InvalidInputError(
                    f"The setting {name!r} must be at least {_MINIMUM_VALUES[name]}. Got {value} instead."
                )
        check_components(changed.get("pca"), dataset.n_features)
        return {**settings, **changed}

    def applies_to(self, method: Method) -> bool:
        """Return whether the protocol can measure a method."""
        return method.baseline is None

    def trials(self, dataset: Dataset, method: Method, runs: int, settings: Mapping[str, Any]) -> Sequence[Trial]:
        """Return the trials of a method, one trial per run."""
        return [Trial(self.name, dataset.name, method.name, run, settings) for run in range(runs)]

    def check_dataset(self, dataset: Dataset) -> None:  # noqa: B027
        """Raise `InvalidInputError` if the protocol cannot use the data set."""

    @abstractmethod
    def measure(self, trial: Trial, dataset: Dataset, method: Method, cache: ConstraintCache) -> Outcome:
        """Measure one trial."""

    @abstractmethod
    def validate(self, trial: Trial, dataset: Dataset, method: Method, cache: ConstraintCache) -> Outcome:
        """Measure one tuning trial on development data. ``trial.run`` is the number of the fold."""


def outcome_of(
    trial: Trial, trained: TrainedMetric, stopwatch: Stopwatch, scores: Mapping[str, float], **curves: Any
) -> Outcome:
    """Return the outcome of a trial, given its trained metric, times and scores."""
    all_scores = {**scores, "utilization": trained.utilization}
    return Outcome(trial, all_scores, {**trained.curves, **curves}, stopwatch.seconds, trained.facts)
