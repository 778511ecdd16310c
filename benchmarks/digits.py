"""Benchmark of OAHU on the bundled digits: held-out triplet accuracy and 5-nearest-neighbour error.

python benchmarks/digits.py [--runs 10]
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import normalize

from oahu import OAHU, sample_triplets

Items = NDArray[np.floating]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--triplets", type=int, default=10_000)
    options = parser.parse_args()
    X, y = load_digits(return_X_y=True)
    scores: dict[str, list[tuple[float, float]]] = {}
    for seed in range(options.runs):
        items, others, labels, other_labels = train_test_split(
            X / 16, y, test_size=0.5, stratify=y, random_state=seed
        )
        triplets = sample_triplets(labels, options.triplets, random_state=seed)
        held_out = sample_triplets(other_labels, 5_000, random_state=1_000 + seed)
        spaces: dict[str, tuple[Items, Items]] = {
            "Euclidean, unlearned": (items, others),
            "cosine, unlearned": (normalize(items), normalize(others)),
        }
        for rate in (0.3, 0.05):
            learner = OAHU(learning_rate=rate, preprocessor=items, random_state=seed).initialize(64)
            if rate == 0.3:
                spaces["OAHU before the first triplet"] = learner.transform(items), learner.transform(others)
            learner.partial_fit(triplets)
            spaces[f"OAHU, learning_rate={rate}"] = learner.transform(items), learner.transform(others)
        for name, (gallery, queries) in spaces.items():
            scores.setdefault(name, []).append(evaluate(gallery, labels, queries, other_labels, held_out))
    table = Table(
        title=f"Digits, {options.triplets:,} triplets, mean ± std of {options.runs} splits", title_justify="left"
    )
    for heading in ("", "held-out triplet accuracy", "5-NN error"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, each in scores.items():
        mean, std = np.mean(each, axis=0), np.std(each, axis=0, ddof=1)
        table.add_row(name, *(f"{m:.3f} ± {s:.3f}" for m, s in zip(mean, std, strict=True)))
    Console(width=100).print(table)


def evaluate(
    gallery: Items, labels: NDArray[np.int_], queries: Items, truth: NDArray[np.int_], held_out: NDArray[np.intp]
) -> tuple[float, float]:
    """Return the triplet accuracy of the queries, and the error of 5-nearest-neighbour classification."""
    anchor, positive, negative = (queries[column] for column in held_out.T)
    near, far = np.linalg.norm(anchor - positive, axis=1), np.linalg.norm(anchor - negative, axis=1)
    knn = KNeighborsClassifier(n_neighbors=5).fit(gallery, labels)
    return float(np.mean(near < far)), float(1 - knn.score(queries, truth))


if __name__ == "__main__":
    main()
