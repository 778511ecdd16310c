"""All figures of a report, each as PNG and SVG. Needs matplotlib: the extra ``plots``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from oahu import plots
from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.report.example_sheets import example_sheet
from oahu.evaluation.report.experiments import PROTOCOL_NAMES, Experiment, experiments
from oahu.evaluation.report.protocol_figures import FIGURES
from oahu.evaluation.trials import BenchmarkRecord

__all__ = ["ReportFigure", "draw_all", "draw_experiment"]


@dataclass(frozen=True)
class ReportFigure:
    """A figure that was written.

    Attributes
    ----------
    name, caption : str
    stem : Path
        Path of its files without the endings .png and .svg.
    experiment : str
        The slug of its experiment.
    """

    name: str
    caption: str
    stem: Path
    experiment: str


def draw_all(
    record: BenchmarkRecord, folder: Path, datasets: Mapping[str, Dataset] | None = None
) -> list[ReportFigure]:
    """Write the figures of all experiments into a folder; data sets with images also get example sheets."""
    by_name = datasets or {}
    drawn: list[ReportFigure] = []
    for protocol in PROTOCOL_NAMES:
        for experiment in experiments(record, protocol):
            drawn += draw_experiment(experiment, folder, by_name.get(experiment.dataset))
    return drawn


def draw_experiment(experiment: Experiment, folder: Path, dataset: Dataset | None = None) -> list[ReportFigure]:
    """Write the figures of one experiment."""
    made = [(name, draw(experiment)) for name, draw in FIGURES[experiment.protocol].items()]
    made.append(("examples", example_sheet(experiment, dataset)))
    drawn = []
    for name, result in made:
        if result is not None:
            figure, caption = result
            stem = folder / f"{experiment.slug}-{name}"
            plots.save(figure, stem)
            drawn.append(ReportFigure(stem.name, caption, stem, experiment.slug))
    return drawn
