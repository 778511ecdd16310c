"""`oahu info`: print the content of a model file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

import oahu
from oahu.cli.inputs import LoadedModel
from oahu.cli.output import console

__all__ = ["InfoOptions", "info"]


@dataclass(frozen=True, kw_only=True)
class InfoOptions:
    """Options of `oahu info`."""

    model: Annotated[Path, typer.Argument(help="Model file.", show_default=False)]


def info(options: InfoOptions) -> None:
    """Print the class, metric, weights and parameters of a model file."""
    table = Table(show_header=False, box=None)
    for name, value in _describe(LoadedModel.read(options.model)).items():
        table.add_row(name, Text(value))
    console.print(table)


def _describe(model: LoadedModel) -> dict[str, str]:
    """Return the properties of a model file, by name."""
    from oahu.learners.base import Learner
    from oahu.metrics import Metric

    content, metric = model.content, model.metric
    facts = {"class": model.class_name}
    if not isinstance(content, Learner | Metric):
        facts |= {"metric": type(metric).__name__, **_describe_task(content)}
    facts |= {"features": f"{metric.n_features:,}", "constraints learned": f"{metric.version:,}"}
    if isinstance(metric, oahu.EnsembleMetric | oahu.AnchoredMetric):
        spaces = metric.spaces if isinstance(metric, oahu.EnsembleMetric) else metric.weighted_spaces
        facts |= {f"weight of {space.name}": f"{space.weight:.4f}" for space in spaces}
    if isinstance(content, Learner):
        for name in ("utilization", "utilization_similar", "utilization_dissimilar"):
            if hasattr(content, f"{name}_"):
                facts[name.replace("_", " ")] = f"{getattr(content, f'{name}_'):.4f}"
        facts |= {name: str(value) for name, value in content.get_params().items()}
    return facts


def _describe_task(task: Any) -> dict[str, str]:
    """Return the settings of a comparator, or the size of a retriever, by name."""
    if isinstance(task, oahu.Retriever):
        return {"items": f"{len(task):,}"}
    settings = {
        "rule": task.rule,
        "band": task.band,
        "threshold": task.threshold,
        "yes below": getattr(task, "yes_below_", None),
        "no from": getattr(task, "no_from_", None),
    }
    return {name: str(value) for name, value in settings.items() if value is not None}
