"""The one contract: what every learner offers, and the part of it that is the same for all.

A learner is a scikit-learn estimator whose heart is `partial_fit`. A call is learned whole or not at all: a new
state is built beside the old one and takes its place when the last constraint has been checked and learned. A
`metric` that another thread asks for meanwhile is the old state's.

What learners differ in, what they learn from and what comes out, is in kinds.py.
"""

from __future__ import annotations

import copy
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Generic, NoReturn, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from oahu.arrays import check_items
from oahu.constraints import Pairs, Triplets, Tuples, sample_triplets
from oahu.exceptions import (
    InvalidInputError,
    InvalidTypeError,
    NotFittedError,
    OverflowedItemError,
    RejectedConstraintError,
)
from oahu.io import model_files
from oahu.io.model_files import Content
from oahu.messages import shorten
from oahu.parameters import check_choice, check_integer, check_seed
from oahu.randomness import (
    RandomState,
    as_generator,
    generator_from_state,
    generator_state,
    private_generator,
    state_restorer,
)

__all__ = ["Learner", "S", "State", "shape_of", "share"]


class State(Protocol):
    """Everything a learner has learned, and nothing it was told."""

    rng: np.random.Generator
    n_seen: int
    n_used: int

    @property
    def dtype(self) -> np.dtype[Any]: ...

    def copy(self) -> Self: ...


S = TypeVar("S", bound=State)
T = TypeVar("T", bound=Tuples)


class Learner(BaseEstimator, ABC, Generic[S]):  # type: ignore[misc]
    """Base of all learners.

    A subclass says how a state begins (`_begin`), how constraints change it (`_learn`), what metric it stands for
    (`_metric`) and how it is kept (`_state_to_content`, `_state_from_content`); its parameters include those
    declared here.
    """

    random_state: RandomState
    preprocessor: Any
    n_constraints: int
    dtype: str

    #: Whether items may come as a sparse matrix.
    accepts_sparse: ClassVar[bool] = False

    # -- what a subclass provides ------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        """Raise `InvalidInputError` for a parameter out of range."""
        check_integer(self, "n_constraints", self.n_constraints, least=1)
        check_choice(self, "dtype", self.dtype, ("float32", "float64"))
        check_seed(self, "random_state", self.random_state)

    @abstractmethod
    def _begin(self, n_features: int, rng: np.random.Generator) -> S:
        """A state that has seen nothing."""

    @abstractmethod
    def _learn(self, state: S, constraints: Any) -> None:
        """Change ``state`` by every constraint in order; `InvalidInputError` for one that is not finite."""

    @abstractmethod
    def _metric(self, state: S) -> Any:
        """The metric of a state; it may share the state's memory."""

    @abstractmethod
    def _state_to_content(self, state: S) -> Content:
        """What a file keeps of a state beside its counts and its generator."""

    @abstractmethod
    def _state_from_content(self, content: Content) -> S:
        """The state that was kept, with its counts still 0."""

    @abstractmethod
    def _constraints(self, data: Any, y: Any, n_features: int | None) -> Tuples:
        """What was given, as constraints to learn; with ``n_features`` if it is known."""

    @abstractmethod
    def _drawn(self, items: Any, labels: NDArray[Any], rng: np.random.Generator) -> Tuples:
        """``n_constraints`` constraints to learn, drawn from labels."""

    def metric(self) -> Any:
        """The metric as it is now: a frozen value that later learning does not touch."""
        return self._metric(self._require_fitted())

    # -- learning ----------------------------------------------------------------------------------------

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        with self._all_or_nothing():
            self._check_parameters()
            known = self._known_features
            constraints = self._constraints(X, y, known)
            state = self._begin_anew(constraints.n_features) if known is None else self._state.copy()
            self._learn_into(state, constraints)
        return self

    def learn_one(self, *items: ArrayLike, y: Any = None) -> Self:
        """Learn from one constraint: vectors, or rows of the preprocessor's table.

        ``learn_one(anchor, positive, negative)`` for a triplet; learners of pairs also take
        ``learn_one(first, second, y=+1)``, or ``y=-1``.
        """
        names = {2: "First and second", 3: "Anchor, positive and negative"}
        if len(items) not in names:
            raise InvalidInputError(
                f"One constraint has two items and y=, or three. Got {len(items)} items instead."
            )
        try:
            constraint = np.array([items])
        except ValueError as error:
            try:
                got = "shapes " + ", ".join(str(np.shape(item)) for item in items)
            except ValueError:
                got = "a ragged item"
            count = {2: "two", 3: "three"}[len(items)]
            raise InvalidInputError(
                f"{names[len(items)]} must be {count} vectors of as many features, or {count} rows of "
                f"preprocessor. Got {got} instead."
            ) from error
        return self.partial_fit(constraint, None if y is None else [y])

    def fit(self, X: Any, y: Any = None) -> Self:
        """Forget everything, then learn from constraints as `partial_fit` does, or from labelled items.

        Parameters
        ----------
        X : array-like
            Constraints, or items of shape (n_items, n_features) with their labels as ``y``.
        y : array-like, optional
            Labels of items: ``n_constraints`` constraints are drawn from them and learned. For pairs, whether each
            is alike.
        """
        with self._all_or_nothing():
            self._check_parameters()
            if y is None or self._are_constraints(X):
                constraints = self._constraints(X, y, None)
                state = self._begin_anew(constraints.n_features)
                self.__dict__.pop("feature_names_in_", None)
                self._learn_into(state, constraints)
            else:
                items, labels = self._labelled(X, y, reset=True)
                self._learn_labelled(self._begin_anew(items.shape[1]), items, labels)
        return self

    def initialize(self, n_features: int) -> Self:
        """Forget everything and stand at the start: a metric that has learned nothing yet."""
        with self._all_or_nothing():
            self._check_parameters()
            check_integer(self, "n_features", n_features, least=1)
            self._state = self._begin_anew(int(n_features))
            self.n_features_in_ = int(n_features)
            self.__dict__.pop("feature_names_in_", None)
        return self

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Leave the learner, and a generator it was given, as they were if anything goes wrong inside."""
        before, put_back = self.__dict__.copy(), state_restorer(self.random_state)
        try:
            yield
        except BaseException:  # an interrupt too
            self.__dict__.update(before)
            for name in self.__dict__.keys() - before.keys():
                del self.__dict__[name]
            put_back()
            raise

    def _begin_anew(self, n_features: int) -> S:
        return self._begin(n_features, private_generator(self.random_state))

    def _learn_into(self, state: S, constraints: Tuples) -> None:
        self._learn(state, constraints)
        state.n_seen += len(constraints)
        self._state = state
        self.n_features_in_ = constraints.n_features

    def _learn_labelled(self, state: S, items: Any, labels: NDArray[Any]) -> None:
        self._learn_into(state, self._drawn(items, labels, state.rng))

    @staticmethod
    def _refuse(constraints: Tuples, position: int, why: str) -> NoReturn:
        """`RejectedConstraintError` for the constraint at ``position``, in the words of who gave it."""
        noun, row = constraints.origin(position)
        raise RejectedConstraintError(
            f"{noun.capitalize()} {row} was refused: {why} Nothing of this call was learned.", row
        )

    # -- using -------------------------------------------------------------------------------------------

    def pair_score(self, pairs: Any) -> NDArray[np.float64]:
        """How alike each pair is, higher is more: (n, 2, n_features), or (n, 2) rows of the preprocessor."""
        self._require_fitted()
        scores: NDArray[np.float64] = self._scores(self._unlabelled_pairs(pairs))[0]
        return scores

    def score(self, X: Any, y: Any = None) -> float:
        """The share of what should be more alike that is: triplet accuracy, or for pairs the area under the ROC.

        Takes triplets, whose positive should be more like the anchor than the negative is; or items with labels,
        from which ``n_constraints`` triplets are drawn; or pairs with y, where an alike pair should score higher
        than one that is not. To cross-validate on labels, let every fold have several classes (StratifiedKFold, or
        shuffled).
        """
        self._require_fitted()
        if isinstance(X, Tuples) and y is not None:
            raise InvalidInputError(f"{type(X).__name__} say themselves what is alike: y must be None.")
        if isinstance(X, Pairs) or (y is not None and self._are_constraints(X)):
            return self._ranking(self._tuples(Pairs, X, y, n_features=self.n_features_in_))
        if y is None:
            triplets = self._tuples(Triplets, X, n_features=self.n_features_in_)
        else:
            rng = as_generator(copy.deepcopy(self.random_state))  # scoring is not drawing from the caller's
            items, labels = self._labelled(X, y, reset=False)
            triplets = self._over(Triplets, sample_triplets(labels, self.n_constraints, rng), items)
        positive, negative = self._scores(triplets)
        return float(np.mean(positive > negative))

    def _ranking(self, pairs: Pairs) -> float:
        from sklearn.metrics import roc_auc_score

        if pairs.same.all() or not pairs.same.any():
            raise InvalidInputError(
                "Scoring pairs needs some that are alike and some that are not. Got one kind only."
            )
        return float(roc_auc_score(pairs.same, self._scores(pairs)[0]))

    def _scores(self, tuples: Tuples) -> NDArray[np.float64]:
        """How alike each tuple's first item is to its others, (size - 1, n), block by block."""
        state = self._state
        metric = self._metric(state)
        scores = np.empty((tuples.size - 1, len(tuples)))
        for start, block in tuples.sparse_blocks(state.dtype) if tuples.is_sparse else tuples.blocks(state.dtype):
            tuples.check_finite(start, block)
            items = block if tuples.is_sparse else block.reshape(-1, tuples.n_features)
            try:
                part = metric.scores_to_first(items, tuples.size)
            except OverflowedItemError as error:
                item = tuples.describe_item(int(tuples.indices[start:].flat[error.row]))
                raise OverflowedItemError(error.about(item), tuples.size * start + error.row) from error
            scores[:, start : start + part.shape[1]] = part
        return scores

    # -- checking what comes in --------------------------------------------------------------------------

    @property
    def _known_features(self) -> int | None:
        return self.n_features_in_ if self.__sklearn_is_fitted__() else None

    @property
    def _dtype(self) -> np.dtype[Any]:
        """What the model computes in, or will."""
        return self._state.dtype if self.__sklearn_is_fitted__() else np.dtype(self.dtype)

    def _tuples(self, kind: type[T], data: Any, *labels: Any, n_features: int | None) -> T:
        """Constraints of a kind, checked for this learner. That they are finite is seen when they are walked."""
        owner = type(self).__name__
        if isinstance(data, kind):
            data.check_features(n_features, owner)
            if data.is_sparse and not self.accepts_sparse:
                raise InvalidTypeError(f"{owner} takes dense features. Got a sparse table instead: use toarray().")
            return data
        return kind(
            data,
            *labels,
            preprocessor=self.preprocessor,
            n_features=n_features,
            owner=owner,
            accept_sparse=self.accepts_sparse,
        )

    def _over(self, kind: type[T], indices: NDArray[np.intp], items: Any, *labels: Any) -> T:
        """Constraints over items that were checked."""
        return kind(indices, *labels, preprocessor=items, accept_sparse=self.accepts_sparse)

    def _unlabelled_pairs(self, pairs: Any) -> Pairs:
        known = self.n_features_in_
        if isinstance(pairs, Pairs):
            return self._tuples(Pairs, pairs, n_features=known)
        return self._tuples(Pairs, pairs, _any_label(pairs), n_features=known)

    def _are_constraints(self, X: Any) -> bool:
        """Whether X is constraints, rather than labelled items: values, or rows of a table that there is."""
        if isinstance(X, Tuples):
            return True
        shape = shape_of(X)
        # With a table, whole numbers in two or three columns are its rows; as items they would be tiny ones.
        rows = self.preprocessor is not None and len(shape) == 2 and shape[1] in (2, 3)
        return len(shape) == 3 or (rows and np.asarray(X).dtype.kind in "iu")

    def _items(self, X: Any) -> Any:
        """Items, checked to be finite and to have the features that are known."""
        return self._validated(X, reset=False)

    def _labelled(self, X: Any, y: Any, reset: bool) -> tuple[Any, NDArray[Any]]:
        """Items and their classes, checked; ``reset`` takes the features as the ones to know from now on."""
        items, labels = self._validated(X, y, reset=reset)
        try:
            check_classification_targets(labels)
        except (ValueError, TypeError) as error:
            raise InvalidInputError(f"y must be labels of one kind that can be sorted ({error}).") from error
        if labels.dtype.kind not in "biufUO":
            raise InvalidInputError(
                f"y must be labels: numbers, strings or truth values. Got {labels.dtype} instead."
            )
        return items, labels

    def _validated(self, *arrays: Any, reset: bool) -> Any:
        """scikit-learn's checks with oahu's errors, which say where."""
        own = np.dtype(self.dtype) if reset else self._dtype
        options = {
            "dtype": [own, np.float64, np.float32],
            "ensure_all_finite": False,
            "accept_sparse": "csr" if self.accepts_sparse else False,
            "reset": reset,
        }
        try:
            checked = validate_data(self, *arrays, **options)
        except TypeError as error:
            raise InvalidTypeError(str(error)) from error
        except (ValueError, OverflowError) as error:
            raise InvalidInputError(str(error)) from error
        check_items(checked if len(arrays) == 1 else checked[0], own)
        return checked

    # -- what was seen -----------------------------------------------------------------------------------

    @property
    def n_seen_(self) -> int:
        """How many constraints were learned."""
        return self._require_fitted().n_seen

    @property
    def utilization_(self) -> float:
        """The share of the constraints seen that changed the model; NaN before the first."""
        state = self._require_fitted()
        return share(state.n_used, state.n_seen)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.accepts_sparse
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_state")

    def _require_fitted(self) -> S:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet: it has not seen a constraint. "
                "Call fit, partial_fit or learn_one first (or initialize, to use it unlearned)."
            )
        return self._state

    # -- keeping -----------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the learner to a file; `oahu.load` goes on from there as if it had never stopped.

        The preprocessor's table is not written: set it again with ``set_params(preprocessor=...)``. A
        ``random_state`` that is not an int comes back as None.
        """
        self._require_fitted()
        self._check_parameters()
        model_files.save(self, path)

    def _to_content(self) -> Content:
        state = self._state
        parameters = self.get_params(deep=False)
        del parameters["preprocessor"]  # a table of items, not something learned
        if isinstance(self.random_state, np.random.Generator | np.random.RandomState):
            parameters["random_state"] = None
        names = getattr(self, "feature_names_in_", None)
        kept = self._state_to_content(state)
        told = {
            "parameters": {name: _plain(value) for name, value in parameters.items()},
            "feature_names": None if names is None else list(names),
            "n_features": self.n_features_in_,
            "n_seen": state.n_seen,
            "n_used": state.n_used,
            "rng": generator_state(state.rng),
        }
        return Content(told | kept.state, kept.arrays)

    @classmethod
    def _from_content(cls, content: Content) -> Self:
        learner = cls(**content.state["parameters"], preprocessor=None)
        learner._check_parameters()
        learner.n_features_in_ = content.count("n_features")
        state = learner._state_from_content(content)
        state.rng = generator_from_state(content.state["rng"])
        state.n_seen, state.n_used = content.count("n_seen"), content.count("n_used")
        if state.n_used > state.n_seen:
            raise ValueError(f"{state.n_used} of {state.n_seen} constraints cannot have been used")
        learner._state = state
        names = content.state["feature_names"]
        if names is not None:
            if not isinstance(names, list) or [type(name) for name in names] != [str] * learner.n_features_in_:
                raise ValueError(f"{shorten(names)} are not the names of {learner.n_features_in_} features")
            learner.feature_names_in_ = np.array(names, dtype=object)
        return learner

    def __sklearn_clone__(self) -> Self:
        """scikit-learn's `clone`, but the preprocessor's table is shared: it may be larger than memory."""
        parameters = self.get_params(deep=False)
        table = parameters.pop("preprocessor")
        return type(self)(**copy.deepcopy(parameters), preprocessor=table)

    _state: S


# -- helpers -------------------------------------------------------------------------------------------------


def share(part: int, whole: int) -> float:
    """``part / whole``, NaN of nothing."""
    return part / whole if whole else math.nan


def shape_of(data: Any) -> tuple[int, ...]:
    """The shape of what may be an array; none for what cannot be one, as the checks will say."""
    try:
        return tuple(data.shape) if hasattr(data, "shape") else np.asarray(data).shape
    except (ValueError, TypeError):
        return ()


def _any_label(pairs: Any) -> NDArray[np.bool_]:
    """Labels for pairs that have none and need none."""
    try:
        n = len(pairs)
    except TypeError:
        n = 0
    return np.ones(n, bool)


def _plain(value: Any) -> Any:
    """numpy's numbers as Python's."""
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    if isinstance(value, np.floating):
        return float(value)  # a long double too, which has no other plain form
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value
