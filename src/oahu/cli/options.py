"""What the commands ask for in the same words."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["KINDS", "Combine", "Data", "Features", "Json", "Labels", "Model", "People", "Protocol"]
__all__ += ["QueryLabels", "Role", "Rule", "Target"]
__all__ += ["Vote", "Voting", "data_of"]


class Vote(StrEnum):
    experts = "experts"
    joint = "joint"


class Combine(StrEnum):
    max = "max"
    sum = "sum"


class Rule(StrEnum):
    vote = "vote"
    mean = "mean"


class Protocol(StrEnum):
    classification = "classification"
    constraints = "constraints"
    verification = "verification"
    retrieval = "retrieval"
    sensitivity = "sensitivity"
    regret = "regret"
    paper = "paper"


class People(StrEnum):
    shared = "shared"
    disjoint = "disjoint"


class Target(StrEnum):
    accuracy = "accuracy"
    f1 = "f1"
    eer = "eer"


class Role(StrEnum):
    read = "read"
    feedback = "feedback"
    admin = "admin"


KINDS = ".npy, .npz, .csv, .parquet"

Model = Annotated[Path, typer.Option(help="A learner or a metric, as train and save() write them.")]
Features = Annotated[Path | None, typer.Option(help=f"The items that ids are of ({KINDS}).")]
Labels = Annotated[
    Path | None,
    typer.Option(help="The items' labels (.npy, .txt, .csv), in place of those in their own file."),
]
QueryLabels = Annotated[Path | None, typer.Option(help="The queries' labels, likewise.")]
Voting = Annotated[Vote, typer.Option(help="Ask every expert, or their joint vectors in one search.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON in place of tables.")]
Data = Annotated[
    Path | None, typer.Option(help="The folder of the service ($OAHU_DATA).", show_default="oahu-data")
]


def data_of(given: Path | None) -> Path:
    """The folder of a service: as given, or as the environment says."""
    return given or Path(os.environ.get("OAHU_DATA", "oahu-data"))
