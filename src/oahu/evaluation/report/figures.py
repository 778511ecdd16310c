"""Figures of a report, written as PNG and SVG files. This module needs matplotlib (the extra ``plots``)."""

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
    """A figure of the report that has been written to files.

    Attributes
    ----------
    name, caption : str
        Name and caption of the figure.
    stem : Path
        Path of the two files without their suffixes .png and .svg.
    experiment : str
        Slug of the experiment that the figure shows.
    """

    name: str
    caption: str
    stem: Path
    experiment: str


def draw_all(
    record: BenchmarkRecord, folder: Path, datasets: Mapping[str, Dataset] | None = None
) -> list[ReportFigure]:
    """Write the figures of all experiments to a folder. Figures of examples show the images in ``datasets``."""
    by_name = datasets or {}
    drawn: list[ReportFigure] = []
    for protocol in PROTOCOL_NAMES:
        for experiment in experiments(record, protocol):
            drawn += draw_experiment(experiment, folder, by_name.get(experiment.dataset))
    return drawn


def draw_experiment(experiment: Experiment, folder: Path, dataset: Dataset | None = None) -> list[ReportFigure]:
    """Write the figures of one experiment to a folder, and return them."""
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
