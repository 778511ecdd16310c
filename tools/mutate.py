"""Mutation test: change one place of src at a time, run its tests, and count the changes that no test detects.

    python tools/mutate.py --places 300 --seed 1 --out mutation.json
    python tools/mutate.py --report mutation.json

A place is a comparison, an operator, a number, True or False, a `not`, an `if` condition or a `raise`. The seed
determines the random choice of places. Each change is made in a copy of the project. The tests of the changed file
run first, then those of its package.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).resolve().parents[1]

_SWAPS: dict[type[ast.AST], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not",
    ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in", ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*",
    ast.FloorDiv: "*", ast.Mod: "*", ast.And: "or", ast.Or: "and",
}  # fmt: skip

#: Packages whose tests are not in the folder of the same name, or not only there.
_MORE_TESTS = {
    "learners": ["tests/checks"],
    "metrics": ["tests/checks"],
    "constraints": ["tests/checks/test_bad_input.py"],
}


@dataclass(frozen=True)
class Place:
    """One change of one file: the text from ``begin`` to ``end`` becomes ``text``."""

    file: str
    line: int
    begin: int
    end: int
    text: str
    kind: str


@dataclass
class Outcome:
    place: Place
    killed: bool
    by: str  # the test that failed, or an empty text


# -- places ------------------------------------------------------------------------------------------------


def places_of(path: Path) -> Iterator[Place]:
    """Yield all places of a file that can be changed."""
    source = path.read_text()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    encoded = source.encode()
    name = str(path.relative_to(ROOT))

    def span(node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

    def operator(left: ast.expr, right: ast.expr, new: str, kind: str) -> Iterator[Place]:
        begin, end = span(left)[1], span(right)[0]
        between = encoded[begin:end].decode()
        if "#" in between or not between.strip("() \n\\"):
            return
        opening = len(between) - len(between.lstrip(") \n\\"))
        closing = len(between) - len(between.rstrip("( \n\\"))
        text = f"{between[:opening]} {new} {between[len(between) - closing :]}"
        yield Place(name, left.lineno, begin, end, text, kind)

    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from operator(node.left, node.comparators[0], _SWAPS[type(node.ops[0])], "comparison")
        elif isinstance(node, ast.BinOp) and type(node.op) in _SWAPS and not _is_text(node):
            yield from operator(node.left, node.right, _SWAPS[type(node.op)], "arithmetic")
        elif isinstance(node, ast.BoolOp):
            yield from operator(node.values[0], node.values[1], _SWAPS[type(node.op)], "boolean")
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
            value = (not node.value) if isinstance(node.value, bool) else node.value + 1
            yield Place(name, node.lineno, *span(node), repr(value), "constant")
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            operand = encoded[slice(*span(node.operand))].decode()
            yield Place(name, node.lineno, *span(node), f"bool({operand})", "not")
        elif isinstance(node, ast.If):
            yield Place(name, node.lineno, *span(node.test), "False", "condition")
        elif isinstance(node, ast.Raise):
            yield Place(name, node.lineno, *span(node), "pass", "raise")


def _is_text(node: ast.BinOp) -> bool:
    """Return whether an operator joins texts, where a change would only cause a type error."""
    sides = (node.left, node.right)
    return any(
        isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in sides
    )


def draw(count: int, seed: int, folders: list[str]) -> list[Place]:
    """Return places drawn at random from all files."""
    files = sorted(
        path
        for path in (ROOT / "src" / "oahu").rglob("*.py")
        if not folders or any(f in str(path) for f in folders)
    )
    found = [place for path in files for place in places_of(path)]
    return random.Random(seed).sample(found, min(count, len(found)))


# -- tests -------------------------------------------------------------------------------------------------


def tests_of(file: str) -> list[list[str]]:
    """Return the tests of a file in two stages: its own tests, then those of its package."""
    parts = Path(file).relative_to("src/oahu").with_suffix("").parts
    folder = Path("tests", *parts[:-1])
    while not (ROOT / folder).is_dir():
        folder = folder.parent
    own = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob(f"test_{parts[-1].strip('_')}.py")]
    package = (
        [str(folder)]
        if folder != Path("tests")
        else [str(path.relative_to(ROOT)) for path in (ROOT / "tests").glob("test_*.py")]
    )
    wider = [*package, *_MORE_TESTS.get(parts[0], []), file]
    if len(parts) > 2:
        wider.append(str(Path("tests", parts[0])))
    return [own, wider] if own else [wider]


def try_place(place: Place, copy: Path, seconds: float) -> Outcome:
    """Change a file in a copy of the project, run its tests, and return the outcome."""
    path = copy / place.file
    original = path.read_bytes()
    path.write_bytes(original[: place.begin] + place.text.encode() + original[place.end :])
    try:
        for stage in tests_of(place.file):
            killer = failing_test(copy, stage, seconds)
            if killer:
                return Outcome(place, True, killer)
        return Outcome(place, False, "")
    finally:
        path.write_bytes(original)


def failing_test(copy: Path, tests: list[str], seconds: float) -> str:
    """Return the first test that fails, "time-out" if they take too long, or an empty text."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "-m",
        "not browser and not server",
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "NUMBA_CACHE_DIR": str(copy / "numba"),
    }
    try:
        done = subprocess.run(
            [*command, *tests], cwd=copy, env=environment, capture_output=True, text=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return "time-out"
    if done.returncode in (0, 5):  # 5: there is no such test
        return ""
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0].split(" - ")[0] if lines else "collection"


def run(places: list[Place], workers: int, seconds: float) -> list[Outcome]:
    """Try all places. Each worker has its own copy of the project."""
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        copies: Queue[Path] = Queue()
        for worker in range(workers):
            copy = Path(folder, str(worker))
            ignored = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis")
            shutil.copytree(ROOT, copy, ignore=ignored)
            copies.put(copy)

        def one(place: Place) -> Outcome:
            copy = copies.get()
            try:
                outcome = try_place(place, copy, seconds)
            finally:
                copies.put(copy)
            mark = "killed  " if outcome.killed else "SURVIVED"
            print(
                f"{mark} {place.file}:{place.line} {place.kind} -> {place.text.strip()!r} {outcome.by}", flush=True
            )
            return outcome

        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(one, places))


# -- report ------------------------------------------------------------------------------------------------


def report(outcomes: list[Outcome]) -> str:
    """Return a Markdown table of changes and detected changes by package."""
    packages: dict[str, list[bool]] = defaultdict(list)
    for outcome in outcomes:
        parts = Path(outcome.place.file).parts
        packages[parts[2] if len(parts) > 3 else "(top)"].append(outcome.killed)
    rows = [(name, len(killed), sum(killed)) for name, killed in sorted(packages.items())]
    rows.append(("all", sum(row[1] for row in rows), sum(row[2] for row in rows)))
    lines = ["| package | places | detected | share |", "|---|---|---|---|"]
    lines += [f"| {name} | {n} | {killed} | {killed / n:.0%} |" for name, n, killed in rows]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--places", type=int, default=300, help="number of places to change")
    parser.add_argument("--seed", type=int, default=1, help="random seed")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="number of parallel test runs")
    parser.add_argument("--seconds", type=float, default=300.0, help="time limit of one run of tests")
    parser.add_argument("--only", action="append", default=[], help="only files with this text in their path")
    parser.add_argument("--out", type=Path, default=Path("mutation.json"), help="file for the outcomes")
    parser.add_argument("--report", type=Path, help="print the table of an earlier run")
    options = parser.parse_args()
    if options.report:
        stored = json.loads(options.report.read_text())
        outcomes = [Outcome(Place(**row["place"]), row["killed"], row["by"]) for row in stored]
    else:
        outcomes = run(draw(options.places, options.seed, options.only), options.workers, options.seconds)
        options.out.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    print(report(outcomes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
