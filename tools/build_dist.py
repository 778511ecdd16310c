"""Build wheel and sdist, install each in an empty environment outside the checkout, and run a smoke test."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"

SMOKE_TEST = """
from importlib.metadata import version
from pathlib import Path

import numpy as np
import oahu

assert version("oahu") == oahu.__version__
assert "site-packages" in oahu.__file__, oahu.__file__
items = np.random.default_rng(0).normal(size=(60, 8))
labels = np.arange(60) % 3
learner = oahu.AnchoredOAHU(preprocessor=items, random_state=0)
learner.partial_fit(oahu.sample_triplets(labels, 200, random_state=0))
learner.save("model.oahu")
metric = oahu.load("model.oahu").metric()
matches = oahu.Retriever(metric).add(range(60), items).search(items[0], k=5, exclude=0)
assert len(matches) == 5 and metric.version == 200
np.savez("items.npz", X=items, y=labels)
oahu.write_stream("feedback.jsonl", [oahu.Triplet(0, 3, 1), oahu.Triplet(1, 4, 2)])
"""
COMMANDS = (
    ("--version",),
    ("info", "model.oahu"),
    ("search", "--model", "model.oahu", "--features", "items.npz", "--query", "0"),
    ("train", "--features", "items.npz", "--constraints", "feedback.jsonl", "--model", "trained.oahu"),
)


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    subprocess.run([str(word) for word in command], cwd=cwd, check=True)


def build(folder: Path) -> list[Path]:
    """Build into ``dist/`` with a fresh environment, and return the wheel and the sdist."""
    shutil.rmtree(DIST, ignore_errors=True)
    python = environment(folder / "build")
    run(python, "-m", "pip", "install", "--quiet", "build")
    run(python, "-m", "build", "--outdir", DIST, ROOT)
    return sorted(DIST.iterdir())


def environment(folder: Path) -> Path:
    """Create an empty environment and return its interpreter."""
    venv.create(folder, with_pip=True)
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def test(archive: Path, folder: Path) -> None:
    """Install an archive in an empty environment, and run the smoke test in another folder."""
    folder.mkdir()
    python = environment(folder / "env")
    run(python, "-m", "pip", "install", "--quiet", archive)
    run(python, "-I", "-c", SMOKE_TEST, cwd=folder)
    for command in COMMANDS:
        run(python, "-I", "-m", "oahu", *command, cwd=folder)
    shutil.rmtree(folder)


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        archives = build(folder)
        for archive in archives:
            test(archive, folder / archive.suffix.removeprefix("."))
            sys.stdout.write(f"{archive.relative_to(ROOT)}: installed and tested\n")


if __name__ == "__main__":
    main()
