"""Mutation test: change one place of src at a time, run its tests, and count the changes that no test detects.

    make coverage                                   # records which tests execute which lines, in .coverage
    python tools/mutate.py --places 300 --seed 1 --out mutation.jsonl
    python tools/mutate.py --report mutation.jsonl

A place is a comparison, an operator, a number, True or False, a `not`, an `if` condition or a `raise`. A seed
decides which places are drawn. Each change is made in a copy of the project. Only tests that execute the changed
line run. Compiled code leaves no record of its lines: there, the tests of the file or of its folder run. A run that
was interrupted continues if the output file exists.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from queue import Queue
from typing import Any

import coverage

ROOT = Path(__file__).resolve().parents[1]

_SWAPS: dict[type[ast.AST], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not",
    ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in", ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*",
    ast.FloorDiv: "*", ast.Mod: "*", ast.And: "or", ast.Or: "and",
}  # fmt: skip

#: At most this many test functions, and then other cases of theirs, run for one change.
_MAX_FUNCTIONS = 40
_MAX_OTHER_CASES = 15

#: A change may cause an endless loop that allocates memory. This many bytes of address space are allowed.
_MAX_MEMORY = 8 << 30

#: A change may cause tests to wait for each other. They are stopped after this many seconds.
_MAX_WAIT = 600


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
    by: str  # the test that noticed, or an empty text


# -- places ------------------------------------------------------------------------------------------------


def places_of(path: Path) -> Iterator[Place]:
    """All places of a file that can be changed."""
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
    """Whether an operator joins texts or types, where a change is only a type error."""
    sides = (node.left, node.right)
    return any(
        isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in sides
    )


def draw(count: int, seed: int, folders: list[str]) -> list[Place]:
    """Places drawn at random: from each file as many as its share of all places."""
    files = sorted(
        path
        for path in (ROOT / "src" / "oahu").rglob("*.py")
        if not folders or any(f in str(path) for f in folders)
    )
    found = [place for path in files for place in places_of(path)]
    return random.Random(seed).sample(found, min(count, len(found)))


# -- tests -------------------------------------------------------------------------------------------------


class CoverageMap:
    """The tests that execute each line, as recorded by pytest-cov."""

    def __init__(self, path: Path) -> None:
        data = coverage.CoverageData(str(path))
        data.read()
        self._lines: dict[str, dict[int, set[str]]] = {}
        for file in data.measured_files():
            contexts = data.contexts_by_lineno(file)
            name = str(Path("src") / file.split("/src/", 1)[1])
            self._lines[name] = {line: _test_names(of_line) for line, of_line in contexts.items()}

    def tests_of(self, place: Place) -> list[str]:
        """Return the tests of a line; for compiled code, which has no record, those of its file or its folder."""
        lines = self._lines.get(place.file, {})
        tests = lines.get(place.line) or set().union(*lines.values())
        if not tests:
            folder = Path(place.file).parent
            files = [name for name in self._lines if Path(name).parent == folder]
            tests = set().union(*(of_line for name in files for of_line in self._lines[name].values()))
        return sorted(tests)


def _test_names(contexts: list[str]) -> set[str]:
    """Return the tests of coverage contexts such as ``tests/test_a.py::test_b[1]|run``."""
    return {context.rsplit("|", 1)[0] for context in contexts if "|" in context}


def stages(tests: list[str], file: str) -> list[list[str]]:
    """Return two lists of tests: one case of each test function, and a sample of the other cases.

    Tests of the file of the same name come first, then tests of the same package, because they are the most likely
    to fail. Otherwise, the order is random.
    """
    stem, package = Path(file).stem.strip("_"), Path(file).parent.name
    generator = random.Random(0)
    functions: dict[str, list[str]] = defaultdict(list)
    for test in tests:
        functions[test.split("[", 1)[0]].append(test)
    names = sorted(functions)
    generator.shuffle(names)
    names = sorted(names, key=lambda name: (f"test_{stem}.py" not in name, f"/{package}/" not in name))
    names = names[:_MAX_FUNCTIONS]
    first = [generator.choice(functions[name]) for name in names]
    others = sorted({test for name in names for test in functions[name]} - set(first))
    more = generator.sample(others, min(_MAX_OTHER_CASES, len(others)))
    return [stage for stage in (first, more) if stage]


def try_place(place: Place, tests: list[str], copy: Path, seconds: int) -> Outcome:
    """Run the tests of a changed line in a copy of the project."""
    path = copy / place.file
    original = path.read_bytes()
    path.write_bytes(original[: place.begin] + place.text.encode() + original[place.end :])
    try:
        for stage in stages(tests, place.file):
            test = failing_test(copy, stage, seconds)
            if test:
                return Outcome(place, True, test)
        return Outcome(place, False, "" if tests else "no test")
    finally:
        path.write_bytes(original)


def failing_test(copy: Path, tests: list[str], seconds: int) -> str:
    """Return the first test that fails. Return "time-out", "crash", or an empty text if all tests pass."""
    arguments = copy / "tests-to-run.txt"
    arguments.write_text("\n".join(tests))
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", f"@{arguments}"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "NUMBA_CACHE_DIR": str(copy / "numba"),
    }
    options: dict[str, Any] = {"capture_output": True, "text": True, "preexec_fn": partial(_limit, seconds)}
    try:
        done = subprocess.run(command, cwd=copy, env=environment, timeout=_MAX_WAIT, **options)
    except subprocess.TimeoutExpired:
        return "time-out"
    if done.returncode == -signal.SIGXCPU:
        return "time-out"
    if done.returncode in (0, 5):  # 5: there is no such test
        return ""
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0].split(" - ")[0] if lines else "crash"


def _limit(seconds: int) -> None:
    """Limit the memory and processor time of this process. Processor time does not depend on the load."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY, _MAX_MEMORY))


def run(places: list[Place], tests: CoverageMap, workers: int, seconds: int) -> Iterator[Outcome]:
    """Try all places, in as many copies of the project as there are workers."""
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        copies: Queue[Path] = Queue()
        for worker in range(workers):
            copy = Path(folder, str(worker))
            ignored = shutil.ignore_patterns(".git", ".venv*", "__pycache__", ".*_cache", ".hypothesis", "_build")
            shutil.copytree(ROOT, copy, ignore=ignored)
            copies.put(copy)

        def one(place: Place) -> Outcome:
            copy = copies.get()
            try:
                return try_place(place, tests.tests_of(place), copy, seconds)
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(workers) as pool:
            for outcome in pool.map(one, places):
                place, mark = outcome.place, "killed  " if outcome.killed else "SURVIVED"
                print(
                    f"{mark} {place.file}:{place.line} {place.kind} -> {place.text.strip()!r} {outcome.by}",
                    flush=True,
                )
                yield outcome


# -- report ------------------------------------------------------------------------------------------------


def report(outcomes: list[Outcome]) -> str:
    """A Markdown table: changes and those noticed, by package."""
    packages: dict[str, list[bool]] = defaultdict(list)
    for outcome in outcomes:
        parts = Path(outcome.place.file).parts
        packages[parts[2] if len(parts) > 3 else "(top)"].append(outcome.killed)
    rows = [(name, len(killed), sum(killed)) for name, killed in sorted(packages.items())]
    rows.append(("all", sum(row[1] for row in rows), sum(row[2] for row in rows)))
    lines = ["| package | places | noticed | share |", "|---|---|---|---|"]
    lines += [f"| {name} | {n} | {killed} | {killed / n:.0%} |" for name, n, killed in rows]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--places", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=int, default=300, help="processor time of one run of tests")
    parser.add_argument("--only", action="append", default=[], help="only files whose path has this text")
    parser.add_argument("--coverage", type=Path, default=ROOT / ".coverage", help="record of `make coverage`")
    parser.add_argument("--out", type=Path, default=Path("mutation.jsonl"))
    parser.add_argument("--report", type=Path, help="print the table of an earlier run")
    options = parser.parse_args()
    if not options.report:
        earlier = options.out.read_text().splitlines() if options.out.exists() else []
        done = {Place(**json.loads(line)["place"]) for line in earlier}  # an interrupted run continues
        places = [place for place in draw(options.places, options.seed, options.only) if place not in done]
        with options.out.open("a") as out:
            for outcome in run(places, CoverageMap(options.coverage), options.workers, options.seconds):
                print(json.dumps(asdict(outcome)), file=out, flush=True)
    rows = [json.loads(line) for line in (options.report or options.out).read_text().splitlines()]
    outcomes = [Outcome(Place(**row["place"]), row["killed"], row["by"]) for row in rows]
    print(report(outcomes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
