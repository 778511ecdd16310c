"""Benchmark of AnchoredOAHU: precision@10 by number of clicks, effect of each part and of parameter values.

    python benchmarks/anchored.py [digits tiles ...] [--clicks 1000] [--user all] [--noise 0.2] [--out DIR]
    python benchmarks/anchored.py digits --parts
    python benchmarks/anchored.py digits --values

A simulated user clicks, as in `oahu bench clicks`. The first form compares AnchoredOAHU with OAHU, LEGO and
unlearned metrics, and writes DIR/curves.png. --parts removes spaces from the metric of AnchoredOAHU, or ignores the
evidence. --values changes one parameter at a time. All other parameters have their defaults. p is the p-value of a
paired t-test against the best unlearned metric. "worse" marks learners that are significantly worse than it
(p < 0.05).
"""

import argparse
from pathlib import Path
from typing import ClassVar

import numpy as np

from oahu import LEGO, OAHU, AnchoredMetric, AnchoredOAHU, Cosine, Euclidean
from oahu.evaluation import datasets
from oahu.evaluation.benchmark import Listener, Plan, bench
from oahu.evaluation.protocols.simulated_user import USER_MODELS
from oahu.evaluation.statistics import compare_runs
from oahu.metrics.anchored_metric import N_ANCHORS, SPACES

SCORE = "precision@10"
UNLEARNED = {"Euclidean": Euclidean(), "Cosine": Cosine(), "Centred cosine": "CentredCosine"}
LEARNERS = {"LEGO": LEGO(), "OAHU": OAHU(), "AnchoredOAHU": AnchoredOAHU()}


class OtherWeights(AnchoredOAHU):
    """AnchoredOAHU with a metric whose weights are changed. Learning does not change."""

    def build_metric(self, arrays, version):
        metric = super().build_metric(arrays, version)
        weights = self.changed(metric.metric_weights.copy())
        if not weights.sum():
            weights = np.ones(len(SPACES))
        return AnchoredMetric.frozen(metric.arrays, weights / weights.sum(), version)

    def changed(self, weights):
        raise NotImplementedError


class Without(OtherWeights):
    """Without some of the spaces."""

    removed: ClassVar[tuple[str, ...]] = ()

    def changed(self, weights):
        weights[[SPACES.index(name) for name in self.removed]] = 0.0
        return weights


class NoLearnedSpaces(Without):
    removed = SPACES[N_ANCHORS:]


class NoStartingSpaces(Without):
    removed = SPACES[:N_ANCHORS]


class NoCatalogueWhitening(Without):
    removed = ("catalogue-whitened",)


class NoPairWhitening(Without):
    removed = ("pair-whitened",)


class NoAxisWeights(Without):
    removed = ("axis weights",)


class NoLinearMap(Without):
    removed = ("linear map",)


class NoNetwork(Without):
    removed = ("network",)


class EqualWeights(OtherWeights):
    """Equal weights for all spaces, without evidence."""

    def changed(self, weights):
        return np.ones_like(weights)


PARTS = {
    "AnchoredOAHU": AnchoredOAHU(),
    "no learned spaces": NoLearnedSpaces(),
    "no starting spaces": NoStartingSpaces(),
    "no catalogue whitening": NoCatalogueWhitening(),
    "no pair whitening": NoPairWhitening(),
    "no axis weights": NoAxisWeights(),
    "no linear map": NoLinearMap(),
    "no network": NoNetwork(),
    "equal weights": EqualWeights(),
}
OTHER_VALUES = {
    "learning_rate": (0.2, 2.0),
    "temperature": (0.05, 0.2),
    "prior": (0.0, 10.0),
    "n_random": (16, 256),
    "batch_size": (2, 32),
}
VALUES = {"AnchoredOAHU": AnchoredOAHU()} | {
    f"{name} {value:g}": AnchoredOAHU(**{name: value}) for name, values in OTHER_VALUES.items() for value in values
}


class ProgressPrinter(Listener):
    """Prints the title and the number of trials of each step."""

    def on_start(self, title, trials):
        print(f"{title}: {len(trials)} trials", flush=True)


def measured(name, methods, options):
    """Return the numbers of clicks, and precision@10 by method, of shape (n_runs, n_checkpoints)."""
    settings = {"n_clicks": options.clicks, "user": options.user, "noise": options.noise, "seed": options.seed}
    plan = Plan("clicks", datasets.load(name), options.runs, settings=settings)
    compared = [method if isinstance(method, str) else (label, method) for label, method in methods.items()]
    out = Path(options.out) / f"{name}-{options.user}-{options.noise:g}-{options.clicks}"
    record = bench([plan], compared, out, 1, ProgressPrinter())
    labels = {method: label for label, method in methods.items() if isinstance(method, str)}
    curves = {}
    for outcome in sorted(record.outcomes, key=lambda outcome: outcome.trial.run):
        curve = outcome.curves["clicks"]
        label = labels.get(outcome.trial.method, outcome.trial.method)
        curves.setdefault(label, []).append(curve[SCORE])
    return curve["clicks"], {label: np.array(runs) for label, runs in curves.items()}


def print_table(title, clicks, curves):
    """Print means, and for learners the p-value against the best unlearned metric."""
    best = max((curves[name] for name in UNLEARNED), key=lambda runs: runs[:, -1].mean())
    print(f"\n{title}\n\n| clicks | {' | '.join(f'{n:,}' for n in clicks)} |\n|---|{'---:|' * len(clicks)}")
    for name, runs in curves.items():
        cells = []
        for values, unlearned in zip(runs.T, best.T, strict=True):
            test = compare_runs(values.tolist(), unlearned.tolist(), better="higher", paired=True)
            cell = f"{test.reference.mean:.4f} ± {test.reference.std:.4f}"
            if name not in UNLEARNED:
                cell += f" (p {test.p:.3f}{', worse' if test.verdict == 'loss' else ''})"
            cells.append(cell)
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def draw_curves(results, out):
    """Draw one panel per data set: the mean precision@10 by the number of clicks. Bands: one standard deviation."""
    from matplotlib.figure import Figure

    columns = min(2, len(results))
    rows = -(-len(results) // columns)
    figure = Figure(figsize=(4.0 * columns, 3.0 * rows), layout="constrained", dpi=150)
    panels = np.ravel(figure.subplots(rows, columns, squeeze=False))
    styles = {
        "AnchoredOAHU": {"color": "#c1121f", "linewidth": 2.2, "marker": "o", "markersize": 4},
        "OAHU": {"color": "#1d3557", "linewidth": 1.6, "marker": "o", "markersize": 3},
        "LEGO": {"color": "#2a9d8f", "linewidth": 1.6, "marker": "o", "markersize": 3},
        "Euclidean": {"color": "0.45", "linestyle": "--", "linewidth": 1.2},
        "Cosine": {"color": "0.45", "linestyle": ":", "linewidth": 1.6},
        "Centred cosine": {"color": "0.45", "linestyle": "-.", "linewidth": 1.2},
    }
    for ax, (name, (clicks, curves)) in zip(panels, results.items(), strict=False):
        for method, style in styles.items():
            mean, deviation = curves[method].mean(axis=0), curves[method].std(axis=0, ddof=1)
            ax.plot(clicks, mean, label=method, **style)
            if method not in UNLEARNED:
                ax.fill_between(
                    clicks, mean - deviation, mean + deviation, color=style["color"], alpha=0.15, linewidth=0
                )
        ax.set_xscale("log")
        ax.set_xticks(clicks, [f"{n:,}" if n < 1_000 else f"{n / 1_000:g}k" for n in clicks], minor=False)
        ax.minorticks_off()
        ax.set_title(f"{name}: {SCORE}", loc="left", fontsize=10)
        ax.set_xlabel("clicks", fontsize=8)
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(alpha=0.2)
    for ax in panels[len(results) :]:
        ax.set_visible(False)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(Path(out) / "curves.png", facecolor="white")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", default=["digits"])
    parser.add_argument("--clicks", type=int, default=1_000)
    parser.add_argument("--user", choices=USER_MODELS, default="all", help="Which items the user marks.")
    parser.add_argument("--noise", type=float, default=0.0, help="Share of wrong marks.")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parts", action="store_true", help="Remove parts of AnchoredOAHU.")
    parser.add_argument("--values", action="store_true", help="Change parameter values.")
    parser.add_argument("--out", default="anchored-output")
    options = parser.parse_args()
    learners = PARTS if options.parts else VALUES if options.values else LEARNERS
    results = {}
    for name in options.datasets:
        clicks, curves = results[name] = measured(name, UNLEARNED | learners, options)
        print_table(f"{SCORE} on {name}, user '{options.user}', noise {options.noise:g}", clicks, curves)
    if learners is LEARNERS:
        draw_curves(results, options.out)


if __name__ == "__main__":
    main()
