"""`oahu compare`: are two items alike, or each of many pairs?"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from oahu.cli.inputs import Items, Model, about, check_folder, check_picture
from oahu.cli.output import cell, number, print_facts, print_json, print_rest, table
from oahu.cli.pairs import Asked, ask, read_pairs
from oahu.exceptions import InvalidInputError, NotFittedError
from oahu.tasks import Comparator, Roc

__all__ = ["Order", "rates", "run"]

_FAR = (1e-2, 1e-3)


@dataclass(frozen=True)
class Order:
    """What was asked for on the command line."""

    model: Path
    features: Path | None = None
    ids: tuple[str, ...] = ()
    pairs: str | None = None
    threshold: float | None = None
    rule: Literal["vote", "mean"] | None = None
    band: float | None = None
    calibrate: str | None = None
    target: Literal["accuracy", "f1", "eer"] | None = None
    target_far: float | None = None
    target_frr: float | None = None
    save: Path | None = None
    roc: Path | None = None
    limit: int = 20
    json: bool = False


@dataclass(frozen=True, eq=False)
class _Compared:
    """Pairs and their comparisons: arrays of shape (n_pairs,). There are no probabilities without calibration."""

    asked: Asked
    answers: NDArray[np.str_]
    probabilities: NDArray[np.float64] | None
    vote_shares: NDArray[np.float64]
    scores: NDArray[np.float64]

    @classmethod
    def by(cls, comparator: Comparator, asked: Asked) -> _Compared:
        """All of it, of one computation."""
        return cls(asked, *comparator.compare_all(asked.pairs))

    def quality(self) -> dict[str, Any] | None:
        """How many of the answers are right, and how well the scores tell; None where no truth is known."""
        known = self.asked.known
        if not known.any():
            return None
        same, answers = self.asked.pairs.same[known], self.answers[known]
        answered, right = answers != "unknown", (answers == "yes") == same
        return {
            "n_pairs": len(same),
            "n_similar": int(same.sum()),
            "unknown": float(np.mean(~answered)),
            "accuracy": float(right[answered].mean()) if answered.any() else None,
            **rates(Roc.of(self.scores[known], same) if 0 < same.sum() < len(same) else None),
        }


def run(console: Console, order: Order) -> None:
    """Compare, and say what was found."""
    _check(order)
    model = Model.read(order.model)
    items = None if order.features is None else Items.read(order.features, model)
    comparator = _comparator(order, model)
    comparator._check_parameters()
    calibration = None if order.calibrate is None else _calibrated(comparator, order, items, model)
    _check_threshold(comparator, model)
    compared = _compared(comparator, order, items, model)
    quality = None if compared is None else compared.quality()
    if order.roc is not None and compared is not None:
        _draw(order, model, compared)
    if order.save is not None:
        comparator.save(order.save)
    if order.json:
        pairs = [] if compared is None else _as_json(compared)
        report = {"calibration": calibration, "quality": quality}
        print_json({"model": model.described(), **_settings(comparator), "pairs": pairs, **report})
        return
    if compared is not None:
        _print(console, order, compared)
    print_facts(console, _facts(order, comparator, calibration, quality), below=compared is not None)


def _check(order: Order) -> None:
    """Refuse what cannot be meant."""
    check_folder(order.save)
    check_picture(order.roc)
    if len(order.ids) not in (0, 2):
        raise InvalidInputError(f"Two ids are compared. Got {len(order.ids)} instead: {' '.join(order.ids)}.")
    if order.ids and order.pairs is not None:
        raise InvalidInputError("Give two ids or --pairs FILE, not both.")
    if not order.ids and order.pairs is None and order.calibrate is None:
        raise InvalidInputError("There is nothing to compare: give two ids, --pairs FILE or --calibrate FILE.")
    if order.ids and order.features is None:
        raise InvalidInputError("Two ids need the file that has the items of these ids (--features).")
    if order.roc is not None and order.pairs is None:
        raise InvalidInputError("A ROC curve needs pairs whose answers are known (--pairs).")
    targets = [order.target, order.target_far, order.target_frr]
    if order.calibrate is None and any(target is not None for target in targets):
        raise InvalidInputError("A target needs pairs to reach it on (--calibrate FILE).")
    if order.target is not None and order.target_far is not None:
        raise InvalidInputError("There is one target: give --target or --target-far, not both.")
    if order.target_frr is not None and order.target_far is None:
        raise InvalidInputError("--target-frr goes together with --target-far.")
    if order.calibrate is not None and order.threshold is not None:
        raise InvalidInputError("Give a threshold or let --calibrate find it, not both.")
    if order.pairs == "-" == order.calibrate:
        raise InvalidInputError("--pairs and --calibrate cannot both be standard input.")


def _comparator(order: Order, model: Model) -> Comparator:
    """The one in the file, with what was asked for in place of what it has; or a new one."""
    asked = {"threshold": order.threshold, "rule": order.rule, "band": order.band}
    given: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    if not isinstance(model.loaded, Comparator):
        return Comparator(model.metric, **given)
    held: Comparator = model.loaded
    anew = order.threshold is not None or order.calibrate is not None
    chosen = held.threshold is not None or hasattr(held, "yes_below_")
    if chosen and not anew and order.rule not in (None, held.rule):
        raise InvalidInputError(
            f"The threshold in {model.path} is for the rule {held.rule!r}. For {order.rule!r} give another one "
            "(--threshold), or pairs to find it (--calibrate)."
        )
    if anew:  # what was calibrated before would go before a threshold that is given
        return Comparator(model.metric, **{"rule": held.rule, "band": held.band, **given})
    held.set_params(**given)
    return held


def _calibrated(comparator: Comparator, order: Order, items: Items | None, model: Model) -> dict[str, Any]:
    """Calibrate it; how good it is on the pairs that it was calibrated on."""
    assert order.calibrate is not None
    asked = read_pairs(order.calibrate, items, model).answered(order.calibrate)
    target = order.target or ("accuracy" if order.target_far is None else None)
    targets: dict[str, Any] = {"target": target, "target_far": order.target_far, "target_frr": order.target_frr}
    with about(order.calibrate), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        comparator.calibrate(asked.pairs, **targets)
    found = [str(warning.message) for warning in caught]
    return targets | (_Compared.by(comparator, asked).quality() or {}) | {"warnings": found}


def _check_threshold(comparator: Comparator, model: Model) -> None:
    try:
        _ = comparator.thresholds
    except NotFittedError as error:
        raise InvalidInputError(
            f"What the {type(comparator.metric).__name__} in {model.path} measures has no bound, so there is no "
            "threshold to begin with: give one (--threshold), or pairs to find one by (--calibrate)."
        ) from error


def _compared(comparator: Comparator, order: Order, items: Items | None, model: Model) -> _Compared | None:
    """What was found out about the pairs that were asked for, if any were."""
    if order.pairs is not None:
        asked = read_pairs(order.pairs, items, model)
    elif order.ids and items is not None:
        asked = ask(order.ids[0], order.ids[1], items)
    else:
        return None
    with about(order.features):
        return _Compared.by(comparator, asked)


def rates(roc: Roc | None) -> dict[str, float | None]:
    """AUC, EER, and TAR at as small a FAR as the number of dissimilar pairs allows; None for what is not known."""
    if roc is None:
        return {"auc": None, "eer": None, **{f"tar@far={far:g}": None for far in _FAR}}
    tars = {f"tar@far={far:g}": roc.tar_at_far(far) if roc.n_dissimilar * far >= 1 else None for far in _FAR}
    return {"auc": roc.auc, "eer": roc.eer, **tars}


def _settings(comparator: Comparator) -> dict[str, Any]:
    yes, no = comparator.thresholds
    return {"rule": str(comparator.rule), "band": comparator.band, "yes_below": yes, "no_from": no}


# -- saying it -------------------------------------------------------------------------------------------


def _as_json(compared: _Compared) -> list[dict[str, Any]]:
    asked = compared.asked
    truth = [same if known else None for same, known in zip(asked.pairs.same, asked.known, strict=True)]
    chances = [None] * len(asked) if compared.probabilities is None else compared.probabilities
    fields = ("answer", "probability", "vote_share", "score", "same")
    found = zip(compared.answers, chances, compared.vote_shares, compared.scores, truth, strict=True)
    return [
        {"first": first, "second": second, **dict(zip(fields, values, strict=True))}
        for (first, second), values in zip(asked.names, found, strict=True)
    ]


def _print(console: Console, order: Order, compared: _Compared) -> None:
    """A line for each pair, up to the limit."""
    asked = compared.asked
    with_truth = bool(asked.known.any())
    chances = [">probability"] if compared.probabilities is not None else []
    shown = table("first", "second", "answer", *chances, ">score", *(["truth"] if with_truth else []))
    n = min(order.limit or len(asked), len(asked))
    for row in range(n):
        answer, same = str(compared.answers[row]), "yes" if asked.pairs.same[row] else "no"
        wrong = asked.known[row] and answer not in (same, "unknown")
        style = "dim" if answer == "unknown" else "red" if wrong else ""
        cells = [
            *map(cell, asked.names[row]),
            cell(answer, style),
            *([] if compared.probabilities is None else [cell(number(compared.probabilities[row]))]),
            cell(number(compared.scores[row], 4)),
        ]
        shown.add_row(*cells, *([cell(same if asked.known[row] else None, style)] if with_truth else []))
    console.print(shown)
    print_rest(console, n, len(asked), "pairs")


def _facts(
    order: Order, comparator: Comparator, calibration: dict[str, Any] | None, quality: dict[str, Any] | None
) -> dict[str, str | None]:
    """Where the threshold is, and how good the answers are."""
    facts: dict[str, str | None] = {"threshold": _where(comparator)}
    if calibration is not None:
        accuracy, error, unknown = (calibration[name] for name in ("accuracy", "eer", "unknown"))
        words = f"{calibration['n_pairs']:,} pairs: accuracy {number(accuracy, 4)}, EER {number(error, 4)}"
        facts["calibrated on"] = f"{words}, {unknown:.1%} unknown" if unknown else words
        facts["warning"] = " ".join(calibration["warnings"]) or None
    if quality is not None:
        similar = quality["n_similar"]
        facts["known"] = f"{similar:,} similar and {quality['n_pairs'] - similar:,} dissimilar pairs"
        facts["unknown"] = f"{quality['unknown']:.1%} of them" if quality["unknown"] else None
        facts["accuracy"] = f"{number(quality['accuracy'], 4)} of the answers"
        curve = {name: value for name, value in quality.items() if name in ("auc", "eer") or "@" in name}
        facts |= {name.upper(): number(value, 4) for name, value in curve.items() if value is not None}
    facts["saved"] = None if order.save is None else str(order.save)
    facts["ROC curve"] = None if order.roc is None else str(order.roc)
    return facts


def _where(comparator: Comparator) -> str:
    """The thresholds, in distances and in the scores that the table shows."""
    yes, no = comparator.thresholds
    unit = 0.0 if comparator.metric.diameter is None else 1.0
    if yes == no:
        return f"{yes:.4f}: yes for scores above {unit - yes:.4f}"
    return f"{yes:.4f} and {no:.4f}: yes for scores above {unit - yes:.4f}, no up to {unit - no:.4f}"


def _draw(order: Order, model: Model, compared: _Compared) -> None:
    """The ROC curve, and where on it the threshold is."""
    from oahu.plots import figure, roc_curve

    assert order.roc is not None
    assert order.pairs is not None
    known = compared.asked.known
    same = compared.asked.answered(order.pairs).pairs.same
    with about("standard input" if order.pairs == "-" else order.pairs):
        roc = Roc.of(compared.scores[known], same)
    accepted = compared.answers[known] == "yes"
    drawn, (ax,) = figure(size=(7.2, 4.6))
    point = (float(accepted[~same].mean()), float(accepted[same].mean()))
    roc_curve(ax, roc.far, roc.tar, model.name, point, log=True)
    drawn.savefig(order.roc)
