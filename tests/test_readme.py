"""The examples in the documentation do what they say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import oahu
from oahu.cli import app

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_the_first_example_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(blocks(README, "python")[0], "README.md", "exec"), names)
    learner, triplets = names["learner"], names["triplets"]
    assert isinstance(learner, oahu.AnchoredOAHU)
    learner.partial_fit(triplets[4_001:])  # it does go on
    distance, accuracy = map(float, capsys.readouterr().out.split())
    assert 0 < distance < 2
    assert accuracy > 0.9
    assert oahu.load("digits.oahu").n_seen_ == 4_001


def test_the_comparison_prints_the_table_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(blocks(README, "python")[1], "README.md", "exec"), {})
    (table,) = blocks(README, "text")
    printed, shown = (text.splitlines() for text in (capsys.readouterr().out, table))
    assert printed[0] == shown[0]
    assert [row.split()[0] for row in printed[1:]] == list(oahu.LEARNERS)
    for got, expected in zip(printed[1:], shown[1:], strict=True):
        # The last digits are the processor's: a metric's rounding decides which of two neighbours is nearer.
        numbers = [float(number) for number in got.split()[1:]]
        assert numbers == pytest.approx([float(number) for number in expected.split()[1:]], abs=0.03)


def test_the_tasks_example_finds_digits_that_are_alike(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    exec(compile(blocks(README, "python")[2], "README.md", "exec"), names)
    accuracy, answer, *matches = capsys.readouterr().out.splitlines()
    assert float(accuracy) > 0.9
    assert answer.startswith("Comparison(answer='yes'")
    found = names["y"][[int(match.split()[0]) for match in matches]]
    assert len(found) == 5
    assert (found == names["y"][0]).sum() >= 4
    assert names["retriever"].metric.version == 5_100


@pytest.mark.parametrize(
    ("page", "count"), [("streams.md", 2), ("guides/tasks.md", 8), ("guides/evaluation.md", 1)]
)
def test_a_page_runs_from_top_to_bottom(
    page: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    examples = blocks(ROOT / "docs" / page, "python")
    assert len(examples) == count
    for example in examples:
        exec(compile(example, page, "exec"), names)


def test_the_tasks_page_says_what_comes_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for example in blocks(ROOT / "docs" / "guides" / "tasks.md", "python"):
        exec(compile(example, "tasks.md", "exec"), names)
    assert names["classifier"].score(names["queries"], names["truth"]) > 0.9
    assert names["comparator"].auc(names["tested"]) > 0.9
    assert names["recall"][8] > names["recall"][1] > 0.9
    assert capsys.readouterr().out.endswith("5000 -> 6000\n")


def test_the_commands_on_the_tasks_page_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "guides" / "tasks.md"
    examples, (shell,) = blocks(page, "python"), blocks(page, "bash")
    names: dict[str, Any] = {}
    for example in (examples[0], examples[-1]):
        exec(compile(example, "tasks.md", "exec"), names)
    for line in shell.splitlines():
        assert CliRunner().invoke(app, line.split()[1:], catch_exceptions=False).exit_code == 0
    assert (tmp_path / "like-12.png").read_bytes().startswith(b"\x89PNG")


def test_every_command_of_the_evaluation_page_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those on data that is not here are understood up to that."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OAHU_DATA_HOME", str(tmp_path / "sets"))
    shell = "".join(blocks(ROOT / "docs" / "guides" / "evaluation.md", "bash"))
    lines = [line.partition("#")[0].split()[1:] for line in shell.splitlines()]
    assert len(lines) == 9
    for words in lines:
        if "--dataset" in words:
            result = CliRunner().invoke(app, words)
            assert result.exit_code == 1
            assert words[words.index("--dataset") + 1] in result.output
        elif "get" not in words:
            result = CliRunner().invoke(app, words, catch_exceptions=False)
            assert result.exit_code == 0, result.output
    assert (tmp_path / "bench-output" / "report.html").is_file()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8"))
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (page.parent / link).exists()] == []
