"""`oahu compare`: are two items alike, or each of many pairs?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from oahu.cli.inputs import Items, Model, about, check_folder, check_picture
from oahu.cli.output import cell, number, print_facts, print_json, table
from oahu.cli.pairs import Asked, ask, read_pairs
from oahu.constraints import Pairs
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
class _Answers:
    """What was found out about n pairs: three arrays of shape (n,)."""

    answers: NDArray[np.str_]
    probabilities: NDArray[np.float64]
    scores: NDArray[np.float64]

    @classmethod
    def of(cls, comparator: Comparator, pairs: Pairs) -> _Answers:
        apart = comparator._apart(pairs)
        return cls(comparator._answers(apart), comparator._probability(apart), comparator._score(apart))


def run(console: Console, order: Order) -> None:
    """Compare, and say what was found."""
    _check(order)
    model = Model.read(order.model)
    items = None if order.features is None else Items.read(order.features, model)
    comparator = _comparator(order, model)
    calibration = None if order.calibrate is None else _calibrated(comparator, order, items, model)
    _check_threshold(comparator, model)
    asked = _asked(order, items, model)
    found = None
    if asked is not None:
        with about(order.features):
            found = _Answers.of(comparator, asked.pairs)
    quality = None if asked is None or found is None else _quality(asked, found)
    if order.save is not None:
        comparator.save(order.save)
    if order.roc is not None:
        _draw(order.roc, model, asked, found, comparator)
    report = {"calibration": calibration, "quality": quality}
    if order.json:
        pairs = [] if asked is None or found is None else _as_json(asked, found)
        print_json({"model": model.described(), **_settings(comparator), "pairs": pairs, **report})
    else:
        if asked is not None and found is not None:
            _print(console, order, asked, found)
        _print_facts(console, order, comparator, calibration, quality)


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
    if not anew and order.rule not in (None, held.rule):
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
    asked = read_pairs(order.calibrate, items, model)
    pairs = asked.answered(order.calibrate)
    target = order.target or ("accuracy" if order.target_far is None and order.target_frr is None else None)
    with about(order.calibrate):
        comparator.calibrate(pairs, target=target, target_far=order.target_far, target_frr=order.target_frr)
    targets = {"target": target, "target_far": order.target_far, "target_frr": order.target_frr}
    known = Asked([("", "")] * len(pairs), pairs, np.ones(len(pairs), bool))
    return targets | (_quality(known, _Answers.of(comparator, pairs)) or {})


def _check_threshold(comparator: Comparator, model: Model) -> None:
    try:
        comparator._thresholds()
    except NotFittedError as error:
        raise InvalidInputError(
            f"What the {type(comparator.metric).__name__} in {model.path} measures has no bound, so there is no "
            "threshold to begin with: give one (--threshold), or pairs to find one by (--calibrate)."
        ) from error


def _asked(order: Order, items: Items | None, model: Model) -> Asked | None:
    if order.pairs is not None:
        return read_pairs(order.pairs, items, model)
    if order.ids:
        assert items is not None
        return ask(order.ids[0], order.ids[1], items)
    return None


def _quality(asked: Asked, found: _Answers) -> dict[str, Any] | None:
    """How many of the answers are right, and how well the scores tell; None where nothing is known."""
    if not asked.known.any():
        return None
    same, answers, scores = asked.pairs.same[asked.known], found.answers[asked.known], found.scores[asked.known]
    answered = answers != "unknown"
    right = (answers == "yes") == same
    return {
        "n_pairs": len(same),
        "n_similar": int(same.sum()),
        "unknown": float(np.mean(~answered)),
        "accuracy": float(right[answered].mean()) if answered.any() else None,
        **rates(Roc.of(scores, same) if 0 < same.sum() < len(same) else None),
    }


def rates(roc: Roc | None) -> dict[str, float | None]:
    """AUC, EER, and TAR at as small a FAR as the number of dissimilar pairs allows; None for what is not known."""
    if roc is None:
        return {"auc": None, "eer": None, **{f"tar@far={far:g}": None for far in _FAR}}
    tars = {f"tar@far={far:g}": roc.tar_at_far(far) if roc.n_dissimilar * far >= 1 else None for far in _FAR}
    return {"auc": roc.auc, "eer": roc.eer, **tars}


def _settings(comparator: Comparator) -> dict[str, Any]:
    yes, no = comparator._thresholds()
    return {"rule": str(comparator.rule), "band": comparator.band, "yes_below": yes, "no_from": no}


# -- saying it -------------------------------------------------------------------------------------------


def _as_json(asked: Asked, found: _Answers) -> list[dict[str, Any]]:
    answers, chances, scores = found.answers.tolist(), found.probabilities.tolist(), found.scores.tolist()
    truth = [same if known else None for same, known in zip(asked.pairs.same.tolist(), asked.known, strict=True)]
    return [
        {"first": first, "second": second, "answer": answer, "probability": chance, "score": score, "same": same}
        for (first, second), answer, chance, score, same in zip(
            asked.names, answers, chances, scores, truth, strict=True
        )
    ]


def _print(console: Console, order: Order, asked: Asked, found: _Answers) -> None:
    """A line for each pair, up to the limit."""
    with_truth = bool(asked.known.any())
    shown = table("first", "second", "answer", ">P", ">score", *(["truth"] if with_truth else []))
    n = min(order.limit or len(asked), len(asked))
    for row in range(n):
        answer, same = str(found.answers[row]), "yes" if asked.pairs.same[row] else "no"
        wrong = asked.known[row] and answer not in (same, "unknown")
        style = "dim" if answer == "unknown" else "red" if wrong else ""
        cells = [
            *map(cell, asked.names[row]),
            cell(answer, style),
            cell(number(found.probabilities[row])),
            cell(number(found.scores[row], 4)),
        ]
        shown.add_row(*cells, *([cell(same if asked.known[row] else None, style)] if with_truth else []))
    console.print(shown)
    if n < len(asked):
        console.print(f"{n} of {len(asked):,} pairs are shown; --limit 0 shows all.", style="dim", highlight=False)


def _print_facts(
    console: Console,
    order: Order,
    comparator: Comparator,
    calibration: dict[str, Any] | None,
    quality: dict[str, Any] | None,
) -> None:
    """Where the threshold is, and how good the answers are."""
    facts: dict[str, str | None] = {"threshold": _where(comparator)}
    if calibration is not None:
        facts["calibrated on"] = f"{calibration['n_pairs']:,} pairs, where {_in_words(calibration)}"
    if quality is not None:
        similar = quality["n_similar"]
        facts["known"] = f"{similar:,} similar and {quality['n_pairs'] - similar:,} dissimilar pairs"
        facts["unknown"] = f"{quality['unknown']:.1%} of them" if quality["unknown"] else None
        facts["accuracy"] = f"{number(quality['accuracy'], 4)} of the answers"
        facts |= {
            name.upper(): number(value, 4)
            for name, value in quality.items()
            if name in ("auc", "eer") or (name.startswith("tar") and value is not None)
        }
    facts["saved"] = None if order.save is None else str(order.save)
    facts["ROC curve"] = None if order.roc is None else str(order.roc)
    print_facts(console, facts, below=bool(order.ids) or order.pairs is not None)


def _where(comparator: Comparator) -> str:
    """The thresholds, in distances and in the scores that the table shows."""
    yes, no = comparator._thresholds()
    unit = 0.0 if comparator.metric.diameter is None else 1.0
    if yes == no:
        return f"{yes:.4f}: yes for scores above {unit - yes:.4f}"
    return f"{yes:.4f} and {no:.4f}: yes for scores above {unit - yes:.4f}, no up to {unit - no:.4f}"


def _in_words(calibration: dict[str, Any]) -> str:
    words = [f"accuracy is {number(calibration['accuracy'], 4)}", f"EER {number(calibration['eer'], 4)}"]
    return ", ".join(words + [f"{calibration['unknown']:.1%} unknown"] * bool(calibration["unknown"]))


def _draw(path: Path, model: Model, asked: Asked | None, found: _Answers | None, comparator: Comparator) -> None:
    """The ROC curve, and where on it the threshold is."""
    from oahu.plots import figure, roc_curve

    assert asked is not None
    assert found is not None
    same = asked.answered("The file of pairs").same
    scores, accepted = found.scores[asked.known], found.answers[asked.known] == "yes"
    roc = Roc.of(scores, same)
    drawn, (ax,) = figure(size=(4.8, 4.6))
    roc_curve(ax, roc.far, roc.tar, model.name, (float(accepted[~same].mean()), float(accepted[same].mean())))
    drawn.savefig(path)
