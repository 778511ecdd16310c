"""The command line as a whole, the demo, and the description of model files."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner

import oahu
from oahu.cli import app
from oahu.demo import _who_leads
from oahu.evaluation.datasets.tiles import tiles
from oahu.evaluation.protocols.click_protocol import ClickProtocol
from oahu.evaluation.protocols.constraint_streams import ConstraintCache
from oahu.evaluation.protocols.methods import as_method
from oahu.evaluation.trials import Trial

runner = CliRunner()


# -- help and completion ---------------------------------------------------------------------------------


def commands(command: Any = None, name: str = "oahu") -> list[tuple[str, Any]]:
    """Return all commands and subcommands with their full names."""
    command = command or get_command(app)
    children = getattr(command, "commands", {})
    below = [entry for key, child in children.items() for entry in commands(child, f"{name} {key}")]
    return [(name, command), *below]


@pytest.mark.parametrize(("name", "command"), commands(), ids=lambda value: value if isinstance(value, str) else "")
def test_every_command_and_option_has_help_that_ends_with_a_full_stop(name: str, command: Any) -> None:
    first_line = (command.help or "").splitlines()[0]
    assert re.fullmatch(r"[A-Z].*\.", first_line), name
    for parameter in command.params:
        if parameter.name not in ("help", "install_completion", "show_completion"):
            assert re.match(r"[A-Z].*\.$", parameter.help or ""), f"{name} {parameter.name}"


def test_help_does_not_import_the_library() -> None:
    code = "import sys, oahu.cli; sys.exit('sklearn' in sys.modules or 'numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.fixture
def bash_home(tmp_path: Path) -> dict[str, str]:
    """Environment with an empty home folder and bash as shell."""
    scripts = tmp_path / "bin"
    scripts.mkdir()
    script = scripts / "oahu"
    script.write_text(f"#!{sys.executable}\nfrom oahu.cli import app\n\napp()\n")
    script.chmod(0o755)
    path = os.pathsep.join([str(scripts), os.environ["PATH"]])
    return os.environ | {
        "HOME": str(tmp_path),
        "SHELL": "/bin/bash",
        "PATH": path,
        "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1",
    }


def test_completion_can_be_installed_and_completes_commands_and_options(bash_home: dict[str, str]) -> None:
    def run(command: list[str], **variables: str) -> str:
        done = subprocess.run(command, env=bash_home | variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(["oahu", "--install-completion", "bash"])
    assert "oahu" in (Path(bash_home["HOME"]) / ".bashrc").read_text()
    script = (
        "source ~/.bashrc; COMP_WORDS=(oahu tra); COMP_CWORD=1; _oahu_completion oahu; echo ${COMPREPLY[*]}; "
        "COMP_WORDS=(oahu train --con); COMP_CWORD=2; _oahu_completion oahu; echo ${COMPREPLY[*]}"
    )
    assert run(["bash", "-c", script]).split() == ["train", "--constraints"]


def test_version_is_printed() -> None:
    assert runner.invoke(app, ["--version"]).output.strip() == oahu.__version__


# -- demo ------------------------------------------------------------------------------------------------

METHODS = ("unlearned", "LEGO", "AnchoredOAHU")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Folder and output of a short demo. The folder's name would be invisible if it were interpreted as markup."""
    folder = tmp_path_factory.mktemp("demo") / "[bold]output"
    result = runner.invoke(
        app, ["demo", "--out", str(folder), "--clicks", "60", "--runs", "1"], catch_exceptions=False
    )
    assert result.exit_code == 0
    return folder, result.output


def table(output: str) -> dict[tuple[str, str], list[int]]:
    """Return the printed scores in per cent by meaning and method: precision by number of clicks, better, worse."""
    lines = re.findall(rf"^ *(?:same \w+)? *({'|'.join(METHODS)})((?: +\d+%)+) *$", output, flags=re.MULTILINE)
    keys = [(meaning, method) for meaning in ("colour", "shape") for method in METHODS]
    assert [method for _, method in keys] == [method for method, _ in lines]
    return {key: [int(x.rstrip("%")) for x in cells.split()] for key, (_, cells) in zip(keys, lines, strict=True)}


def test_demo_shows_its_progress_and_the_numbers_of_clicks(demo: tuple[Path, str]) -> None:
    assert "6/6 trials" in demo[1]
    header = next(line for line in demo[1].splitlines() if "alike means" in line)
    assert header.split()[3:] == ["0", "10", "30", "60", "better", "worse"]


def test_demo_scores_of_the_unlearned_metric_are_constant_and_not_compared(demo: tuple[Path, str]) -> None:
    for meaning in ("colour", "shape"):
        scores = table(demo[1])[meaning, "unlearned"]
        assert scores == scores[:1] * 4


def test_demo_measures_the_learners_before_the_first_click(demo: tuple[Path, str]) -> None:
    """LEGO starts at the Euclidean distance, AnchoredOAHU close to the unlearned metric."""
    for meaning in ("colour", "shape"):
        data = replace(tiles(), y=tiles().labelings[meaning])
        protocol, euclidean = ClickProtocol(), as_method("Euclidean")
        trial = Trial("clicks", data.name, "Euclidean", 0, protocol.settings(data, n_clicks=1))
        expected = protocol.measure(trial, data, euclidean, ConstraintCache()).scores["precision@10"]
        scores = table(demo[1])
        assert scores[meaning, "LEGO"][0] == pytest.approx(100 * expected, abs=0.51)
        assert scores[meaning, "AnchoredOAHU"][0] == pytest.approx(scores[meaning, "unlearned"][0], abs=3)


def test_demo_shows_that_learning_helps_and_rarely_hurts(demo: tuple[Path, str]) -> None:
    for meaning in ("colour", "shape"):
        scores = table(demo[1])
        *_, last, better, worse = scores[meaning, "AnchoredOAHU"]
        assert last > scores[meaning, "unlearned"][0] + 5
        assert better > 3 * worse
    assert scores["colour", "LEGO"][3] > scores["colour", "unlearned"][0] + 15


def test_demo_conclusion_repeats_the_table(demo: tuple[Path, str]) -> None:
    scores, text = table(demo[1]), " ".join(demo[1].split())
    pattern = (
        r"Same (\w+): of ten matches, ([\d.]+) are alike with AnchoredOAHU, ([\d.]+) with LEGO, ([\d.]+) unlearned"
        r"\. AnchoredOAHU makes (\d+)% of the queries worse, LEGO (\d+)%\."
    )
    sentences = re.findall(pattern, text)
    assert [meaning for meaning, *_ in sentences] == ["colour", "shape"]
    for meaning, *numbers in sentences:
        rows = [scores[meaning, method] for method in reversed(METHODS)]
        assert [10 * float(x) for x in numbers[:3]] == pytest.approx([row[3] for row in rows], abs=1.01)
        assert [int(x) for x in numbers[3:]] == [rows[0][-1], rows[1][-1]]


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        ([0.4, 0.4, 0.4, 0.4], "AnchoredOAHU is ahead of LEGO throughout."),
        ([0.9, 0.4, 0.9, 0.4], "LEGO is ahead after 30 clicks."),
        ([0.4, 0.9, 0.9, 0.9], "LEGO is ahead after 10, 30 and 1,000 clicks."),
    ],
)
def test_demo_says_when_lego_is_ahead(peer: list[float], expected: str) -> None:
    """The scores before the first click do not count."""
    assert _who_leads([0, 10, 30, 1_000], [0.5] * 4, peer) == expected


def test_demo_writes_a_picture_and_prints_its_path(demo: tuple[Path, str]) -> None:
    folder, output = demo
    assert (folder / "learning.png").read_bytes().startswith(b"\x89PNG")
    assert str(folder / "learning.png") in output.replace("\n", "")


def test_demo_without_matplotlib_says_what_to_install_before_it_learns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = runner.invoke(app, ["demo", "--out", str(tmp_path / "out")])
    assert result.exit_code == 1
    assert "pip install 'oahu[plots]'" in result.stderr
    assert not (tmp_path / "out").exists()


# -- info ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("learner", "expected"),
    [(oahu.OAHU(random_state=0), "weight of E_5"), (oahu.AnchoredOAHU(random_state=0), "weight of centred cosine")],
    ids=["OAHU", "AnchoredOAHU"],
)
def test_info_describes_a_learner(tmp_path: Path, learner: Any, expected: str) -> None:
    triplets = np.random.default_rng(0).normal(size=(1_200, 3, 4))
    learner.fit(triplets).save(tmp_path / "learner.oahu")
    result = runner.invoke(app, ["info", str(tmp_path / "learner.oahu")])
    assert result.exit_code == 0
    for text in (type(learner).__name__, "1,200", expected, "learning_rate"):
        assert text in result.output


def test_info_describes_a_metric(tmp_path: Path) -> None:
    oahu.OAHU(n_layers=1, random_state=0).initialize(3).metric().save(tmp_path / "metric.oahu")
    result = runner.invoke(app, ["info", str(tmp_path / "metric.oahu")])
    assert result.exit_code == 0
    assert "EnsembleMetric" in result.output


@pytest.mark.parametrize("content", [None, b"not a model"])
def test_info_of_an_invalid_file_is_an_error_that_names_the_file(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "broken.oahu"
    if content is not None:
        path.write_bytes(content)
    result = runner.invoke(app, ["info", str(path)])
    assert result.exit_code == 1
    assert "broken.oahu" in result.stderr.replace("\n", "")


@pytest.mark.parametrize("name", ["[/no]", "[bold]a"])
def test_file_names_are_not_interpreted_as_markup(tmp_path: Path, name: str) -> None:
    result = runner.invoke(app, ["info", str(tmp_path / name)])
    assert result.exit_code == 1
    assert name in result.stderr.replace("\n", "")
