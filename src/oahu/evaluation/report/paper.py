"""Numbers in the paper: Gao et al., "Towards Self-Adaptive Metric Learning On the Fly" (WWW 2019)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

__all__ = [
    "ADDRESS",
    "CLASSIFICATION",
    "DATASETS",
    "DEFAULTS",
    "PAPER_NOTES",
    "TITLE",
    "PrintedScore",
    "PrintedScores",
    "printed",
]

TITLE: Final = "Towards Self-Adaptive Metric Learning On the Fly (WWW 2019)"
ADDRESS: Final = "https://doi.org/10.1145/3308558.3313503"


@dataclass(frozen=True)
class PrintedScore:
    """Mean and standard deviation as printed in the paper, with two decimals. A printed 0.00 means below 0.005."""

    mean: float
    std: float

    def __str__(self) -> str:
        return f"{self.mean:.2f} ± {self.std:.2f}"


@dataclass(frozen=True)
class PrintedScores:
    """Scores of one method on one data set, as printed in Table 2 of the paper."""

    error_rate: PrintedScore
    macro_f1: PrintedScore
    utilization: PrintedScore


def _table(text: str) -> Mapping[str, PrintedScores]:
    rows = {}
    for line in text.strip().splitlines():
        method, *numbers = line.split()
        values = [PrintedScore(*map(float, number.split("±"))) for number in numbers]
        rows[method] = PrintedScores(*values)
    return MappingProxyType(rows)


# Table 2, over 10 runs. Columns: error rate, macro F1, utilization of constraints.
CLASSIFICATION: Final[Mapping[str, Mapping[str, PrintedScores]]] = MappingProxyType(
    {
        "fashion-mnist": _table("""
            OAHU   0.18±0.00  0.81±0.00  1.00±0.00
            LEGO   0.35±0.01  0.64±0.00  0.58±0.00
            RDML   0.22±0.01  0.78±0.00  0.47±0.01
            OASIS  0.21±0.02  0.79±0.01  0.14±0.00
            OPML   0.23±0.00  0.78±0.00  0.30±0.01
        """),
        "emnist-balanced": _table("""
            OAHU   0.35±0.01  0.64±0.01  1.00±0.00
            LEGO   0.84±0.00  0.14±0.02  0.66±0.01
            RDML   0.64±0.03  0.32±0.05  0.50±0.00
            OASIS  0.41±0.01  0.59±0.00  0.24±0.00
            OPML   0.43±0.01  0.51±0.02  0.45±0.00
        """),
        "cifar10-gray": _table("""
            OAHU   0.68±0.00  0.31±0.00  1.00±0.00
            LEGO   0.88±0.00  0.05±0.02  0.59±0.00
            RDML   0.76±0.01  0.24±0.01  0.50±0.01
            OASIS  0.79±0.02  0.20±0.03  0.47±0.00
            OPML   0.83±0.01  0.16±0.00  0.48±0.04
        """),
    }
)

# Number of features, classes and items according to the paper.
DATASETS: Final[Mapping[str, tuple[int, int, int]]] = MappingProxyType(
    {
        "fashion-mnist": (784, 10, 70_000),
        "emnist-balanced": (784, 47, 131_600),
        "cifar10-gray": (1024, 10, 60_000),
        "lfw": (73, 5749, 13_233),
        "cars196": (4096, 196, 16_185),
        "cifar100": (4096, 100, 60_000),
    }
)

DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "beta": 0.99,
        "n_layers": 5,
        "hidden_size": 100,
        "smoothing": 0.1,
        "learning_rate": 0.3,
        "embedding_size": 50,
        "tau": "by 10-fold cross-validation",
    }
)

PAPER_NOTES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "constraints": "The paper shows the error for different numbers of constraints only in a figure, for "
        "FASHION-MNIST and CIFAR-10. It prints no numbers.",
        "verification": "The paper shows AUC values only in a figure. The tables here do not include these values.",
        "retrieval": "The paper shows Recall@K only in figures. It prints no numbers.",
        "sensitivity": "The paper prints no numbers for this experiment. It states that accuracy and F1 "
        "are constant "
        "for τ up to 0.6 and lower for larger τ, and that accuracy is best at an embedding size of 50.",
        "regret": "The paper does not measure the regret. It states the bound √(T ln N) for T constraints and N "
        "experts.",
    }
)


def printed(dataset: str, method: str, score: str) -> PrintedScore | None:
    """Return a score of a method in Table 2 of the paper, or None if the score is not in the table.

    ``score`` is "error_rate", "macro_f1" or "utilization".

    Examples
    --------
    >>> str(printed("fashion-mnist", "OAHU", "error_rate"))
    '0.18 ± 0.00'
    """
    row = CLASSIFICATION.get(dataset, {}).get(method)
    return getattr(row, score, None)
