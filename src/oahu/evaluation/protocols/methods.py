"""The rows of a comparison: learners, metrics, and what is tried when they are tuned."""

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

__all__ = ["GRIDS", "PAPER_METHODS", "Feed", "Method", "as_method", "as_methods"]

Feed = Literal["triplets", "pairs", "labels", "nothing"]

#: The rows that are compared unless others are named.
PAPER_METHODS: Final = (
    "OAHU", "LEGO", "RDML", "OASIS", "OPML", "POLA", "SOML", "SORS", "Euclidean", "Cosine",
)  # fmt: skip

#: What is tried when a method is tuned, beside the input scalings: its authors' value is among them.
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

#: What a comparison sets that is not a learner's default: OPML's step has no minimiser for very long triplets.
_SET: Final[Mapping[str, Mapping[str, Any]]] = {"OPML": {"too_long": "skip"}}

_OURS: Final = ("preprocessor", "random_state", "n_constraints")  # parameters that a protocol decides on


@dataclass(frozen=True, eq=False)
class Method:
    """A row: a learner, or a metric that is there already.

    Attributes
    ----------
    name : str
    learner : Learner, optional
        It is never changed: every cell learns with a clone.
    metric : Metric, optional
    grid : mapping
        For each parameter that is tuned, what is tried.
    """

    name: str
    learner: Learner[Any] | None = None
    metric: Metric | None = None
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    @property
    def feed(self) -> Feed:
        """What it learns from."""
        if self.learner is None or isinstance(self.learner, learners.Euclidean | learners.Cosine):
            return "nothing"
        if isinstance(self.learner, learners.OPML):
            return "labels"
        return "pairs" if isinstance(self.learner, PairLearner) else "triplets"

    @property
    def described(self) -> dict[str, Any]:
        """What tells it from other methods of its name: its class, and the parameters that are not the defaults."""
        if self.learner is None:
            return {"class": type(self.metric).__name__, "digest": joblib.hash(self.metric)}
        kind = type(self.learner)
        defaults = {name: one.default for name, one in inspect.signature(kind).parameters.items()}
        changed = {
            name: value if isinstance(value, str | int | float | bool | None) else repr(value)
            for name, value in self.learner.get_params(deep=False).items()
            if name not in _OURS and repr(value) != repr(defaults.get(name))
        }
        return {"class": kind.__name__, **changed, **_source(kind)}

    @property
    def candidates(self) -> list[dict[str, Any]]:
        """The settings of its parameters that are tried when it is tuned."""
        return [dict(zip(self.grid, values, strict=True)) for values in product(*self.grid.values())]

    def build(self, params: Mapping[str, Any], rng: np.random.Generator) -> Learner[Any]:
        """A fresh learner with these parameters."""
        assert self.learner is not None
        made: Learner[Any] = clone(self.learner)
        made.set_params(random_state=int(rng.integers(2**31)), **params)
        return made


def as_method(given: Any) -> Method:
    """A method from what a user names or passes.

    Parameters
    ----------
    given : Method, Learner, Metric, (name, Learner or Metric), or str
        As a str: the name of a learner in `oahu.LEARNERS`, ``module:Name`` of a class or an object that can be
        imported, or a model file, whose metric is measured as it is.
    """
    if isinstance(given, Method):
        return given
    if isinstance(given, str):
        return _named(given)
    name, thing = given if isinstance(given, tuple) and len(given) == 2 else (None, given)
    if isinstance(thing, type) and issubclass(thing, Learner):
        thing = thing()
    if isinstance(thing, Learner):
        kind = type(thing).__name__
        return Method(name or kind, learner=thing, grid=GRIDS.get(kind, {}))
    if isinstance(thing, Metric):
        return Method(name or type(thing).__name__, metric=thing)
    lacking = missing_methods(thing)
    raise InvalidTypeError(
        "A method must be a learner, a metric, the name of a learner, module:Name, or a model file. "
        f"Got {type(thing).__name__} instead. Derive a learner from oahu.TripletLearner or oahu.PairLearner"
        + (f"; this class has no {', '.join(lacking)}." if lacking else ".")
    )


def as_methods(given: Sequence[Any] | None) -> list[Method]:
    """Methods, all of different names; those of the paper and its related work if there are none."""
    methods = [as_method(one) for one in (PAPER_METHODS if given is None else given)]
    names = [method.name for method in methods]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInputError(f"Two methods are named {twice!r}: pass (name, learner) to tell them apart.")
    return methods


def _source(kind: type) -> dict[str, str]:
    """A digest of the module that a user's learner is in: one that was edited is another one."""
    if kind.__module__.partition(".")[0] == "oahu":
        return {}
    try:
        source = inspect.getsource(sys.modules[kind.__module__])
    except (OSError, TypeError, KeyError):  # typed into a shell
        return {}
    return {"source": hashlib.sha256(source.encode()).hexdigest()[:16]}


def _named(name: str) -> Method:
    known = {learner.lower(): learner for learner in learners.LEARNERS} | {"anchored": "AnchoredOAHU"}
    if name.lower() in known:
        learner = known[name.lower()]
        made = getattr(learners, learner)(**_SET.get(learner, {}))
        return Method(learner, learner=made, grid=GRIDS.get(learner, {}))
    if Path(name).is_file():
        loaded: Any = load(name)
        metric = loaded.metric() if isinstance(loaded, Learner) else getattr(loaded, "metric", loaded)
        return as_method((Path(name).stem, metric))
    module, _, attribute = name.partition(":")
    if attribute:
        try:
            thing = getattr(import_module(module), attribute)
            thing = thing() if isinstance(thing, type) else thing
        except Exception as error:  # it is another's code
            raise InvalidInputError(
                f"The method {name!r} cannot be imported ({type(error).__name__}: {error}). Its module must be on "
                "the Python path (PYTHONPATH), and a class must need no arguments."
            ) from error
        return as_method((attribute, thing))
    raise InvalidInputError(
        f"There is no method {name!r}. It must be one of {', '.join(learners.LEARNERS)}, module:Name, or a model "
        "file."
    )
