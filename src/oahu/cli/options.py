"""Option types that several commands share, and the allowed values of options."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "FORMATS",
    "ClickQueries",
    "Combine",
    "DataFolder",
    "FeatureFile",
    "Interleaving",
    "JsonFlag",
    "LabelFile",
    "MetricFile",
    "PairFile",
    "People",
    "ProtocolName",
    "QueryLabelFile",
    "Role",
    "Rule",
    "Seed",
    "Target",
    "UnlearnedRanking",
    "UserModel",
    "Vote",
    "VoteOption",
]

FORMATS = ".npy, .npz, .csv, .tsv or .parquet"


class Vote(StrEnum):
    """How a metric with several experts ranks items."""

    experts = "experts"
    joint = "joint"


class Combine(StrEnum):
    """How the scores of an item from several experts are combined."""

    max = "max"
    sum = "sum"


class Rule(StrEnum):
    """How a comparator combines the distances of several experts."""

    vote = "vote"
    mean = "mean"


class Target(StrEnum):
    """Score that calibration optimises."""

    accuracy = "accuracy"
    f1 = "f1"
    eer = "eer"


class ProtocolName(StrEnum):
    """Name of an experiment of `oahu bench`."""

    classification = "classification"
    constraints = "constraints"
    verification = "verification"
    retrieval = "retrieval"
    sensitivity = "sensitivity"
    regret = "regret"
    clicks = "clicks"
    paper = "paper"


class People(StrEnum):
    """Whether people in the test fold may also occur in the training folds."""

    shared = "shared"
    disjoint = "disjoint"


class UserModel(StrEnum):
    """Which of the shown items a simulated user sees and marks."""

    all = "all"
    alike = "alike"
    not_alike = "not-alike"
    cascade = "cascade"
    position = "position"


class ClickQueries(StrEnum):
    """Where the queries of a simulated user come from."""

    catalogue = "catalogue"
    held_out = "held-out"


class Interleaving(StrEnum):
    """How the current ranking is interleaved with the unlearned ranking."""

    no = "no"
    team_draft = "team-draft"


class UnlearnedRanking(StrEnum):
    """The unlearned ranking that a method is compared with."""

    cosine = "cosine"
    centred = "centred"
    euclidean = "euclidean"


class Role(StrEnum):
    """Permissions of an API key."""

    read = "read"
    feedback = "feedback"
    admin = "admin"


MetricFile = Annotated[Path, typer.Option(help="Model file with a learner or a metric.")]
FeatureFile = Annotated[Path | None, typer.Option(help=f"Feature table of the items ({FORMATS}).")]
LabelFile = Annotated[
    Path | None,
    typer.Option(help="Labels of the items (.npy, .txt or .csv). This file replaces labels in the item file."),
]
QueryLabelFile = Annotated[
    Path | None,
    typer.Option(help="Labels of the queries (.npy, .txt or .csv). This file replaces labels in the query file."),
]
PairFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Pairs as JSON Lines or CSV, with the fields 'first', 'second' and optionally 'same'. Use - for "
        "standard input.",
    ),
]
VoteOption = Annotated[
    Vote | None,
    typer.Option(
        help="How to search with several experts. experts: search each expert's space and let the experts vote. "
        "joint: search the joint vectors.",
        show_default="joint",
    ),
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Seed = Annotated[int, typer.Option(min=0, help="Random seed.")]
DataFolder = Annotated[
    Path, typer.Option(envvar="OAHU_DATA", help="Data folder of the service.", show_default="oahu-data")
]
