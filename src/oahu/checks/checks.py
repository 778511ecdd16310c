"""Checks of a learner, one function per check. If a check fails, its error message includes advice."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oahu.checks.samples import (
    Samples,
    constraints_per_triplet,
    expect_error,
    learned_attributes,
    model_bytes,
    outputs_of,
    temporary_path,
    unfitted_copy,
)
from oahu.constraints import Click, Pair, Triplet, Triplets
from oahu.exceptions import InvalidInputError, InvalidTypeError, NotFittedError
from oahu.learners.base import Learner, missing_methods
from oahu.learners.kinds import ClickLearner, PairLearner
from oahu.loading import load
from oahu.metrics import DistanceMetric, Metric

__all__ = ["Check", "check_learner", "yield_checks"]

AnyLearner = Learner[Any]


@dataclass(frozen=True)
class Check:
    """One check. Call the check with a learner to run it.

    Attributes
    ----------
    name : str
        Name of the check.
    advice : str
        Advice on how to change a learner that fails the check.
    """

    name: str
    advice: str
    function: Callable[[AnyLearner, Samples], None]

    def __call__(self, learner: AnyLearner) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                self.function(learner, Samples.create())
        except AssertionError as error:
            raise AssertionError(
                f"{type(learner).__name__} fails the check {self.name!r}: {error} {self.advice}"
            ) from error


def check_learner(learner: AnyLearner) -> None:
    """Run all checks that apply to a learner. Raise AssertionError if the learner fails a check.

    Parameters
    ----------
    learner : Learner
        Instance of the class to check. The checks train unfitted copies with the same parameters.
    """
    for check in yield_checks(learner):
        check(learner)


def yield_checks(learner: Any) -> Iterator[Check]:
    """Yield the checks that apply to a learner, for example to parametrise a test."""
    if not isinstance(learner, Learner):
        lacking = missing_methods(learner)
        missing = f" It has no {', '.join(lacking)}." if lacking else ""
        raise InvalidTypeError(
            f"{type(learner).__name__} is not a learner. Derive it from oahu.TripletLearner or oahu.PairLearner."
            f"{missing}"
        )
    yield from _CHECKS
    if isinstance(learner, PairLearner):
        yield from _PAIR_CHECKS
    if isinstance(learner, ClickLearner):
        yield from _CLICK_CHECKS


# -- splitting a stream --------------------------------------------------------------------------------------


def _chunks_give_same_bits(learner: AnyLearner, samples: Samples) -> None:
    for dtype in ("float32", "float64"):
        whole = model_bytes(unfitted_copy(learner, dtype=dtype).partial_fit(samples.triplets))
        for cuts in ([1], [127, 128, 129], [5, 250]):
            chunked = unfitted_copy(learner, dtype=dtype)
            for part in np.split(samples.triplets, cuts):
                chunked.partial_fit(part)
            assert model_bytes(chunked) == whole, (
                f"Several calls, split at {cuts}, give a different model than one call ({dtype})."
            )


def _one_by_one_gives_same_bits(learner: AnyLearner, samples: Samples) -> None:
    single = unfitted_copy(learner)
    for triplet in samples.triplets[:150]:
        single.learn_one(*triplet)
    whole = unfitted_copy(learner).partial_fit(samples.triplets[:150])
    assert model_bytes(single) == model_bytes(whole), (
        "Calls of learn_one for each triplet give a different model than one call of partial_fit."
    )


def _indices_give_bits_of_values(learner: AnyLearner, samples: Samples) -> None:
    other_tables = {name: samples.table for name in learner.table_parameters if name != "preprocessor"}
    values, indices = samples.table[samples.indices], samples.indices
    by_object = unfitted_copy(learner, **other_tables).partial_fit(Triplets(indices, preprocessor=samples.table))
    assert model_bytes(by_object) == model_bytes(unfitted_copy(learner, **other_tables).partial_fit(values)), (
        "A Triplets object gives a different model than an array of the same values."
    )
    # The model files may differ, because a learner may store row numbers instead of feature values.
    by_index = unfitted_copy(learner, preprocessor=samples.table, **other_tables)
    by_index.partial_fit(indices[:200]).partial_fit(values[200:])
    assert np.array_equal(outputs_of(by_index, samples.table), outputs_of(by_object, samples.table)), (
        "Triplets of row numbers give a different model than triplets of the feature values."
    )


def _fit_resets(learner: AnyLearner, samples: Samples) -> None:
    again = unfitted_copy(learner).partial_fit(samples.triplets).fit(samples.triplets[:, :, :3])
    new = unfitted_copy(learner).fit(samples.triplets[:, :, :3])
    assert model_bytes(again) == model_bytes(new), "fit after partial_fit gives a different model than fit alone."
    labelled = unfitted_copy(learner).partial_fit(samples.triplets).fit(samples.table, samples.labels)
    assert model_bytes(labelled) == model_bytes(unfitted_copy(learner).fit(samples.table, samples.labels)), (
        "fit with labels does not reset the learner."
    )


def _initialize_is_initial_state(learner: AnyLearner, samples: Samples) -> None:
    started = unfitted_copy(learner).initialize(5)
    assert started.n_seen_ == 0, f"n_seen_ is {started.n_seen_} after initialize."
    assert np.isnan(started.utilization_), f"utilization_ is {started.utilization_} after initialize, not NaN."
    new = model_bytes(unfitted_copy(learner).partial_fit(samples.triplets))
    assert model_bytes(started.partial_fit(samples.triplets)) == new, (
        "initialize changes the result of later training."
    )


def _methods_return_the_learner(learner: AnyLearner, samples: Samples) -> None:
    one = unfitted_copy(learner)
    for name, result in (
        ("initialize", one.initialize(5)),
        ("fit", one.fit(samples.triplets)),
        ("partial_fit", one.partial_fit(samples.triplets)),
        ("learn_one", one.learn_one(*samples.triplets[0])),
    ):
        assert result is one, f"{name} does not return the learner."


# -- copies and files ----------------------------------------------------------------------------------------


def _through_file(learner: AnyLearner) -> AnyLearner:
    with temporary_path() as path:
        learner.save(path)
        return load(path, type(learner))


_COPIES: dict[str, Callable[[AnyLearner], AnyLearner]] = {
    "pickle": lambda learner: pickle.loads(pickle.dumps(learner)),
    "copy.deepcopy": copy.deepcopy,
    "copy.copy": copy.copy,
    "save and oahu.load": _through_file,
}


def _copies_continue(learner: AnyLearner, samples: Samples) -> None:
    expected = model_bytes(unfitted_copy(learner).partial_fit(samples.triplets))
    for name, copied in _COPIES.items():
        original = unfitted_copy(learner).partial_fit(samples.triplets[:140])
        before, other = model_bytes(original), copied(original)
        assert model_bytes(other) == before, f"{name} changes the model."
        other.learn_one(*samples.triplets[140])
        assert model_bytes(original) == before, f"Learning with the result of {name} changes the original."
        other.partial_fit(samples.triplets[141:])
        assert model_bytes(other) == expected, (
            f"Learning after {name} gives a different model than learning without {name}."
        )
        trained = model_bytes(other)
        original.learn_one(*samples.triplets[0])
        assert model_bytes(other) == trained, f"Learning with the original changes the result of {name}."


def _clones_are_unfitted(learner: AnyLearner, samples: Samples) -> None:
    parameters = unfitted_copy(learner, n_constraints=17).get_params()
    clone = unfitted_copy(unfitted_copy(learner).partial_fit(samples.triplets), n_constraints=17)
    assert not learned_attributes(clone), "A clone is fitted."
    assert clone.get_params() == parameters, "A clone has different parameters."
    assert unfitted_copy(learner, preprocessor=samples.table).get_params()["preprocessor"] is samples.table, (
        "get_params returns a copy of the preprocessor's table, not the table itself."
    )


# -- validation ----------------------------------------------------------------------------------------------

_INVALID: dict[str, Callable[[Samples], Any]] = {
    "no triplets": lambda samples: samples.triplets[:0],
    "one dimension": lambda samples: samples.triplets[0, 0],
    "four items": lambda samples: np.zeros((2, 4, 5)),
    "another number of features": lambda samples: samples.triplets[:, :, :4],
    "strings": lambda samples: np.full((2, 3, 5), "a"),
    "complex numbers": lambda samples: samples.triplets + 1j,
    "NaN": lambda samples: _with_value(samples.triplets, np.nan),
    "infinity": lambda samples: _with_value(samples.triplets, np.inf),
    "indices without a table": lambda samples: samples.indices,
    "None": lambda samples: None,
}


def _with_value(triplets: NDArray[Any], value: float) -> NDArray[Any]:
    """Return a copy of the triplets in which ``value`` replaces one feature of triplet 290, in the last block."""
    changed = triplets.copy()
    changed[290, 2, 3] = value
    return changed


def _invalid_input_changes_nothing(learner: AnyLearner, samples: Samples) -> None:
    fitted = unfitted_copy(learner).partial_fit(samples.triplets[:20])
    before = model_bytes(fitted)
    for name, invalid in _INVALID.items():
        for action in (fitted.partial_fit, fitted.fit):
            if name == "another number of features" and action == fitted.fit:
                continue  # fit accepts any number of features
            try:
                expect_error(InvalidInputError, action, invalid(samples))
            except AssertionError as error:
                raise AssertionError(f"Input with {name}: {error}") from error
            assert model_bytes(fitted) == before, f"Input with {name} raises an error and changes the model."
    expect_error(InvalidInputError, fitted.learn_one, *_with_value(samples.triplets, np.nan)[290])
    assert model_bytes(fitted) == before, "learn_one with NaN raises an error and changes the model."


def _overflow_changes_nothing(learner: AnyLearner, samples: Samples) -> None:
    fitted = unfitted_copy(learner).partial_fit(samples.triplets[:20])
    before = model_bytes(fitted)
    huge = np.full((3, 5), np.finfo(np.float32).max, np.float32) * np.array([[1], [-1], [0.5]], np.float32)
    actions: tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...] = (
        (fitted.learn_one, tuple(huge)),
        (fitted.partial_fit, (huge[None],)),
    )
    for action, arguments in actions:
        n_seen = fitted.n_seen_
        try:
            with np.errstate(all="ignore"):
                action(*arguments)
        except (ArithmeticError, InvalidInputError):
            assert model_bytes(fitted) == before, "A rejected constraint changes the model."
        else:
            assert fitted.n_seen_ == n_seen + constraints_per_triplet(fitted), (
                "A learned constraint is not counted."
            )
            before = model_bytes(fitted)  # raises if an array is not finite


def _invalid_parameters_are_rejected(learner: AnyLearner, samples: Samples) -> None:
    for name, value in (("dtype", "int8"), ("n_constraints", 0), ("random_state", "seed")):
        expect_error(InvalidInputError, unfitted_copy(learner, **{name: value}).partial_fit, samples.triplets)


# -- counting ------------------------------------------------------------------------------------------------


def _constraints_are_counted(learner: AnyLearner, samples: Samples) -> None:
    one = unfitted_copy(learner)
    for n in (17, 1, 140):
        one.partial_fit(samples.triplets[:n])
    one.learn_one(*samples.triplets[0])
    expected = constraints_per_triplet(one) * 159
    assert one.n_seen_ == expected, f"n_seen_ is {one.n_seen_} after {expected} constraints."
    assert 0.0 <= one.utilization_ <= 1.0, f"utilization_ is {one.utilization_}."
    version = one.metric().version
    assert version == expected, f"The metric's version is {version} after {expected} constraints."
    assert one.n_features_in_ == 5, f"n_features_in_ is {one.n_features_in_}, not 5."


# -- predictions ---------------------------------------------------------------------------------------------------


def _predictions_change_nothing(learner: AnyLearner, samples: Samples) -> None:
    fitted = unfitted_copy(learner).partial_fit(samples.triplets)
    before = model_bytes(fitted)
    uses: dict[str, Callable[[], Any]] = {
        "transform or pair_score": lambda: outputs_of(fitted, samples.table),
        "pair_score": lambda: fitted.pair_score(samples.triplets[:, :2]),
        "score": lambda: fitted.score(samples.triplets),
        "score with labels": lambda: fitted.score(samples.table, samples.labels),
        "metric": lambda: outputs_of(fitted.metric(), samples.table),
    }
    for name, use in uses.items():
        first = use()
        assert model_bytes(fitted) == before, f"{name} changes the model."
        assert np.array_equal(first, use()), f"{name} returns a different result the second time."


def _metric_is_frozen(learner: AnyLearner, samples: Samples) -> None:
    fitted = unfitted_copy(learner).partial_fit(samples.triplets)
    metric = fitted.metric()
    assert isinstance(metric, Metric), f"metric() returns a {type(metric).__name__}, which is not an oahu Metric."
    before = outputs_of(metric, samples.table)
    fitted.partial_fit(samples.triplets)
    fitted.learn_one(*samples.triplets[0])
    assert np.array_equal(outputs_of(metric, samples.table), before), (
        "Learning changes a metric that metric() returned before."
    )


def _learner_and_metric_agree(learner: AnyLearner, samples: Samples) -> None:
    fitted = unfitted_copy(learner).partial_fit(samples.triplets)
    metric, pairs = fitted.metric(), samples.triplets[:, :2]
    agree = np.allclose(metric.score(pairs[:, 0], pairs[:, 1]), fitted.pair_score(pairs), rtol=1e-5, atol=1e-6)
    assert agree, "pair_score differs from the metric's score."
    if isinstance(metric, DistanceMetric):
        same = np.array_equal(metric.transform(samples.table), fitted.transform(samples.table))
        assert same, "transform differs from the metric's transform."
    higher = fitted.pair_score(pairs) > fitted.pair_score(samples.triplets[:, [0, 2]])
    assert fitted.score(samples.triplets) == np.mean(higher), "score is not the triplet accuracy."


def _no_memory_is_shared(learner: AnyLearner, samples: Samples) -> None:
    for dtype in ("float32", "float64"):
        mine = samples.triplets.astype(dtype)
        unchanged = mine.copy()
        fitted = unfitted_copy(learner, dtype=dtype).partial_fit(mine)
        assert np.array_equal(mine, unchanged), "Learning changes the input."
        before = model_bytes(fitted)
        mine[...] = 7.0
        assert model_bytes(fitted) == before, "Changing the input after learning changes the model."
    for name, value in learned_attributes(fitted).items():
        for array in value if isinstance(value, list | tuple) else [value]:
            if isinstance(array, np.ndarray) and array.flags.writeable:
                array[...] = 7
        assert model_bytes(fitted) == before, f"Writing to {name} changes the model: return a copy."


def _unfitted_use_is_an_error(learner: AnyLearner, samples: Samples) -> None:
    unfitted = unfitted_copy(learner)
    uses: dict[str, Callable[[], Any]] = {
        "transform or pair_score": lambda: outputs_of(unfitted, samples.table),
        "score": lambda: unfitted.score(samples.triplets),
        "metric": unfitted.metric,
        "save": lambda: unfitted.save("unfitted"),
        "n_seen_": lambda: unfitted.n_seen_,
    }
    for name, use in uses.items():
        try:
            expect_error(NotFittedError, use)
        except AssertionError as error:
            raise AssertionError(f"Using {name} of an unfitted learner: {error}") from error


# -- interrupts and seeds ------------------------------------------------------------------------------------


class _InterruptedTable(np.ndarray):
    """A feature table that can be read once. The second read raises KeyboardInterrupt."""

    n_reads = 0

    def __getitem__(self, rows: Any) -> Any:
        self.n_reads += 1
        if self.n_reads > 1:
            raise KeyboardInterrupt
        return np.asarray(self)[rows]


def _interrupts_change_nothing(learner: AnyLearner, samples: Samples) -> None:
    fitted = unfitted_copy(learner).partial_fit(samples.triplets[:20])
    before = model_bytes(fitted)
    for action in (fitted.partial_fit, fitted.fit):
        triplets = Triplets(samples.triplets)
        triplets.table = triplets.table.view(_InterruptedTable)
        expect_error(KeyboardInterrupt, action, triplets)
        assert model_bytes(fitted) == before, "An interrupt between two blocks of constraints changes the model."
    whole = model_bytes(unfitted_copy(learner).partial_fit(samples.triplets))
    assert model_bytes(fitted.partial_fit(samples.triplets[20:])) == whole, (
        "Training after an interrupt gives a different model."
    )


def _seeds_are_reproducible(learner: AnyLearner, samples: Samples) -> None:
    for seed in (lambda: 7, lambda: np.random.default_rng(7), lambda: np.random.RandomState(7)):
        one, other = (
            unfitted_copy(learner, random_state=seed()).fit(samples.table, samples.labels) for _ in range(2)
        )
        assert model_bytes(one) == model_bytes(other), "The same random_state gives a different model."
    generator = np.random.default_rng(7)
    fitted = unfitted_copy(learner, random_state=generator).fit(samples.table, samples.labels)
    assert fitted.score(samples.table, samples.labels) == fitted.score(samples.table, samples.labels), (
        "score advances the random generator that the caller passed."
    )


def _parameters_follow_scikit_learn(learner: AnyLearner, samples: Samples) -> None:
    for name, value in (("n_constraints", 123), ("dtype", "float64"), ("random_state", 9)):
        got = unfitted_copy(learner).set_params(**{name: value}).get_params().get(name)
        assert got == value, f"After set_params({name}={value!r}), get_params returns {got!r}."
    expect_error(ValueError, lambda: unfitted_copy(learner).set_params(no_such_parameter=1))
    given = learner.get_params(deep=False)
    for name, value in given.items():
        assert getattr(learner, name, None) is value, f"__init__ does not store the parameter {name} unchanged."


# -- pairs and clicks ----------------------------------------------------------------------------------------


def _triplet_is_two_pairs(learner: AnyLearner, samples: Samples) -> None:
    pairs = samples.triplets[:, [0, 1, 0, 2]].reshape(-1, 2, 5)
    split = unfitted_copy(learner).partial_fit(pairs, np.tile([1, -1], len(samples.triplets)))
    whole = unfitted_copy(learner).partial_fit(samples.triplets)
    assert model_bytes(split) == model_bytes(whole), (
        "A triplet gives a different model than its similar pair followed by its dissimilar pair."
    )


def _pairs_one_by_one(learner: AnyLearner, samples: Samples) -> None:
    pairs, y = samples.triplets[:, :2], np.where(np.arange(300) % 3 == 0, 1, -1)
    single = unfitted_copy(learner)
    for pair, label in zip(pairs, y.tolist(), strict=True):
        single.learn_one(*pair, y=label)
    assert model_bytes(single) == model_bytes(unfitted_copy(learner).partial_fit(pairs, y)), (
        "learn_one gives a different model than partial_fit."
    )


def _triplets_and_pairs_are_clicks(learner: AnyLearner, samples: Samples) -> None:
    given: list[Triplet | Pair | Click] = []
    clicks: list[Triplet | Pair | Click] = []
    for number, (query, first, second) in enumerate(samples.triplets[:200]):
        kind = number % 3
        given.append((Triplet(query, first, second), Pair(query, first, True), Pair(query, second, False))[kind])
        clicks.append(Click(query, [] if kind == 2 else [first], [] if kind == 1 else [second]))
    whole = model_bytes(unfitted_copy(learner).partial_fit(clicks))
    mixed = unfitted_copy(learner)
    for part in (given[:3], clicks[3:150], given[150:]):
        mixed.partial_fit(part)
    assert model_bytes(mixed) == whole, (
        "Triplets and pairs give a different model than clicks with one positive, one negative, or both."
    )


_BLOCKS = "Process a block row by row, and keep all state in the arrays."
_ARRAYS = "Keep all learned state in the arrays of initial_arrays, not in attributes."
_READ_ONLY = "Do not write to the block of constraints, and return copies."

_CHECKS = (
    Check("chunks give the same bits", _BLOCKS, _chunks_give_same_bits),
    Check("one by one gives the same bits", _BLOCKS, _one_by_one_gives_same_bits),
    Check("indices give the same bits as values", _BLOCKS, _indices_give_bits_of_values),
    Check("fit resets", _ARRAYS, _fit_resets),
    Check("initialize is the initial state", _ARRAYS, _initialize_is_initial_state),
    Check("methods return the learner", "Return self.", _methods_return_the_learner),
    Check("copies continue", _ARRAYS, _copies_continue),
    Check("clones are unfitted", "Store the parameters of __init__, and nothing else.", _clones_are_unfitted),
    Check("invalid input changes nothing", "Do not override partial_fit or fit.", _invalid_input_changes_nothing),
    Check(
        "overflow changes nothing",
        "Return the row of a constraint that cannot be learned, or leave rejects_overflow False.",
        _overflow_changes_nothing,
    ),
    Check("invalid parameters are rejected", "Call super().check_parameters().", _invalid_parameters_are_rejected),
    Check(
        "constraints are counted",
        "Pass version to the metric.",
        _constraints_are_counted,
    ),
    Check("predictions change nothing", "Change arrays only while learning.", _predictions_change_nothing),
    Check("the metric is frozen", "Copy the arrays in build_metric.", _metric_is_frozen),
    Check("learner and metric agree", "Do not override pair_score, score or transform.", _learner_and_metric_agree),
    Check("no memory is shared", _READ_ONLY, _no_memory_is_shared),
    Check("unfitted use is an error", "Do not override metric or save.", _unfitted_use_is_an_error),
    Check("interrupts change nothing", _ARRAYS, _interrupts_change_nothing),
    Check("seeds are reproducible", "Draw only from the rng of initial_arrays.", _seeds_are_reproducible),
    Check(
        "parameters follow scikit-learn",
        "Store each parameter of __init__ unchanged.",
        _parameters_follow_scikit_learn,
    ),
)

_ONE_PAIR = Check("pairs one by one give the same bits", _BLOCKS, _pairs_one_by_one)
_PAIR_CHECKS = (Check("a triplet is two pairs", _BLOCKS, _triplet_is_two_pairs), _ONE_PAIR)
_CLICK_CHECKS = (
    Check("triplets and pairs are clicks", "Learn from the items and marks only.", _triplets_and_pairs_are_clicks),
    _ONE_PAIR,
)
