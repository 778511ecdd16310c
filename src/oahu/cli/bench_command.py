"""`oahu bench`: options. The work is in `oahu.cli.bench`, which imports scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from oahu.cli.options import FORMATS, LabelFile, People, Protocol, Seed
from oahu.cli.output import console, error_console

__all__ = ["BenchOptions", "bench"]


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """Options of `oahu bench`."""

    protocol: Annotated[
        Protocol,
        typer.Argument(help="Experiment to run; paper runs all experiments of the paper.", show_default=False),
    ]
    datasets: Annotated[
        list[str] | None,
        typer.Option(
            "--dataset",
            help=f"Data set that `oahu datasets` lists, or a feature file ({FORMATS}). Can be repeated.",
            show_default="the paper's",
        ),
    ] = None
    labels: LabelFile = None
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="Learners by name, module:Name or model file.",
            show_default="AnchoredOAHU and the paper's",
        ),
    ] = None
    reference: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Method that the others are tested against.", show_default="AnchoredOAHU"
        ),
    ] = None
    runs: Annotated[
        int | None,
        typer.Option(min=1, help="Independent runs (or folds).", show_default="10, for retrieval 1"),
    ] = None
    jobs: Annotated[int, typer.Option(min=0, help="Parallel processes; 0 uses one per core.")] = 0
    out: Annotated[Path, typer.Option(help="Folder for results and report. Finished trials are not repeated.")] = (
        Path("bench-output")
    )
    tune: Annotated[bool, typer.Option("--tune", help="Choose scaling and parameters by cross-validation.")] = False
    quick: Annotated[
        bool, typer.Option("--quick", help="Run a small version on the bundled digits in about a minute.")
    ] = False
    constraints: Annotated[
        int | None, typer.Option(min=2, help="Number of constraints to learn.", show_default="the paper's")
    ] = None
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1, help="Constraints to draw; their closure supplies the others.", show_default="half of them"
        ),
    ] = None
    scaling: Annotated[
        str | None,
        typer.Option(
            help="Scaling of the features: range, standard, unit, centred or none; with --tune, a list A,B,... to "
            "choose from.",
            show_default="none for your own file, else the data set's",
        ),
    ] = None
    pca: Annotated[
        int | None, typer.Option(min=1, help="Reduce the features to this many principal components.")
    ] = None
    k: Annotated[int | None, typer.Option(min=1, help="Neighbours that vote on a class.", show_default="5")] = None
    queries: Annotated[
        int | None, typer.Option(min=1, help="Number of test items, drawn at random.", show_default="all")
    ] = None
    people: Annotated[
        People | None,
        typer.Option(
            help="Whether people in the test fold may occur in training (verification).", show_default="shared"
        ),
    ] = None
    seed: Seed = 0
    folds: Annotated[
        int | None, typer.Option(min=2, help="Folds of the cross-validation (--tune).", show_default="10")
    ] = None
    tune_items: Annotated[
        int | None,
        typer.Option(min=20, help="Maximum number of items for --tune.", show_default="10000"),
    ] = None
    parameters: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="METHOD.NAME=VALUE", help="Set a parameter of a learner. Can be repeated."),
    ] = None

    @property
    def method_names(self) -> list[str] | None:
        """Names of the methods, or None for the default."""
        return None if self.methods is None else [name.strip() for name in self.methods.split(",")]

    @property
    def scalings(self) -> tuple[str, ...]:
        """Scalings that --tune chooses from."""
        return tuple(self.scaling.split(",")) if self.scaling and self.tune else ()

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the protocol that were given, by name."""
        settings: dict[str, Any] = {"seed": self.seed, "pca": self.pca, "k": self.k, "queries": self.queries}
        settings["people"] = None if self.people is None else self.people.value
        settings["n_constraints"] = self.constraints
        settings["n_seeds"] = self.constraints // 2 if self.constraints and self.seeds is None else self.seeds
        settings["scaling"] = None if self.tune else self.scaling
        return {name: value for name, value in settings.items() if value is not None}


def bench(options: BenchOptions) -> None:
    """Compare learners in the experiments of the paper and write a report."""
    from oahu.cli.bench import run

    if not run(console, error_console, options):
        raise typer.Exit(1)
