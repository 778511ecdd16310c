"""The base class of all learners, with validation, learning, scoring and saving.

A learner is a scikit-learn estimator with `partial_fit` as its main method. The constraints of a call are learned
completely or not at all: `partial_fit` learns on a copy of the state, and the copy replaces the state at the end of
the call. `learn_one` changes the state in place if the learner's update step never changes an array before it
rejects a constraint. While a call runs, other threads see the metric from before the call.

kinds.py defines the base classes of triplet learners and pair learners.
"""

from __future__ import annotations

import copy
import inspect
import math
import operator
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NoReturn, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from oahu.arrays import check_items
from oahu.constraints import (
    Click,
    Clicks,
    ConstraintBatch,
    Pair,
    Pairs,
    Triplet,
    Triplets,
    Tuples,
    are_constraint_objects,
    sample_triplets,
)
from oahu.exceptions import (
    InvalidInputError,
    InvalidTypeError,
    NotFittedError,
    OverflowedItemError,
    RejectedConstraintError,
)
from oahu.io import model_files
from oahu.io.class_registry import storable
from oahu.io.model_files import Content
from oahu.learners.state import LEARNED, Arrays, LearnerState
from oahu.messages import shorten
from oahu.metrics import Metric
from oahu.parameters import check_choice, check_integer, check_seed
from oahu.randomness import (
    RandomState,
    as_generator,
    generator_from_state,
    generator_state,
    private_generator,
    state_restorer,
)

if TYPE_CHECKING:

    class BaseEstimator:
        """Type declarations of the scikit-learn methods that learners use. scikit-learn has no type hints."""

        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: Any) -> Self: ...
        def __getstate__(self) -> Any: ...
        def __sklearn_tags__(self) -> Any: ...

    class TransformerMixin:
        """Type declarations of the methods of scikit-learn's transformers."""

        def fit_transform(self, X: Any, y: Any = None) -> NDArray[np.floating]: ...
        def set_output(self, *, transform: Any = None) -> Self: ...

else:
    from sklearn.base import BaseEstimator, TransformerMixin

__all__ = ["Learner", "M", "fraction", "missing_methods", "shape_of"]

M = TypeVar("M", bound=Metric)
T = TypeVar("T", bound=ConstraintBatch)

_ARRAYS: Final = (np.ndarray, np.memmap)
_BOOL: Final = np.dtype(np.bool_)
_FLOATS: Final = (np.dtype(np.float32), np.dtype(np.float64))
_NO_LABELS: Final = np.empty(0, np.bool_)  # triplets have no labels
_UNWRITTEN: Final = 255  # not a valid bool: marks an update step that has not finished


class Learner(TransformerMixin, BaseEstimator, ABC, Generic[M]):
    """Base class of all learners. Derive your own learner from `TripletLearner` or `PairLearner`.

    Parameters
    ----------
    n_constraints : int, default=10000
        Number of constraints that ``fit(X, y)`` and ``score(X, y)`` draw from labels.
    preprocessor : array-like of shape (n_items, n_features), default=None
        The feature table for constraints that are given as row numbers. An array or a memory map is never copied.
    dtype : {"float32", "float64"}, default="float32"
        The floating-point type of the computations.
    random_state : None, int, numpy Generator or RandomState, default=None
        Seed of the initial arrays and of the drawing of constraints from labels.
    """

    n_constraints: int
    preprocessor: Any
    dtype: str
    random_state: RandomState
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    _state: LearnerState

    #: Whether items may be rows of a sparse matrix.
    accepts_sparse: ClassVar[bool] = False

    #: Whether the update step rejects every constraint that would overflow the arrays. If False, the arrays are
    #: checked after each block.
    rejects_overflow: ClassVar[bool] = False

    #: The parameters that are feature tables. They are not copied, validated or saved.
    table_parameters: ClassVar[tuple[str, ...]] = ("preprocessor",)

    #: Whether the learner learns from clicks that have only positives or only negatives.
    uses_one_sided_clicks: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__module__.partition(".")[0] != "oahu":
            storable(cls)  # the classes of oahu are registered by a decorator

    def __init__(
        self,
        *,
        n_constraints: int = 10_000,
        preprocessor: ArrayLike | None = None,
        dtype: str = "float32",
        random_state: RandomState = None,
    ) -> None:
        self.n_constraints = n_constraints
        self.preprocessor = preprocessor
        self.dtype = dtype
        self.random_state = random_state

    # -- methods of a concrete learner -------------------------------------------------------------------

    @abstractmethod
    def initial_arrays(self, n_features: int, dtype: np.dtype[Any], rng: np.random.Generator) -> Arrays:
        """Return the arrays of an untrained model.

        Parameters
        ----------
        n_features : int
        dtype : dtype
            The floating-point type of the computations.
        rng : numpy Generator
            The random generator for the initial values.

        Returns
        -------
        dict of ndarray
            The arrays by name. They must contain everything that is learned, because only these arrays are saved,
            loaded and copied.
        """

    @abstractmethod
    def build_metric(self, arrays: Arrays, version: int) -> M:
        """Return the metric for the given arrays. The metric must not share memory with the arrays.

        Parameters
        ----------
        arrays : dict of ndarray
        version : int
            The version of the metric: the number of constraints learned.
        """

    def check_parameters(self) -> None:
        """Raise `InvalidInputError` for an invalid parameter. Extend this method for your own parameters."""
        check_integer(self, "n_constraints", self.n_constraints, least=1)
        check_choice(self, "dtype", self.dtype, ("float32", "float64"))
        check_seed(self, "random_state", self.random_state)

    def check_arrays(self, arrays: Arrays) -> None:
        """Raise ValueError if arrays from a model file cannot be the result of training."""

    # -- methods of TripletLearner and PairLearner -------------------------------------------------------

    @abstractmethod
    def _constraints(self, data: Any, y: Any, n_features: int | None) -> Tuples | Clicks:
        """Return validated constraints: triplets for a triplet learner, pairs for a pair learner."""

    @abstractmethod
    def _sample(self, items: Any, labels: NDArray[Any], rng: np.random.Generator) -> Tuples | Clicks:
        """Return ``n_constraints`` constraints drawn from labels."""

    @abstractmethod
    def _learn_block(
        self,
        arrays: Arrays,
        block: NDArray[Any],
        similar: NDArray[np.bool_],
        used: NDArray[np.bool_],
        in_place: bool = False,
    ) -> int | None:
        """Learn from a block of constraints.

        The result is LEARNED or None if all constraints were learned, or the row number of a rejected constraint.

        With ``in_place=True``, the block has one constraint. If this constraint is rejected, the method must not
        change any array.
        """

    # -- learning ----------------------------------------------------------------------------------------

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        with self._all_or_nothing():
            self.check_parameters()
            known = self._known_features
            constraints = self._constraints(X, y, known)
            state = self._initial_state(constraints.n_features) if known is None else self._state.copy()
            self._learn(state, constraints)
            self._commit(state)
        return self

    def learn_one(self, *items: ArrayLike | Click | Pair | Triplet, y: Any = None) -> Self:
        """Learn from one constraint, given as feature vectors or as row numbers of the feature table.

        Call ``learn_one(anchor, positive, negative)`` for a triplet, or ``learn_one(click)`` with a Click, Triplet
        or Pair object. Pair learners also accept ``learn_one(first, second, y=+1)`` for a similar pair and ``y=-1``
        for a dissimilar pair.

        The constraint is learned completely or not at all. An interrupt (Ctrl-C) during the compiled update step
        raises KeyboardInterrupt after the step. In this case, the constraint is learned, and `n_seen_` counts it.
        """
        if self._learn_in_place(items, y):
            return self
        if len(items) == 1 and y is None and isinstance(items[0], Click | Pair | Triplet):
            return self.partial_fit([items[0]])
        names = {2: "First and second", 3: "Anchor, positive and negative"}
        if len(items) not in names:
            raise InvalidInputError(
                "learn_one needs three items, two items and y, or a Click, Triplet or Pair. "
                f"Got {len(items)} item(s) instead."
            )
        try:
            constraint = np.array([items])
        except ValueError as error:
            try:
                got = "shapes " + ", ".join(str(np.shape(item)) for item in items)
            except ValueError:
                got = "an item with rows of different lengths"
            count = {2: "two", 3: "three"}[len(items)]
            raise InvalidInputError(
                f"{names[len(items)]} must be {count} vectors of the same length, or {count} row numbers of "
                f"the feature table given as 'preprocessor'. Got {got} instead."
            ) from error
        return self.partial_fit(constraint, None if y is None else [y])

    def fit(self, X: Any, y: Any = None) -> Self:
        """Reset the learner, then learn from constraints or from labelled items.

        Parameters
        ----------
        X : array-like
            Constraints, or items of shape (n_items, n_features) with the class labels of the items as ``y``.
        y : array-like, optional
            The class labels of items, or the labels of pairs: +1 for similar, -1 for dissimilar. If items are
            given, ``n_constraints`` constraints are drawn from their class labels and learned.
        """
        with self._all_or_nothing():
            self.check_parameters()
            if y is None or self._are_constraints(X):
                constraints = self._constraints(X, y, None)
                state = self._initial_state(constraints.n_features)
                self.__dict__.pop("feature_names_in_", None)
                self._learn(state, constraints)
            else:
                items, labels = self._validate_labelled(X, y, reset=True)
                state = self._initial_state(items.shape[1])
                self._learn_labelled(state, items, labels)
            self._commit(state)
        return self

    def initialize(self, n_features: int) -> Self:
        """Reset the learner to an untrained model. Its metric can be used before the first constraint."""
        with self._all_or_nothing():
            self.check_parameters()
            check_integer(self, "n_features", n_features, least=1)
            self._commit(self._initial_state(int(n_features)))
            self.__dict__.pop("feature_names_in_", None)
        return self

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Return a context manager that restores the learner and its ``random_state`` generator after an error."""
        before, restore = self.__dict__.copy(), state_restorer(self.random_state)
        try:
            yield
        except BaseException:  # includes interrupts
            self.__dict__.update(before)
            for name in self.__dict__.keys() - before.keys():
                del self.__dict__[name]
            restore()
            raise

    def _initial_state(self, n_features: int) -> LearnerState:
        rng, dtype = private_generator(self.random_state), np.dtype(self.dtype)
        return LearnerState(self.initial_arrays(n_features, dtype, rng), dtype, n_features, rng)

    def _commit(self, state: LearnerState) -> None:
        """Replace the learner's state."""
        state.validated = self._parameter_values()
        self._state = state
        self.n_features_in_ = state.n_features

    def _learn(self, state: LearnerState, constraints: Any) -> None:
        """Learn all constraints in order. The method changes ``state``.

        The first invalid or rejected constraint raises an error.
        """
        for start, block in constraints.blocks(state.dtype):
            constraints.check_finite(start, block)
            similar = constraints.same[start : start + len(block)] if isinstance(constraints, Pairs) else _NO_LABELS
            used = np.zeros(len(block), np.bool_)
            rejected = self._learn_block(state.arrays, block, similar, used)
            self._finish_block(state, constraints, start, similar, used, rejected)

    def _finish_block(
        self,
        state: LearnerState,
        constraints: Tuples,
        start: int,
        similar: NDArray[np.bool_],
        used: NDArray[np.bool_],
        rejected: int | None,
    ) -> None:
        """Add a block to the counts of ``state``. If a constraint was rejected, raise `RejectedConstraintError`."""
        if rejected is not None and rejected != LEARNED:
            self._reject(constraints, start + int(rejected), self._why_rejected(state))
        if not self.rejects_overflow:
            self._check_finite_arrays(state, constraints, start, len(used))
        state.count(similar, used)

    def _learn_labelled(self, state: LearnerState, items: Any, labels: NDArray[Any]) -> None:
        self._learn(state, self._sample(items, labels, state.rng))

    def _check_finite_arrays(self, state: LearnerState, constraints: Tuples, start: int, n: int) -> None:
        for name, array in state.arrays.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                last = constraints.origin(start + n - 1)[1]
                why = f"this constraint, or a later one up to {last}, makes the array {name!r} overflow."
                self._reject(constraints, start, why)

    def _why_rejected(self, state: LearnerState) -> str:
        return (
            f"learning it would overflow the model's {state.dtype} numbers. Scale the features, for example to "
            "[0, 1], or reduce the step size."
        )

    @staticmethod
    def _reject(constraints: Tuples | Clicks, position: int, why: str) -> NoReturn:
        """Raise `RejectedConstraintError` for the constraint at ``position``."""
        noun, row = constraints.origin(position)
        raise RejectedConstraintError(
            f"{noun.capitalize()} {row} was rejected: {why} The call did not change the model.", row
        )

    # -- learning in place -------------------------------------------------------------------------------

    def _can_learn_in_place(self, state: LearnerState) -> bool:
        """Return whether the next constraint can be learned in place.

        Three conditions are required. The update step does not change any array before it rejects a constraint. The
        step is compiled, so that no interrupt can stop it. The step writes to ``used`` if and only if it has
        learned the constraint.
        """
        return False

    def _learn_in_place(self, items: tuple[Any, ...], y: Any) -> bool:
        """Learn one constraint without copying the state. Return whether the constraint was learned.

        If the result is False, the caller must learn the constraint on a copy of the state. The result is False
        in these cases: this is the first constraint, the items are not float arrays, the state is frozen, a
        parameter changed since the last call, or the constraint is invalid. Learning an invalid constraint on the
        copy raises the error.
        """
        state = self.__dict__.get("_state")
        if state is None or state.frozen or state.validated is None or not self._can_learn_in_place(state):
            return False
        values = map(self.__dict__.get, _validated_names(type(self)))
        if not all(map(operator.is_, state.validated, values)):
            return False
        similar = self._label_of_one(len(items), y)
        block = None if similar is None else self._block_of_one(items, state)
        if block is None or similar is None:
            return False
        written = bytearray([_UNWRITTEN])
        used = np.frombuffer(written, _BOOL)
        with state.lock:
            if state.frozen:
                return False
            state.metric = None
            try:
                self._learn_block(state.arrays, block, similar, used, in_place=True)
            finally:  # an interrupt may be raised as soon as the step returns
                learned = written[0] != _UNWRITTEN
                if learned:
                    state.count_one(similar, used)
        return learned

    def _label_of_one(self, n_items: int, y: Any) -> NDArray[np.bool_] | None:
        """Return the labels for a block of one constraint, or None if `partial_fit` must validate the labels."""
        return _NO_LABELS if n_items == 3 and y is None else None

    def _block_of_one(self, items: tuple[Any, ...], state: LearnerState) -> NDArray[Any] | None:
        """Return one constraint as a block of float vectors, or None if `partial_fit` must validate the items."""
        table = self.preprocessor
        if isinstance(table, np.ndarray) and all(type(i) is int or isinstance(i, np.integer) for i in items):
            if not all(0 <= i < len(table) for i in items):
                return None
            items = tuple(table[i] for i in items)
        shape = (state.n_features,)
        for item in items:
            if type(item) not in _ARRAYS or item.shape != shape or item.dtype not in _FLOATS:
                return None
        block = np.array([items])
        if block.dtype != state.dtype:
            block = _cast(block, state.dtype)
        # np.vdot gives no warnings. Its sum may overflow for huge numbers: partial_fit checks them one by one.
        return block if math.isfinite(np.vdot(block, block)) else None

    def _parameter_values(self) -> tuple[Any, ...] | None:
        """Return the parameter values in a fixed order, or None if a value is mutable."""
        values = tuple(map(self.__dict__.get, _validated_names(type(self))))
        return values if all(isinstance(value, _FIXED_TYPES) for value in values) else None

    # -- using -------------------------------------------------------------------------------------------

    def metric(self) -> M:
        """Return the current metric. Later learning does not change the returned metric."""
        return self._metric(self._fitted_state())

    def _metric(self, state: LearnerState) -> M:
        """Return the metric of a frozen state. The metric may share memory with the state's arrays."""
        if state.metric is None:
            state.metric = self.build_metric(state.arrays, state.n_seen)
        metric: M = state.metric  # type: ignore[assignment]
        return metric

    def transform(self, X: ArrayLike) -> NDArray[np.floating]:
        """Return one vector per item. Euclidean distances between the vectors are the metric's distances."""
        metric: Any = self._metric(self._fitted_state())
        vectors: NDArray[np.floating] = metric.transform_checked(self._validate_items(X))
        return vectors

    def pair_distance(self, pairs: Any) -> NDArray[np.float64]:
        """Return the distance between the two items of each pair.

        Parameters
        ----------
        pairs : array-like of shape (n, 2, n_features), or (n, 2) with ``preprocessor``
        """
        return np.asarray(-self.pair_score(pairs))

    def pair_score(self, pairs: Any) -> NDArray[np.float64]:
        """Return the similarity score of each pair. A higher score means that the items are more similar.

        Parameters
        ----------
        pairs : array-like of shape (n, 2, n_features), or (n, 2) with ``preprocessor``
        """
        state = self._fitted_state()
        scores: NDArray[np.float64] = self._scores(state, self._unlabelled_pairs(pairs))[0]
        return scores

    def score(self, X: Any, y: Any = None) -> float:
        """Return the triplet accuracy for triplets or labelled items, or the area under the ROC curve for pairs.

        Triplet accuracy is the share of triplets in which the positive has a higher score than the negative.

        Parameters
        ----------
        X : array-like
            Triplets, pairs, clicks, or labelled items. Clicks are scored as their triplets (`Clicks.triplets`).
            From labelled items, ``n_constraints`` triplets are drawn. In cross-validation, every fold must contain
            items of several classes: use StratifiedKFold or shuffled folds.
        y : array-like, optional
            The class labels of items, or the labels of pairs: +1 for similar, -1 for dissimilar.
        """
        state = self._fitted_state()
        if isinstance(X, ConstraintBatch) and y is not None:
            raise InvalidInputError(f"{type(X).__name__} have their own labels: y must be None.")
        if isinstance(X, Clicks) or are_constraint_objects(X):
            X = self._clicks(X, y, self.n_features_in_).triplets()
        if isinstance(X, Pairs) or (y is not None and self._are_constraints(X)):
            return self._area_under_roc(state, self._tuples(Pairs, X, y, n_features=self.n_features_in_))
        if y is None:
            triplets = self._tuples(Triplets, X, n_features=self.n_features_in_)
        else:
            rng = as_generator(copy.deepcopy(self.random_state))  # scoring must not advance the caller's generator
            items, labels = self._validate_labelled(X, y, reset=False)
            triplets = self._from_rows(Triplets, sample_triplets(labels, self.n_constraints, rng), items)
        positive, negative = self._scores(state, triplets)
        return float(np.mean(positive > negative))

    def _area_under_roc(self, state: LearnerState, pairs: Pairs) -> float:
        from sklearn.metrics import roc_auc_score

        if pairs.same.all() or not pairs.same.any():
            kind = "similar" if pairs.same.all() else "dissimilar"
            raise InvalidInputError(f"score needs similar and dissimilar pairs. Got only {kind} pairs.")
        return float(roc_auc_score(pairs.same, self._scores(state, pairs)[0]))

    def _scores(self, state: LearnerState, tuples: Tuples) -> NDArray[np.float64]:
        """Return the scores between the first and each other item of all n constraints, of shape (size - 1, n)."""
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

    # -- validation --------------------------------------------------------------------------------------

    @property
    def _known_features(self) -> int | None:
        return self.n_features_in_ if self.__sklearn_is_fitted__() else None

    @property
    def _dtype(self) -> np.dtype[Any]:
        """The floating-point type of the model. An unfitted learner takes it from the ``dtype`` parameter."""
        return self._state.dtype if self.__sklearn_is_fitted__() else np.dtype(self.dtype)

    def _tuples(self, kind: type[T], data: Any, *labels: Any, n_features: int | None) -> T:
        """Return constraints, validated for this learner. Their features are not checked for NaN."""
        owner = type(self).__name__
        if isinstance(data, kind):
            data.check_features(n_features, owner)
            if data.is_sparse and not self.accepts_sparse:
                raise InvalidTypeError(f"{owner} needs dense features. Got a sparse table instead: use toarray().")
            return data
        return kind(
            data,
            *labels,
            preprocessor=self.preprocessor,
            n_features=n_features,
            owner=owner,
            accept_sparse=self.accepts_sparse,
        )

    def _clicks(self, data: Any, y: Any, n_features: int | None) -> Clicks:
        """Return clicks, validated for this learner."""
        if y is not None:
            raise InvalidInputError("Clicks have their own labels: y must be None.")
        return self._tuples(Clicks, data, n_features=n_features)

    def _from_rows(self, kind: type[T], indices: NDArray[np.intp], items: Any, *labels: Any) -> T:
        """Return constraints from row numbers of validated items."""
        return kind(indices, *labels, preprocessor=items, accept_sparse=self.accepts_sparse)

    def _unlabelled_pairs(self, pairs: Any) -> Pairs:
        n_features = self.n_features_in_
        if isinstance(pairs, Pairs):
            return self._tuples(Pairs, pairs, n_features=n_features)
        try:
            n = len(pairs)
        except TypeError:
            n = 0
        return self._tuples(Pairs, pairs, np.ones(n, bool), n_features=n_features)  # scoring ignores the labels

    def _are_constraints(self, X: Any) -> bool:
        """Return True if X contains constraints, as features or as row numbers, and False for labelled items."""
        if isinstance(X, ConstraintBatch) or are_constraint_objects(X):
            return True
        shape = shape_of(X)
        # With a table, two or three integer columns are row numbers, not items with 2 or 3 features.
        rows = self.preprocessor is not None and len(shape) == 2 and shape[1] in (2, 3)
        return len(shape) == 3 or (rows and np.asarray(X).dtype.kind in "iu")

    def _validate_items(self, X: Any) -> Any:
        """Return validated items: finite numbers, with the learner's number of features."""
        return self._validate(X, reset=False)

    def _validate_labelled(self, X: Any, y: Any, reset: bool) -> tuple[Any, NDArray[Any]]:
        """Return validated items and labels.

        With ``reset=True``, the learner adopts the items' number of features.
        """
        items, labels = self._validate(X, y, reset=reset)
        try:
            check_classification_targets(labels)
        except (ValueError, TypeError) as error:
            raise InvalidInputError(f"y must be class labels of one sortable type ({error}).") from error
        if labels.dtype.kind not in "biufUO":
            raise InvalidInputError(f"y must be labels: numbers, strings or booleans. Got {labels.dtype} instead.")
        return items, labels

    def _validate(self, *arrays: Any, reset: bool) -> Any:
        """Run scikit-learn's validation, but raise the errors of oahu. Errors about values name the invalid row."""
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

    # -- counts and scikit-learn's contract --------------------------------------------------------------

    @property
    def n_seen_(self) -> int:
        """Number of constraints learned."""
        self._check_fitted()
        return self._state.n_seen

    @property
    def utilization_(self) -> float:
        """Share of the learned constraints that changed the model. It is NaN before the first constraint."""
        self._check_fitted()
        return fraction(self._state.n_used, self._state.n_seen)

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Return the parameter names.

        If ``__init__`` accepts ``**options``, the result includes the parameter names of the base class.
        """
        names: set[str] = set()
        for base in cls.__mro__:
            if "__init__" in vars(base):
                parameters = list(inspect.signature(vars(base)["__init__"]).parameters.values())[1:]
                if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
                    raise RuntimeError(f"The parameters of {cls.__name__} must be named in __init__ (no *args).")
                names |= {parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD}
                if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters):
                    break
        return sorted(names)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.accepts_sparse
        tags.transformer_tags.preserves_dtype = []  # the output has the model's dtype
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return "_state" in self.__dict__

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy. Feature tables are not copied, because they may be larger than memory."""
        parameters = self.get_params(deep=False)
        tables = {name: parameters.pop(name) for name in self.table_parameters}
        return type(self)(**copy.deepcopy(parameters), **tables)

    def __getstate__(self) -> Any:
        if self.__sklearn_is_fitted__():
            self._fitted_state()  # freezes the state: copies share the state, so it must not change in place
        return super().__getstate__()

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet: it has not learned a constraint. "
                "Call fit, partial_fit or learn_one first (or initialize, to use the untrained model)."
            )

    def _fitted_state(self) -> LearnerState:
        """Return the state of a fitted learner for reading. The arrays of this state do not change any more."""
        self._check_fitted()
        state = self._state
        if not state.frozen:
            with state.lock:
                self._settle(state.arrays)
                state.frozen = True
        return state

    def _settle(self, arrays: Arrays) -> None:
        """Apply a delayed update before the arrays are read. Learners without delayed updates do nothing."""

    # -- saving ------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the learner to a file. `oahu.load` returns a learner that continues the training.

        The feature table (``preprocessor``) is not saved. After loading, set it again with
        ``set_params(preprocessor=...)``. If ``random_state`` is a generator, it is not saved, and ``random_state``
        is None after loading.
        """
        self._check_fitted()
        self.check_parameters()
        model_files.save(self, path)

    def _to_content(self) -> Content:
        state = self._fitted_state()
        parameters = self.get_params(deep=False)
        for name in self.table_parameters:  # feature tables are input, not learned arrays
            del parameters[name]
        if isinstance(self.random_state, np.random.Generator | np.random.RandomState):
            parameters["random_state"] = None
        names = getattr(self, "feature_names_in_", None)
        learned = self._state_to_content(state)
        common = {
            "parameters": {name: _plain(value) for name, value in parameters.items()},
            "feature_names": None if names is None else list(names),
            "n_features": self.n_features_in_,
            "n_seen": state.n_seen,
            "n_used": state.n_used,
            "rng": generator_state(state.rng),
        }
        return Content(common | learned.state, learned.arrays)

    @classmethod
    def _from_content(cls, content: Content) -> Self:
        learner = cls(**content.state["parameters"], preprocessor=None)
        learner.check_parameters()
        learner.n_features_in_ = content.count("n_features")
        state = learner._state_from_content(content)
        state.rng = generator_from_state(content.state["rng"])
        state.n_seen, state.n_used = content.count("n_seen"), content.count("n_used")
        if state.n_used > state.n_seen:
            raise ValueError(f"n_used is {state.n_used}, but n_seen is only {state.n_seen}")
        names = content.state["feature_names"]
        if names is not None:
            if not isinstance(names, list) or [type(name) for name in names] != [str] * learner.n_features_in_:
                raise ValueError(f"{shorten(names)} is not a list of {learner.n_features_in_} feature names")
            learner.feature_names_in_ = np.array(names, dtype=object)
        learner._commit(state)
        return learner

    def _state_to_content(self, state: LearnerState) -> Content:
        counts = {"n_similar": state.n_similar, "n_similar_used": state.n_similar_used, "dtype": str(state.dtype)}
        return Content(counts, state.arrays)

    def _state_from_content(self, content: Content) -> LearnerState:
        dtype = np.dtype(content.state["dtype"])
        if dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise ValueError(f"the dtype must be float32 or float64, not {dtype}")
        expected = self._expected_arrays(content, dtype)
        arrays = {name: content.array(name, array.shape, array.dtype).copy() for name, array in expected.items()}
        self.check_arrays(arrays)
        state = LearnerState(arrays, dtype, self.n_features_in_, np.random.default_rng(0))
        state.n_similar, state.n_similar_used = content.count("n_similar"), content.count("n_similar_used")
        similar_fit = state.n_similar_used <= state.n_similar <= content.count("n_seen")
        if not similar_fit or state.n_similar_used > content.count("n_used"):
            raise ValueError("the counts of similar pairs do not match the counts of all pairs")
        return state

    def _expected_arrays(self, content: Content, dtype: np.dtype[Any]) -> Arrays:
        """Return arrays with the shapes and types that the arrays in a file of this learner must have."""
        return self.initial_arrays(self.n_features_in_, dtype, np.random.default_rng(0))


# -- helpers -------------------------------------------------------------------------------------------------

#: Types of parameter values that are immutable, or that learning treats as immutable.
_FIXED_TYPES: Final = (
    str, int, float, bool, type(None), tuple, np.generic, np.random.Generator, np.random.RandomState,
)  # fmt: skip


@cache
def _validated_names(learner_class: type[Learner[Any]]) -> tuple[str, ...]:
    """Return the names of the parameters that `Learner.check_parameters` validates: all except tables."""
    return tuple(name for name in learner_class._get_param_names() if name not in learner_class.table_parameters)


def _cast(block: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a copy in another dtype. Numbers that overflow become infinite without a warning."""
    with np.errstate(over="ignore", invalid="ignore"):
        return block.astype(dtype)


def missing_methods(candidate: Any) -> list[str]:
    """Return the names of the public learner methods that ``candidate``, an object or a class, does not have."""
    required = ("fit", "partial_fit", "learn_one", "metric", "score", "get_params", "set_params", "save")
    return [name for name in required if not callable(getattr(candidate, name, None))]


def fraction(part: int, whole: int) -> float:
    """Return ``part / whole``, or NaN if ``whole`` is 0."""
    return part / whole if whole else math.nan


def shape_of(data: Any) -> tuple[int, ...]:
    """Return the shape of an array-like, or () for other objects. Validation rejects such objects later."""
    try:
        return tuple(data.shape) if hasattr(data, "shape") else np.asarray(data).shape
    except (ValueError, TypeError):
        return ()


def _plain(value: Any) -> Any:
    """Return a value with its numpy numbers replaced by Python numbers, also in tuples and lists."""
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.floating):
        return float(value)  # tolist() would leave a long double unchanged
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value
