"""Methods of a benchmark: learners and metrics, and the parameter values that tuning tries."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal

import joblib
import numpy as np
from sklearn.base import clone

from oahu import learners
from oahu.exceptions import InvalidInputError, InvalidTypeError
from oahu.learners.base import Learner, missing_methods
from oahu.learners.kinds import PairLearner
from oahu.loading import load
from oahu.metrics import Metric

__all__ = ["CLICK_BASELINES", "CLICK_METHODS", "DEFAULT_METHODS", "GRIDS", "LearnsFrom", "Method", "as_method"]
__all__ += ["as_methods", "reference_method"]

LearnsFrom = Literal["triplets", "pairs", "labels", "nothing"]

#: The methods that are compared by default: the recommended learner, those of the paper
#: and of its related work, and two unlearned metrics.
DEFAULT_METHODS: Final = (
    "AnchoredOAHU", "OAHU", "LEGO", "RDML", "OASIS", "OPML", "POLA", "SOML", "SORS", "Euclidean", "Cosine",
)  # fmt: skip

#: The methods that only the protocol ``clicks`` can measure: the cosine of centred items, relevance feedback
#: without learning, and two methods that are trained offline on all clicks so far.
CLICK_BASELINES: Final = ("CentredCosine", "Rocchio", "LinearAdapter", "NUDGE")

#: The methods that the protocol ``clicks`` compares by default. NUDGE needs another package.
CLICK_METHODS: Final = (*DEFAULT_METHODS, *(name for name in CLICK_BASELINES if name != "NUDGE"))

#: The parameter values that tuning tries with each input scaling. They include the authors' values.
GRIDS: Final[Mapping[str, Mapping[str, Sequence[Any]]]] = {
    "OAHU": {"tau": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)},
    "LEGO": {"learning_rate": (0.001, 0.01, 0.1, 1.0)},
    "RDML": {"learning_rate": (0.0001, 0.001, 0.01, 0.1, 1.0)},
    "OASIS": {"aggressiveness": (0.0001, 0.001, 0.01, 0.1, 1.0)},
    "OPML": {"gamma": (0.0001, 0.001, 0.01, 0.1)},
    "POLA": {"relaxation": (0.0, 1.0, 100.0)},
    "SOML": {"learning_rate": (0.001, 0.01, 0.1, 1.0), "sparsity": (1e-6, 1e-4, 1e-2)},
    "SORS": {"learning_rate": (0.001, 0.01, 0.1), "sparsity": (1e-6, 1e-4, 1e-2)},
    "AdaSORS": {"learning_rate": (1e-4, 1e-3, 1e-2), "sparsity": (1e-6, 1e-4)},
}

#: Parameters with other defaults in a benchmark: OPML skips triplets that are too long for its update.
_BENCHMARK_DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {"OPML": {"too_long": "skip"}}

_SET_BY_PROTOCOL: Final = ("preprocessor", "random_state", "n_constraints")


@dataclass(frozen=True, eq=False)
class Method:
    """A method of a benchmark: a learner to train, a metric that is used without training, or a baseline.

    Attributes
    ----------
    name : str
        Name of the method.
    learner : Learner, optional
        Learner to train. Each trial trains a clone of the learner.
    metric : Metric, optional
        Metric that is used without training.
    grid : mapping
        Values that tuning tries, for each tuned parameter.
    baseline : str, optional
        One of `CLICK_BASELINES`, if the method is neither a learner nor a metric.
    """

    name: str
    learner: Learner[Any] | None = None
    metric: Metric | None = None
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    baseline: str | None = None

    @property
    def learns_from(self) -> LearnsFrom:
        """Kind of training data: "triplets", "pairs", "labels", or "nothing" for a method without training."""
        if self.learner is None or isinstance(self.learner, learners.Euclidean | learners.Cosine):
            return "nothing"
        if isinstance(self.learner, learners.OPML):
            return "labels"
        return "pairs" if isinstance(self.learner, PairLearner) else "triplets"

    @property
    def identity(self) -> dict[str, Any]:
        """Class of the method, and parameters that differ from their defaults, for the ids of trials."""
        if self.baseline is not None:
            return {"class": self.baseline}
        if self.learner is None:
            return {"class": type(self.metric).__name__, "digest": joblib.hash(self.metric)}
        kind = type(self.learner)
        defaults = {name: parameter.default for name, parameter in inspect.signature(kind).parameters.items()}
        changed = {
            name: value if isinstance(value, str | int | float | bool | None) else repr(value)
            for name, value in self.learner.get_params(deep=False).items()
            if name not in _SET_BY_PROTOCOL and repr(value) != repr(defaults.get(name))
        }
        return {"class": kind.__name__, **changed, **_source_digest(kind)}

    @property
    def candidates(self) -> list[dict[str, Any]]:
        """All combinations of parameter values that tuning tries."""
        return [dict(zip(self.grid, values, strict=True)) for values in product(*self.grid.values())]

    def build(self, params: Mapping[str, Any], rng: np.random.Generator) -> Learner[Any]:
        """Return a new learner with these parameters."""
        assert self.learner is not None
        learner: Learner[Any] = clone(self.learner)
        learner.set_params(random_state=int(rng.integers(2**31)), **params)
        return learner


def as_method(given: Any) -> Method:
    """Return the method for an object or a name.

    Parameters
    ----------
    given : Method, Learner, Metric, (name, Learner or Metric), or str
        A string is the name of a learner in `oahu.LEARNERS`, a name in `CLICK_BASELINES`, the ``module:Name`` of a
        class or object to import, or the path of a model file. The metric in a model file is used without training.
    """
    if isinstance(given, Method):
        return given
    if isinstance(given, str):
        return _method_by_name(given)
    name, model = given if isinstance(given, tuple) and len(given) == 2 else (None, given)
    if isinstance(model, type) and issubclass(model, Learner):
        model = model()
    if isinstance(model, Learner):
        kind = type(model).__name__
        return Method(name or kind, learner=model, grid=GRIDS.get(kind, {}))
    if isinstance(model, Metric):
        return Method(name or type(model).__name__, metric=model)
    missing = missing_methods(model)
    raise InvalidTypeError(
        "A method must be a learner (a subclass of oahu.TripletLearner or oahu.PairLearner), a metric, the name of "
        f"a learner, module:Name, or a model file. Got {_type_name(model)} instead."
        + (f" It has no {', '.join(missing)}." if missing else "")
    )


def as_methods(given: Sequence[Any] | None) -> list[Method]:
    """Return methods with distinct names. For None, return the default methods."""
    methods = [as_method(one) for one in (DEFAULT_METHODS if given is None else given)]
    names = [method.name for method in methods]
    if len(set(names)) < len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise InvalidInputError(
            f"Two methods are named {duplicate!r}. Pass (name, learner) to give them other names."
        )
    return methods


def reference_method(methods: Sequence[Method], name: str | None = None) -> str:
    """Return the name of the reference method of the significance tests.

    By default, the reference method is the first method in `DEFAULT_METHODS` that is among ``methods``. If there is
    no such method, the reference method is the first method in ``methods``.
    """
    names = [method.name for method in methods]
    if name is None:
        return next((default for default in DEFAULT_METHODS if default in names), names[0] if names else "")
    found = next((one for one in names if one.lower() == name.lower()), None)
    if found is None:
        raise InvalidInputError(f"The reference method must be one of {', '.join(names)}. Got {name!r} instead.")
    return found


def _type_name(model: Any) -> str:
    return f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__


def _source_digest(kind: type) -> dict[str, str]:
    """Return a hash of the source code of a user's learner. If the code changes, trials are measured again."""
    if kind.__module__.partition(".")[0] == "oahu":
        return {}
    try:
        source = inspect.getsource(sys.modules[kind.__module__])
    except (OSError, TypeError, KeyError):  # defined in an interactive session
        return {}
    return {"source": hashlib.sha256(source.encode()).hexdigest()[:16]}


def _method_by_name(name: str) -> Method:
    by_name = {learner.lower(): learner for learner in learners.LEARNERS} | {"anchored": "AnchoredOAHU"}
    if name.lower() in by_name:
        kind = by_name[name.lower()]
        learner = getattr(learners, kind)(**_BENCHMARK_DEFAULTS.get(kind, {}))
        return Method(kind, learner=learner, grid=GRIDS.get(kind, {}))
    baseline = next((one for one in CLICK_BASELINES if one.lower() == name.lower()), None)
    if baseline is not None:
        return Method(baseline, baseline=baseline)
    if Path(name).is_file():
        loaded: Any = load(name)
        metric = loaded.metric() if isinstance(loaded, Learner) else getattr(loaded, "metric", loaded)
        return as_method((Path(name).stem, metric))
    if ":" in name:
        return _import_method(name)
    raise InvalidInputError(
        f"There is no method {name!r}. Use one of {', '.join(learners.LEARNERS)}, module:Name, or a model file."
    )


def _import_method(name: str) -> Method:
    """Import the object with the name ``module:Name`` and return the object as a method."""
    module, _, attribute = name.partition(":")
    try:
        model = getattr(import_module(module), attribute)
        if inspect.isabstract(model):
            missing = ", ".join(sorted(model.__abstractmethods__))
            raise InvalidTypeError(f"{attribute} does not implement {missing}.")
        model = model() if isinstance(model, type) else model
        return as_method((attribute, model))
    except InvalidTypeError as error:  # not a learner, or a learner with missing methods
        raise InvalidTypeError(f"The method {name!r} cannot be used. {error}") from error
    except Exception as error:  # the user's code may raise anything
        raise InvalidInputError(
            f"The method {name!r} cannot be imported ({type(error).__name__}: {error}). Its module must be on the "
            "Python path (PYTHONPATH). If the method is a class, it must be possible to create an instance without "
            "arguments."
        ) from error
