"""Benchmark of OAHU's parameters: classification error with one parameter changed at a time, for four scalings.

    python benchmarks/recipe.py [--dataset fashion-mnist] [--runs 3] [--queries 5000] [--out recipe-output]

The first row has the paper's parameters. "untrained" has a step size of almost 0: it is the result of the random
network.
"""

import argparse
import os

import numpy as np

from oahu import OAHU, Cosine, Euclidean
from oahu.evaluation import datasets
from oahu.evaluation.benchmark import Listener, Plan, bench

VARIANTS = {
    "paper: η = 0.3, τ = 0.1": {},
    "τ = 0.3": {"tau": 0.3},
    "τ = 0.6": {"tau": 0.6},
    "η = 0.1": {"learning_rate": 0.1},
    "η = 0.03": {"learning_rate": 0.03},
    "η = 0.01": {"learning_rate": 0.01},
    "η = 0.003": {"learning_rate": 0.003},
    "η = 0.001": {"learning_rate": 0.001},
    "η = 0.0003": {"learning_rate": 0.0003},
    "η = 0.0001": {"learning_rate": 0.0001},
    "η = 0.01, τ = 0.6": {"learning_rate": 0.01, "tau": 0.6},
    "η = 0.003, τ = 0.6": {"learning_rate": 0.003, "tau": 0.6},
    "η = 0.003, orthogonal initialisation": {"learning_rate": 0.003, "initialization": "orthogonal"},
    "gradient through the thresholds": {"through_thresholds": True},
    "plain hedge": {"hedge": "hedge"},
    "log β in the hedge's condition": {"hedge": "log_beta"},
    "L = 0: only the linear expert": {"n_layers": 0},
    "η = 0.003, L = 0": {"learning_rate": 0.003, "n_layers": 0},
    "untrained (η = 1e-9)": {"learning_rate": 1e-9},
}
SCALINGS = ("range", "standard", "unit", "centred")


class ProgressPrinter(Listener):
    """Prints the title and the number of trials of each step."""

    def on_start(self, title, trials):
        print(f"{title}: {len(trials)} trials", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="fashion-mnist")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--queries", type=int, default=5_000)
    parser.add_argument("--out", default="recipe-output")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    given = parser.parse_args()
    data = datasets.load(given.dataset)
    methods = [(name, OAHU(**changed)) for name, changed in VARIANTS.items()]
    methods += [("Euclidean", Euclidean()), ("Cosine", Cosine())]
    plans = [
        Plan("classification", data, given.runs, settings={"scaling": scaling, "queries": given.queries})
        for scaling in SCALINGS
    ]
    record = bench(plans, methods, given.out, given.jobs, ProgressPrinter())
    errors = {}
    for outcome in record.results("classification"):
        where = outcome.trial.method, outcome.trial.settings["scaling"]
        errors.setdefault(where, []).append(outcome.scores["error_rate"])
    print(f"\n5-NN error on {data.name}, means of {given.runs} runs, {given.queries:,} test items each\n")
    print(f"| | {' | '.join(SCALINGS)} |\n|---|{'---:|' * len(SCALINGS)}")
    for name, _ in methods:
        print(f"| {name} | {' | '.join(f'{np.mean(errors[name, scaling]):.3f}' for scaling in SCALINGS)} |")


if __name__ == "__main__":
    main()
