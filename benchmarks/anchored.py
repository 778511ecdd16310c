"""Benchmark of AnchoredOAHU: quality by stream length, effect of each part, effect of other parameter values.

    python benchmarks/anchored.py [digits fashion-mnist ...] [--constraints 100,1000,10000] [--runs 5] [--out DIR]
    python benchmarks/anchored.py digits --parts
    python benchmarks/anchored.py digits --develop

The first form compares AnchoredOAHU with OAHU and the unlearned metrics, and writes DIR/curves.png. --parts removes
parts of AnchoredOAHU. --develop changes parameter values and uses only development data. All other parameters have
their defaults. p is the p-value of a paired t-test against the better unlearned metric. "worse" marks learners that
are significantly worse than it (p < 0.05).
"""

import argparse
from pathlib import Path

import numpy as np

from oahu import OAHU, AnchoredOAHU, Cosine, Euclidean
from oahu.evaluation import datasets
from oahu.evaluation.benchmark import Listener, Plan, bench
from oahu.evaluation.protocols import PROTOCOLS as PROTOCOLS_BY_NAME
from oahu.evaluation.protocols import as_method
from oahu.evaluation.protocols.constraint_streams import ConstraintCache
from oahu.evaluation.statistics import compare_runs
from oahu.evaluation.trials import Trial

PROTOCOLS = {"lfw": "verification", "lfw-soft": "verification", "cars196": "retrieval", "cifar100": "retrieval"}
SCORES = {"classification": "error_rate", "verification": "auc", "retrieval": "recall@1"}
NAMES = {"error_rate": "5-NN error", "auc": "AUC", "recall@1": "Recall@1"}
UNLEARNED = {"Euclidean": Euclidean(), "Cosine": Cosine()}


class NoWhitened(AnchoredOAHU):
    """Without the whitened space."""

    def _weights(self, arrays):
        return _without(super()._weights(arrays), [1])


class NoExperts(AnchoredOAHU):
    """Without the experts."""

    def _weights(self, arrays):
        return _without(super()._weights(arrays), slice(2, None))


class NoUnlearned(AnchoredOAHU):
    """Without the unlearned space, as soon as another space has weight."""

    def _weights(self, arrays):
        return _without(super()._weights(arrays), [0])


class UniformDepths(AnchoredOAHU):
    """With the experts' total weight spread evenly over the depths."""

    def _weights(self, arrays):
        weights = super()._weights(arrays)
        weights[2:] = weights[2:].mean()
        return weights


class DeepestExpert(AnchoredOAHU):
    """With the experts' total weight on the deepest expert."""

    def _weights(self, arrays):
        weights = super()._weights(arrays)
        weights[-1] = weights[2:].sum()
        weights[2:-1] = 0.0
        return weights


class FullWeights(AnchoredOAHU):
    """With full weights from the start, without evidence."""

    def _weights(self, arrays):
        from oahu.learners.anchored.model_arrays import UNLEARNED_DISTANCE
        from oahu.learners.anchored.space_weights import space_weights

        evidence = np.stack([np.full(self.n_layers + 3, 1e3), np.ones(self.n_layers + 3)])
        return space_weights(evidence, self.strength, arrays["encoder_mean_squares"][UNLEARNED_DISTANCE])


def _without(weights, spaces):
    weights = weights.copy()
    weights[spaces] = 0.0
    if not weights.sum():
        weights[0] = 1.0
    return weights / weights.sum()


PARTS = {
    "AnchoredOAHU": AnchoredOAHU(),
    "no whitened space": NoWhitened(),
    "no experts": NoExperts(),
    "no unlearned space": NoUnlearned(),
    "full weights from the start": FullWeights(),
    "equal weights for all depths": UniformDepths(),
    "only the deepest expert": DeepestExpert(),
    "L = 0: only the linear expert": AnchoredOAHU(n_layers=0),
    "L = 1": AnchoredOAHU(n_layers=1),
    "strength 1": AnchoredOAHU(strength=1.0),
    "temperature 0.1": AnchoredOAHU(temperature=0.1),
    "shrinkage 0.02": AnchoredOAHU(shrinkage=0.02),
    "shrinkage 1": AnchoredOAHU(shrinkage=1.0),
    "windows of 4": AnchoredOAHU(window=4),
}


OTHER_VALUES = {
    "temperature": (0.03, 0.1),
    "learning_rate": (0.025, 0.1),
    "shrinkage": (0.03, 0.3),
    "strength": (0.25, 1.0),
}
VARIANTS = {"AnchoredOAHU": AnchoredOAHU()} | {
    f"{name} {value:g}": AnchoredOAHU(**{name: value}) for name, values in OTHER_VALUES.items() for value in values
}


class ProgressPrinter(Listener):
    """Prints the title and the number of trials of each step."""

    def on_start(self, title, trials):
        print(f"{title}: {len(trials)} trials", flush=True)


def test_scores(name, lengths, methods, options):
    """Return the scores on test data by (method, number of constraints), and the name of the score."""
    data = datasets.load(name)
    protocol = PROTOCOLS.get(name, "classification")
    common = {} if protocol == "verification" else {"queries": options.queries}
    values = {}
    for length in lengths:
        settings = common | {"n_constraints": length, "n_seeds": length // 2, "seed": options.seed}
        plan = Plan(protocol, data, 10 if protocol == "verification" else options.runs, settings=settings)
        record = bench([plan], list(methods.items()), Path(options.out) / f"{name}-{length}", 1, ProgressPrinter())
        for outcome in sorted(record.outcomes, key=lambda outcome: outcome.trial.run):
            values.setdefault((outcome.trial.method, length), []).append(outcome.scores[SCORES[protocol]])
    return values, SCORES[protocol]


def development_scores(name, lengths, methods, options):
    """Return the same on development data: the score of `Protocol.validate` for every fold."""
    data = datasets.load(name)
    protocol = PROTOCOLS_BY_NAME[PROTOCOLS.get(name, "classification")]
    values, cache = {}, ConstraintCache()
    for length in lengths:
        settings = protocol.settings(data, n_constraints=length, n_seeds=length // 2, seed=options.seed)
        settings |= {"folds": options.runs, "tune_items": 15_000}
        for method in map(as_method, methods.items()):
            for fold in range(options.runs):
                trial = Trial(protocol.name, name, method.name, fold, settings, stage="tuning")
                outcome = protocol.validate(trial, data, method, cache)
                values.setdefault((method.name, length), []).append(outcome.scores[protocol.score])
    return values, protocol.score


def print_table(title, values, lengths, methods, better):
    """Print means, and for learners the p-value against the best unlearned metric."""
    best = {}
    for length in lengths:
        baselines = [values[name, length] for name in UNLEARNED]
        best[length] = (min if better == "lower" else max)(baselines, key=np.mean)
    print(f"\n{title}\n\n| | {' | '.join(f'{n:,}' for n in lengths)} |\n|---|{'---:|' * len(lengths)}")
    for name in methods:
        cells = []
        for length in lengths:
            test = compare_runs(values[name, length], best[length], better=better, paired=True)
            cell = f"{test.reference.mean:.4f} ± {test.reference.std:.4f}"
            if name not in UNLEARNED:
                cell += f" (p {test.p:.3f}{', worse' if test.verdict == 'loss' else ''})"
            cells.append(cell)
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def draw_curves(curves, out):
    """Draw one panel per data set: the mean of each method by the number of constraints."""
    from matplotlib.figure import Figure

    columns = min(3, len(curves))
    rows = -(-len(curves) // columns)
    figure = Figure(figsize=(4.0 * columns, 3.0 * rows), layout="constrained", dpi=150)
    panels = np.ravel(figure.subplots(rows, columns, squeeze=False))
    styles = {
        "AnchoredOAHU": {"color": "#c1121f", "linewidth": 2.2, "marker": "o", "markersize": 4},
        "OAHU": {"color": "#1d3557", "linewidth": 1.6, "marker": "o", "markersize": 3},
        "Euclidean": {"color": "0.45", "linestyle": "--", "linewidth": 1.2},
        "Cosine": {"color": "0.45", "linestyle": ":", "linewidth": 1.6},
    }
    for ax, (name, (values, lengths, score)) in zip(panels, curves.items(), strict=False):
        for method, style in styles.items():
            means = [np.mean(values[method, length]) for length in lengths]
            ax.plot(lengths, means, label=method, **style)
        ax.set_xscale("log")
        ax.set_xticks(lengths, [f"{n:,}" if n < 1_000 else f"{n // 1_000}k" for n in lengths], minor=False)
        ax.minorticks_off()
        ax.set_title(f"{name}: {NAMES[score]}", loc="left", fontsize=10)
        ax.set_xlabel("constraints learned", fontsize=8)
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(alpha=0.2)
    for ax in panels[len(curves) :]:
        ax.set_visible(False)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(Path(out) / "curves.png", facecolor="white")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", default=["digits"])
    parser.add_argument("--constraints", help="Stream lengths, separated by commas.")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--queries", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parts", action="store_true", help="Remove parts of AnchoredOAHU.")
    parser.add_argument("--develop", action="store_true", help="Change parameter values, on development data.")
    parser.add_argument("--out", default="anchored-output")
    options = parser.parse_args()
    compared = {"OAHU": OAHU(), "AnchoredOAHU": AnchoredOAHU()}
    learners = PARTS if options.parts else VARIANTS if options.develop else compared
    methods = UNLEARNED | learners
    compute_scores = development_scores if options.develop else test_scores
    curves = {}
    for name in options.datasets:
        default = "1000,10000,50000" if PROTOCOLS.get(name) == "retrieval" else "100,1000,3000,10000,30000"
        lengths = [int(length) for length in (options.constraints or default).split(",")]
        values, score = compute_scores(name, lengths, methods, options)
        better = "lower" if score == "error_rate" else "higher"
        print_table(f"{NAMES[score]} on {name}", values, lengths, methods, better)
        curves[name] = values, lengths, score
        if learners is compared:
            draw_curves(curves, options.out)


if __name__ == "__main__":
    main()
