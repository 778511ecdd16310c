"""Benchmark of the paper's loss with another optimiser: Adam with minibatches and several passes.

    python benchmarks/minibatch.py [--dataset fashion-mnist] [--runs 3] [--queries 5000]

Splits, triplets and inputs are those of `oahu bench classification`. This is not online learning, because a triplet
is used several times. The benchmark shows whether OAHU's error is due to its loss or to its optimiser.
"""

import argparse

import numpy as np
import torch

from oahu import Classifier
from oahu.evaluation import datasets
from oahu.evaluation.protocols.classification_protocol import split_halves
from oahu.evaluation.protocols.constraint_streams import ConstraintCache
from oahu.evaluation.protocols.scaling import fit_scaling
from oahu.evaluation.scores import error_rate
from oahu.torch import OAHUHead

SCALINGS = ("range", "standard", "centred")
VARIANTS = {
    "L = 5, 1 pass": {"n_layers": 5, "passes": 1},
    "L = 5, 5 passes": {"n_layers": 5, "passes": 5},
    "L = 1, 5 passes": {"n_layers": 1, "passes": 5},
    "L = 0, 5 passes": {"n_layers": 0, "passes": 5},
    "L = 1, 5 passes, τ = 0.6": {"n_layers": 1, "passes": 5, "tau": 0.6},
}
BATCH, RATE = 32, 1e-3


def learn_metric(items, triplets, seed, n_layers, passes, tau=0.1):
    """Return the metric after several passes over the triplets. Each pass has a new random order."""
    torch.manual_seed(seed)
    head = OAHUHead(items.shape[1], n_layers=n_layers, tau=tau)
    optimizer = torch.optim.Adam(head.parameters(), lr=RATE)
    table = torch.from_numpy(items)
    for order in (torch.randperm(len(triplets)) for _ in range(passes)):
        for batch in order.split(BATCH):
            losses = head.losses(*(table[triplets[batch.numpy(), side]] for side in range(3)))
            optimizer.zero_grad()
            head.overall(losses).backward()
            optimizer.step()
            head.hedge_step(losses)
    return head.to_learner().metric()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="fashion-mnist")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--queries", type=int, default=5_000)
    given = parser.parse_args()
    data = datasets.load(given.dataset)
    print(f"5-NN error on {data.name}, Adam {RATE}, batches of {BATCH}; means of {given.runs} runs\n")
    print(f"| | {' | '.join(SCALINGS)} |\n|---|{'---:|' * len(SCALINGS)}")
    for name, variant in VARIANTS.items():
        means = []
        for scaling in SCALINGS:
            errors = []
            for run in range(given.runs):
                development, test = split_halves(data, 0, run)
                test = test[: given.queries]
                scaled = fit_scaling(data.X[development], scaling)
                items, labels = scaled(data.X[development]), data.y[development]
                stream = ConstraintCache().get("triplets", labels, 10_000, 5_000, (0, data.name, "run", run))
                metric = learn_metric(items, stream.rows, run, **variant)
                predicted = Classifier(metric, k=5, vote="experts").fit(items, labels).predict(scaled(data.X[test]))
                errors.append(error_rate(data.y[test], predicted))
            means.append(f"{np.mean(errors):.3f}")
        print(f"| {name} | {' | '.join(means)} |", flush=True)


if __name__ == "__main__":
    main()
