"""`oahu compare`: decide whether pairs of items are similar."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table

import oahu
from oahu.cli.inputs import LoadedItems, LoadedModel, add_path_to_errors, check_folder, check_picture
from oahu.cli.options import FeatureFile, JsonFlag, PairFile, Rule, Target
from oahu.cli.output import cell, console, number, print_facts, print_hidden_count, print_json, table
from oahu.cli.pair_files import LoadedPairs, pair_of_ids, read_pairs
from oahu.cli.verification_rates import roc_rates

__all__ = ["CompareOptions", "compare"]


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """Options of `oahu compare`."""

    model: Annotated[
        Path,
        typer.Option(
            help="Model file with a learner, a metric, or a comparator (a metric with its threshold, "
            "written by --save)."
        ),
    ]
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[A B]", help="Ids of two items to compare.", show_default=False)
    ] = None
    features: FeatureFile = None
    pairs: PairFile = None
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Distance below which two items count as similar. If the model's distances have no upper bound, "
            "there is no default, and --threshold or --calibrate is required.",
            show_default="0.55, or the threshold of a saved comparator",
        ),
    ] = None
    rule: Annotated[
        Rule | None,
        typer.Option(
            help="How to combine several experts. vote: majority of the experts' answers. mean: mean of "
            "the experts' distances.",
            show_default="vote",
        ),
    ] = None
    band: Annotated[
        float | None,
        typer.Option(
            help="Answer 'unknown' if the distance differs from the threshold by less than this value.",
            show_default="0",
        ),
    ] = None
    calibrate: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="File of labelled pairs to calibrate the threshold on, in the format of --pairs."
        ),
    ] = None
    target: Annotated[
        Target | None,
        typer.Option(
            help="Calibration target: the best accuracy, the best F1, or equal false accept and false reject rates "
            "(eer).",
            show_default="accuracy",
        ),
    ] = None
    target_far: Annotated[
        float | None, typer.Option(help="Calibration target: maximum false accept rate.", show_default=False)
    ] = None
    target_frr: Annotated[
        float | None,
        typer.Option(
            help="Maximum false reject rate. Only with --target-far. Pairs with a distance between the "
            "two resulting thresholds get the answer 'unknown'.",
            show_default=False,
        ),
    ] = None
    save: Annotated[
        Path | None,
        typer.Option(help="File to write the comparator (metric and threshold) to. It can be used as --model."),
    ] = None
    roc: Annotated[
        Path | None, typer.Option(help="File for a plot of the ROC curve on --pairs (.png, .pdf or .svg).")
    ] = None
    linear: Annotated[
        bool,
        typer.Option(
            "--linear",
            help="Draw the false accept rate of --roc on a linear axis. By default, the axis is logarithmic.",
        ),
    ] = False
    limit: Annotated[int, typer.Option(min=0, help="Number of pairs to show. 0 shows all pairs.")] = 20
    json: JsonFlag = False


@dataclass(frozen=True, eq=False)
class _ComparedPairs:
    """Pairs with their answers, scores and probabilities. The probabilities are None if there is no calibration."""

    loaded: LoadedPairs
    answers: NDArray[np.str_]
    probabilities: NDArray[np.float64] | None
    vote_shares: NDArray[np.float64]
    scores: NDArray[np.float64]

    @classmethod
    def compute(cls, comparator: oahu.Comparator, loaded: LoadedPairs) -> _ComparedPairs:
        """Compare all pairs."""
        return cls(loaded, *comparator.compare_all(loaded.pairs))

    def quality(self) -> dict[str, Any] | None:
        """Return accuracy, error rates and ROC rates of the labelled pairs, or None if no pair is labelled.

        The false accept rate is the share of dissimilar pairs with the answer "yes". The false reject rate is the
        share of similar pairs with the answer "no". The answer "unknown" does not count as an error.
        """
        labelled = self.loaded.labelled
        if not labelled.any():
            return None
        same, answers = self.loaded.pairs.same[labelled], self.answers[labelled]
        answered, right = answers != "unknown", (answers == "yes") == same
        roc = oahu.Roc.of(self.scores[labelled], same) if 0 < same.sum() < len(same) else None
        return {
            "n_pairs": len(same),
            "n_similar": int(same.sum()),
            "unknown": float(np.mean(~answered)),
            "accuracy": float(right[answered].mean()) if answered.any() else None,
            "false_accept_rate": _mean(answers[~same] == "yes"),
            "false_reject_rate": _mean(answers[same] == "no"),
            **roc_rates(roc),
        }


def _mean(values: NDArray[np.bool_]) -> float | None:
    return float(values.mean()) if len(values) else None


def compare(options: CompareOptions) -> None:
    """Decide whether pairs of items are similar. The answer is yes, no or unknown.

    Give two ids or --pairs FILE. For labelled pairs, the false accept rate and the false reject rate are printed.
    """
    _check(options)
    model = LoadedModel.read(options.model)
    items = None if options.features is None else LoadedItems.read(options.features, model)
    comparator = _comparator(options, model)
    comparator._check_parameters()
    calibration = None if options.calibrate is None else _calibrate(comparator, options, items, model)
    _check_threshold(comparator, model)
    compared = _compare(comparator, options, items, model)
    quality = None if compared is None else compared.quality()
    if options.roc is not None and compared is not None:
        _draw_roc(options, model, compared)
    if options.save is not None:
        comparator.save(options.save)
    if options.json:
        yes_below, no_from = comparator.thresholds
        print_json(
            {
                "model": model.as_json(),
                "rule": str(comparator.rule),
                "band": comparator.band,
                "yes_below": yes_below,
                "no_from": no_from,
                "pairs": [] if compared is None else _as_json(compared),
                "calibration": calibration,
                "quality": quality,
            }
        )
        return
    if compared is not None:
        n_shown = min(options.limit or len(compared.loaded), len(compared.loaded))
        console.print(_table(n_shown, compared))
        print_hidden_count(console, n_shown, len(compared.loaded), "pairs")
    print_facts(console, _facts(options, comparator, calibration, quality), below=compared is not None)


def _check(options: CompareOptions) -> None:
    """Reject options that contradict each other, before any file is read."""
    check_folder(options.save)
    check_picture(options.roc)
    ids = options.ids or []
    if len(ids) not in (0, 2):
        raise oahu.InvalidInputError(f"Give exactly two ids. Got {len(ids)} instead: {' '.join(ids)}.")
    if ids and options.pairs is not None:
        raise oahu.InvalidInputError("Give two ids or --pairs FILE, not both.")
    if not ids and options.pairs is None and options.calibrate is None:
        raise oahu.InvalidInputError("Nothing to compare. Give two ids, --pairs FILE or --calibrate FILE.")
    if ids and options.features is None:
        raise oahu.InvalidInputError("To compare two ids, give a feature table with --features FILE.")
    if options.roc is not None and options.pairs is None:
        raise oahu.InvalidInputError("--roc needs labelled pairs. Give labelled pairs with --pairs FILE.")
    targets = [options.target, options.target_far, options.target_frr]
    if options.calibrate is None and any(target is not None for target in targets):
        raise oahu.InvalidInputError(
            "Calibration targets need labelled pairs. Give labelled pairs with --calibrate FILE."
        )
    if options.target is not None and options.target_far is not None:
        raise oahu.InvalidInputError("Give --target or --target-far, not both.")
    if options.target_frr is not None and options.target_far is None:
        raise oahu.InvalidInputError("--target-frr can only be used with --target-far.")
    if options.calibrate is not None and options.threshold is not None:
        raise oahu.InvalidInputError("Give --threshold or --calibrate, not both.")
    if options.pairs == "-" == options.calibrate:
        raise oahu.InvalidInputError("--pairs and --calibrate cannot both read standard input.")


def _comparator(options: CompareOptions, model: LoadedModel) -> oahu.Comparator:
    """Return the comparator in the model file, or a new comparator. The options replace its settings."""
    settings: dict[str, Any] = {
        "threshold": options.threshold,
        "rule": None if options.rule is None else options.rule.value,
        "band": options.band,
    }
    settings = {name: value for name, value in settings.items() if value is not None}
    if not isinstance(model.content, oahu.Comparator):
        return oahu.Comparator(model.metric, **settings)
    saved: oahu.Comparator = model.content
    new_threshold = options.threshold is not None or options.calibrate is not None
    has_threshold = saved.threshold is not None or hasattr(saved, "yes_below_")
    if has_threshold and not new_threshold and options.rule not in (None, saved.rule):
        raise oahu.InvalidInputError(
            f"The threshold in {model.path} is for the rule {saved.rule!r}. Give a threshold for the rule "
            f"{options.rule.value!r} with --threshold, or calibrate a threshold with --calibrate FILE."
        )
    if new_threshold:  # a new object, because a calibrated threshold takes precedence over a given one
        return oahu.Comparator(model.metric, **{"rule": saved.rule, "band": saved.band, **settings})
    saved.set_params(**settings)
    return saved


def _calibrate(
    comparator: oahu.Comparator, options: CompareOptions, items: LoadedItems | None, model: LoadedModel
) -> dict[str, Any]:
    """Calibrate the comparator. Return the calibration targets and the quality on the calibration pairs."""
    assert options.calibrate is not None
    loaded = read_pairs(options.calibrate, items, model).only_labelled(options.calibrate)
    target = None if options.target_far is not None else (options.target or Target.accuracy).value
    targets: dict[str, Any] = {
        "target": target,
        "target_far": options.target_far,
        "target_frr": options.target_frr,
    }
    with add_path_to_errors(options.calibrate), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        comparator.calibrate(loaded.pairs, **targets)
    messages = [str(warning.message) for warning in caught]
    return targets | (_ComparedPairs.compute(comparator, loaded).quality() or {}) | {"warnings": messages}


def _check_threshold(comparator: oahu.Comparator, model: LoadedModel) -> None:
    try:
        _ = comparator.thresholds
    except oahu.NotFittedError as error:
        raise oahu.InvalidInputError(
            f"The distances of the {type(comparator.metric).__name__} in {model.path} are unbounded, so there is "
            "no default threshold. Give a threshold with --threshold, or calibrate a threshold with "
            "--calibrate FILE."
        ) from error


def _compare(
    comparator: oahu.Comparator, options: CompareOptions, items: LoadedItems | None, model: LoadedModel
) -> _ComparedPairs | None:
    """Return the pairs that the user gave, with their answers, or None if the user gave no pairs."""
    if options.pairs is not None:
        loaded = read_pairs(options.pairs, items, model)
    elif options.ids and items is not None:
        loaded = pair_of_ids(options.ids[0], options.ids[1], items)
    else:
        return None
    with add_path_to_errors(options.features):
        return _ComparedPairs.compute(comparator, loaded)


def _as_json(compared: _ComparedPairs) -> list[dict[str, Any]]:
    loaded = compared.loaded
    labels = [same if labelled else None for same, labelled in zip(loaded.pairs.same, loaded.labelled, strict=True)]
    probabilities = [None] * len(labels) if compared.probabilities is None else compared.probabilities
    fields = ("answer", "probability", "vote_share", "score", "same")
    rows = zip(compared.answers, probabilities, compared.vote_shares, compared.scores, labels, strict=True)
    return [
        {"first": first, "second": second, **dict(zip(fields, row, strict=True))}
        for (first, second), row in zip(loaded.names, rows, strict=True)
    ]


def _table(n_shown: int, compared: _ComparedPairs) -> Table:
    """Return a table with one line for each of the first ``n_shown`` pairs. Wrong answers are red."""
    loaded = compared.loaded
    with_truth = bool(loaded.labelled.any())
    probability = [] if compared.probabilities is None else [">probability"]
    shown = table("first", "second", "answer", *probability, ">score", *(["truth"] if with_truth else []))
    for row in range(n_shown):
        answer, truth = str(compared.answers[row]), "yes" if loaded.pairs.same[row] else "no"
        wrong = loaded.labelled[row] and answer not in (truth, "unknown")
        style = "dim" if answer == "unknown" else "red" if wrong else ""
        cells = [
            *map(cell, loaded.names[row]),
            cell(answer, style),
            *([] if compared.probabilities is None else [cell(number(compared.probabilities[row]))]),
            cell(number(compared.scores[row], 4)),
        ]
        shown.add_row(*cells, *([cell(truth if loaded.labelled[row] else None, style)] if with_truth else []))
    return shown


def _facts(
    options: CompareOptions,
    comparator: oahu.Comparator,
    calibration: dict[str, Any] | None,
    quality: dict[str, Any] | None,
) -> dict[str, str | None]:
    """Return texts about the threshold, the calibration, and the quality on the labelled pairs."""
    facts: dict[str, str | None] = {"threshold": _threshold_text(comparator)}
    if calibration is not None:
        accuracy, error, unknown = (calibration[name] for name in ("accuracy", "eer", "unknown"))
        text = f"{calibration['n_pairs']:,} pairs: accuracy {number(accuracy, 4)}, EER {number(error, 4)}"
        facts["calibrated on"] = f"{text}, {unknown:.1%} unknown" if unknown else text
        facts["warning"] = " ".join(calibration["warnings"]) or None
    if quality is not None:
        n_similar, n_dissimilar = quality["n_similar"], quality["n_pairs"] - quality["n_similar"]
        facts["labelled"] = f"{n_similar:,} similar and {n_dissimilar:,} dissimilar pairs"
        facts["unknown"] = f"{quality['unknown']:.1%} of them" if quality["unknown"] else None
        facts["accuracy"] = f"{number(quality['accuracy'], 4)} of the answers"
        facts["false accept rate"] = f"{number(quality['false_accept_rate'], 4)} of the dissimilar pairs"
        facts["false reject rate"] = f"{number(quality['false_reject_rate'], 4)} of the similar pairs"
        curve = {name: value for name, value in quality.items() if name in ("auc", "eer") or "@" in name}
        facts |= {name.upper(): number(value, 4) for name, value in curve.items() if value is not None}
    facts["saved"] = None if options.save is None else str(options.save)
    facts["ROC curve"] = None if options.roc is None else str(options.roc)
    return facts


def _threshold_text(comparator: oahu.Comparator) -> str:
    """Return a text with the thresholds, as distances and as scores, because the table of pairs shows scores."""
    yes, no = comparator.thresholds
    offset = 0.0 if comparator.metric.diameter is None else 1.0
    if yes == no:
        return f"{yes:.4f}: yes for scores above {offset - yes:.4f}"
    return f"{yes:.4f} and {no:.4f}: yes for scores above {offset - yes:.4f}, no for scores up to {offset - no:.4f}"


def _draw_roc(options: CompareOptions, model: LoadedModel, compared: _ComparedPairs) -> None:
    """Draw the ROC curve of the labelled pairs, and mark the rates at the threshold."""
    from oahu.plots import figure, roc_curve

    assert options.roc is not None
    assert options.pairs is not None
    labelled = compared.loaded.labelled
    same = compared.loaded.only_labelled(options.pairs).pairs.same
    with add_path_to_errors("standard input" if options.pairs == "-" else options.pairs):
        roc = oahu.Roc.of(compared.scores[labelled], same)
    accepted = compared.answers[labelled] == "yes"
    picture, (ax,) = figure(size=(4.8, 4.6) if options.linear else (7.2, 4.6))
    mark = (float(accepted[~same].mean()), float(accepted[same].mean()))
    roc_curve(ax, roc.far, roc.tar, model.class_name, mark, log=not options.linear)
    picture.savefig(options.roc)
