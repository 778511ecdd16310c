"""Tests execute the code of the README, the tutorial and the guides, and check the links."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import oahu
from oahu.cli import app

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
TUTORIAL = DOCS / "tutorial.md"
PAGES = [
    path for path in sorted(DOCS.rglob("*.md")) if path.relative_to(DOCS).parts[0] not in ("_build", "reference")
]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def run_examples(page: Path) -> dict[str, Any]:
    """Execute the Python examples of a page from top to bottom, and return their variables."""
    names: dict[str, Any] = {}
    for example in blocks(page, "python"):
        exec(compile(example, page.name, "exec"), names)
    return names


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# -- README ----------------------------------------------------------------------------------------------


def test_readme_has_at_most_100_lines() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 100


def test_readme_example_finds_the_same_digit(capsys: pytest.CaptureFixture[str]) -> None:
    names = run_examples(README)
    assert isinstance(names["learner"], oahu.AnchoredOAHU)
    assert names["learner"].n_seen_ == 2
    digits = [int(digit) for digit in re.findall(r"\d+", re.sub(r"int\d+", "", capsys.readouterr().out))]
    assert digits == [names["y"][0]] * 10


# -- tutorial --------------------------------------------------------------------------------------------


def test_tutorial_examples_and_commands_run(capsys: pytest.CaptureFixture[str]) -> None:
    names = run_examples(TUTORIAL)
    assert names["again"].n_seen_ == 5_200
    output = capsys.readouterr().out
    assert "\n5100\n" in output
    (expected,) = blocks(TUTORIAL, "text")
    printed = next(line for line in output.splitlines() if line.startswith("triplets ordered correctly"))
    shares = [[float(share) for share in re.findall(r"\d\.\d+", text)] for text in (printed, expected)]
    assert shares[0] == pytest.approx(shares[1], abs=0.01)
    commands = [line for block in blocks(TUTORIAL, "bash") for line in block.splitlines()]
    for line in commands:
        words = shlex.split(line, comments=True)
        if words[0] == "oahu" and words[1] != "serve":
            result = CliRunner().invoke(app, words[1:], catch_exceptions=False)
            assert result.exit_code == 0, result.output


# -- guides ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", ["streams.md", "guides/evaluation.md"])
def test_page_examples_run(page: str) -> None:
    assert blocks(DOCS / page, "python")
    run_examples(DOCS / page)


def test_tasks_page_examples_have_the_results_they_state(capsys: pytest.CaptureFixture[str]) -> None:
    names = run_examples(DOCS / "guides" / "tasks.md")
    assert names["classifier"].score(names["queries"], names["truth"]) > 0.9
    assert names["comparator"].auc(names["tested"]) > 0.9
    assert names["recall"][8] > names["recall"][1] > 0.9
    assert "\n5000 -> 6000\n" in capsys.readouterr().out


def test_tasks_page_commands_run(tmp_path: Path) -> None:
    page = DOCS / "guides" / "tasks.md"
    run_examples(page)
    (shell,) = blocks(page, "bash")
    for line in shell.splitlines():
        assert CliRunner().invoke(app, line.split()[1:], catch_exceptions=False).exit_code == 0
    assert (tmp_path / "like-12.png").read_bytes().startswith(b"\x89PNG")


def test_evaluation_page_commands_are_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands on data sets that are not downloaded are parsed, and fail with the name of the data set."""
    monkeypatch.setenv("OAHU_DATA_HOME", str(tmp_path / "sets"))
    shell = "".join(blocks(DOCS / "guides" / "evaluation.md", "bash"))
    lines = [line.partition("#")[0].split()[1:] for line in shell.splitlines()]
    assert len(lines) >= 9
    for words in lines:
        if "--dataset" in words:
            result = CliRunner().invoke(app, words)
            assert result.exit_code == 1
            assert words[words.index("--dataset") + 1].partition(":")[0] in result.output
        elif "get" not in words:
            result = CliRunner().invoke(app, words, catch_exceptions=False)
            assert result.exit_code == 0, result.output
    assert (tmp_path / "bench-output" / "report.html").is_file()


# -- all pages -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda page: page.name)
def test_local_links_exist(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8"))
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (page.parent / link).exists()] == []


def test_glossary_has_at_most_40_terms_without_duplicates() -> None:
    (glossary,) = blocks(DOCS / "glossary.md", "{glossary}")
    terms = [line.lower() for line in glossary.splitlines() if line and not line.startswith(" ")]
    assert len(set(terms)) == len(terms) <= 40
