"""Options of `oahu bench`. `oahu.cli.bench` runs the benchmark and imports scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from oahu.cli.options import (
    FORMATS,
    ClickQueries,
    Interleaving,
    LabelFile,
    People,
    ProtocolName,
    Seed,
    UnlearnedRanking,
    UserModel,
)
from oahu.cli.output import console, error_console

__all__ = ["BenchOptions", "bench"]


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """Options of `oahu bench`."""

    protocol: Annotated[
        ProtocolName,
        typer.Argument(help="Experiment to run. 'paper' runs all experiments of the paper.", show_default=False),
    ]
    datasets: Annotated[
        list[str] | None,
        typer.Option(
            "--dataset",
            help=f"Name of a data set from `oahu datasets`, or a feature file ({FORMATS}). NAME:LABELS chooses the "
            "labels, for example tiles:colour. Can be repeated.",
            show_default="the data sets of the paper; tiles:colour and tiles:shape for clicks",
        ),
    ] = None
    labels: LabelFile = None
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="Methods to compare: names of learners, Python classes as module:Name, or model files. For clicks "
            "also CentredCosine, Rocchio, LinearAdapter and NUDGE.",
            show_default="all learners except AdaSORS; for clicks also the first three others",
        ),
    ] = None
    reference: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Reference method for the significance tests.", show_default="AnchoredOAHU"
        ),
    ] = None
    runs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of runs. For verification: number of folds.",
            show_default="10; 5 for clicks; 3 for sensitivity; 1 for retrieval and regret",
        ),
    ] = None
    jobs: Annotated[int, typer.Option(min=0, help="Number of parallel processes. 0: one process per core.")] = 0
    out: Annotated[
        Path,
        typer.Option(
            help="Folder for the results and the report. Trials with stored results in this folder are "
            "not repeated."
        ),
    ] = Path("bench-output")
    tune: Annotated[
        bool,
        typer.Option("--tune", help="Choose the scaling and the parameters of each method by cross-validation."),
    ] = False
    quick: Annotated[
        bool, typer.Option("--quick", help="Run a small experiment on the bundled digits. It takes about a minute.")
    ] = False
    constraints: Annotated[
        int | None,
        typer.Option(min=2, help="Number of constraints to learn from.", show_default="10000; 50000 for retrieval"),
    ] = None
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of constraints drawn from labels. The remaining constraints, up to --constraints, are "
            "implied by the drawn ones.",
            show_default="half of --constraints",
        ),
    ] = None
    clicks: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Only for clicks: number of clicks to learn from. Methods are evaluated after 10, 30, 100, ... "
            "clicks.",
            show_default="3000",
        ),
    ] = None
    user: Annotated[
        UserModel | None,
        typer.Option(
            help="Only for clicks: what the simulated user marks. all: every shown item. alike, not-alike: only "
            "these items. cascade: the first alike item. position: item i with probability 1/i.",
            show_default="all",
        ),
    ] = None
    noise: Annotated[
        float | None,
        typer.Option(min=0, max=0.5, help="Only for clicks: probability that a mark is wrong.", show_default="0"),
    ] = None
    careless: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Only for clicks: share of clicks with marks at random.", show_default="0"),
    ] = None
    click_queries: Annotated[
        ClickQueries | None,
        typer.Option(
            help="Only for clicks: whether click queries are items of the catalogue, or held-out items that are "
            "not in it.",
            show_default="catalogue",
        ),
    ] = None
    interleave: Annotated[
        Interleaving | None,
        typer.Option(
            help="Only for clicks: interleave the shown items with the unlearned ranking.", show_default="no"
        ),
    ] = None
    shown: Annotated[
        int | None,
        typer.Option(min=1, help="Only for clicks: number of items that the user is shown.", show_default="10"),
    ] = None
    refresh: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Only for clicks: number of clicks between updates of the ranking.",
            show_default="20",
        ),
    ] = None
    baseline: Annotated[
        UnlearnedRanking | None,
        typer.Option(
            help="Only for clicks: unlearned ranking for --interleave and for the shares of queries made better "
            "and worse.",
            show_default="cosine",
        ),
    ] = None
    scaling: Annotated[
        str | None,
        typer.Option(
            help="Scaling of the features: range, standard, unit, centred or none. With --tune: a list A,B,... of "
            "scalings to try.",
            show_default="'none' for your own file; otherwise the scaling of the data set",
        ),
    ] = None
    pca: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of principal components that replace the features. By default, features are not reduced.",
        ),
    ] = None
    k: Annotated[int | None, typer.Option(min=1, help="Number of nearest neighbours (k).", show_default="5")] = None
    queries: Annotated[
        int | None,
        typer.Option(min=1, help="Number of randomly drawn test items.", show_default="all; 3000 for clicks"),
    ] = None
    people: Annotated[
        People | None,
        typer.Option(
            help="Only for verification of faces: whether people in the test fold may also occur in the training "
            "folds (shared) or not (disjoint).",
            show_default="shared",
        ),
    ] = None
    seed: Seed = 0
    folds: Annotated[
        int | None,
        typer.Option(min=2, help="Number of folds of the cross-validation with --tune.", show_default="10"),
    ] = None
    tune_items: Annotated[
        int | None,
        typer.Option(min=20, help="Maximum number of items that --tune uses.", show_default="10000"),
    ] = None
    parameters: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="METHOD.NAME=VALUE", help="Set a parameter of a learner. Can be repeated."),
    ] = None

    @property
    def method_names(self) -> list[str] | None:
        """Names of the methods, or None for the default methods."""
        return None if self.methods is None else [name.strip() for name in self.methods.split(",")]

    @property
    def scalings(self) -> tuple[str, ...]:
        """Scalings that --tune tries."""
        return tuple(self.scaling.split(",")) if self.scaling and self.tune else ()

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the protocol that the user has set, by name."""
        settings: dict[str, Any] = {"seed": self.seed, "pca": self.pca, "k": self.k, "queries": self.queries}
        settings |= {"n_clicks": self.clicks, "noise": self.noise, "careless": self.careless}
        settings |= {"shown": self.shown, "refresh": self.refresh}
        for name in ("people", "user", "click_queries", "interleave", "baseline"):
            value = getattr(self, name)
            settings[name] = None if value is None else value.value
        settings["n_constraints"] = self.constraints
        settings["n_seeds"] = self.constraints // 2 if self.constraints and self.seeds is None else self.seeds
        settings["scaling"] = None if self.tune else self.scaling
        return {name: value for name, value in settings.items() if value is not None}


def bench(options: BenchOptions) -> None:
    """Compare learners in the experiments of the paper or on simulated clicks, and write a report."""
    from oahu.cli.bench import run

    if not run(console, error_console, options):
        raise typer.Exit(1)
