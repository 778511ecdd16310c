"""`oahu demo`: learn from handwritten digits and show the progress."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from oahu.cli.options import Seed
from oahu.cli.output import console

__all__ = ["DemoOptions", "demo"]


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """Options of `oahu demo`."""

    out: Annotated[
        Path, typer.Option(help="Folder for the trained models and the plot of the learning curves.")
    ] = Path("demo-output")
    triplets: Annotated[int, typer.Option(min=100, help="Number of triplets to learn from.")] = 20_000
    seed: Seed = 0


def demo(options: DemoOptions) -> None:
    """Train AnchoredOAHU and OAHU on handwritten digits, and compare both with the unlearned metric."""
    from oahu.demo import run

    run(console, options.out, options.triplets, options.seed)
