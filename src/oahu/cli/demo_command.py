"""`oahu demo`: learn from simulated clicks and compare two learners with the unlearned metric."""

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

    out: Annotated[Path, typer.Option(help="Folder for the picture learning.png.")] = Path("demo-output")
    clicks: Annotated[int, typer.Option(min=10, help="Number of clicks to learn from.")] = 300
    noise: Annotated[float, typer.Option(min=0.0, max=0.5, help="Share of wrong marks.")] = 0.1
    runs: Annotated[int, typer.Option(min=1, help="Number of runs. The scores are their means.")] = 10
    seed: Seed = 0


def demo(options: DemoOptions) -> None:
    """Let two groups of simulated users click, and compare AnchoredOAHU, LEGO and the unlearned metric."""
    from oahu.demo import run

    run(console, options.out, options.clicks, options.noise, options.runs, options.seed)
