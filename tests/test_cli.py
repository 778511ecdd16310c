"""The command line as a whole, the demo, and the description of model files."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from typer.main import get_command
from typer.testing import CliRunner

import oahu
from oahu.cli import app

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


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Folder and output of a short demo. The folder's name would be invisible if it were interpreted as markup."""
    folder = tmp_path_factory.mktemp("demo") / "[bold]output"
    result = runner.invoke(app, ["demo", "--out", str(folder), "--triplets", "3000"], catch_exceptions=False)
    assert result.exit_code == 0
    return folder, result.output


def rows(output: str, name: str) -> list[list[str]]:
    return [line.split()[1:] for line in output.splitlines() if line.split()[:1] == [name]]


@pytest.mark.slow
def test_demo_shows_progress_and_the_weights_of_both_learners(demo: tuple[Path, str]) -> None:
    _, output = demo
    assert "3000/3000 triplets" in output
    assert "weights of OAHU" in output
    assert "weights of AnchoredOAHU" in output
    assert all(output.count(f"E_{level}") == 2 for level in range(6))
    assert "whitened" in output


def test_demo_shows_the_scores_of_three_metrics(demo: tuple[Path, str]) -> None:
    _, output = demo
    for name in ("AnchoredOAHU", "OAHU", "unlearned"):
        (precision, triplets) = next(row for row in rows(output, name) if row[-1].endswith("%"))
        assert 80 < float(precision.rstrip("%")) <= 100
        assert 80 < float(triplets.rstrip("%")) <= 100


def table(output: str) -> dict[int, list[float]]:
    """Return the summary by number of triplets: precision and triplet accuracy in per cent, three metrics each."""
    lines = re.findall(r"^ *([\d,]+)((?: +[\d.]+%){6}) *$", output, flags=re.MULTILINE)
    return {int(n.replace(",", "")): [float(x.rstrip("%")) for x in cells.split()] for n, cells in lines}


def test_demo_summary_covers_the_whole_stream(demo: tuple[Path, str]) -> None:
    _, output = demo
    steps = list(table(output))
    assert len(steps) == 9
    assert (steps[0], steps[-1]) == (0, 3_000)
    assert steps == sorted(steps)


def test_demo_scores_of_the_unlearned_metric_are_constant(demo: tuple[Path, str]) -> None:
    lines = np.array(list(table(demo[1]).values()))
    assert np.ptp(lines[:, [2, 5]], axis=0).tolist() == [0, 0]


def test_demo_shows_that_learning_helps(demo: tuple[Path, str]) -> None:
    """Both learners order triplets better than the unlearned metric, and AnchoredOAHU starts at its scores."""
    lines = table(demo[1])
    first, last = lines[0], lines[3_000]
    assert min(last[3:5]) > last[5] + 2
    assert first[0] == pytest.approx(first[2], abs=0.5)
    assert first[3] == pytest.approx(first[5], abs=1)
    assert last[0] > max(last[1:3]) + 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind", "column"), [("digits.oahu", "AnchoredOAHU", 0), ("digits-paper.oahu", "OAHU", 1)]
)
def test_demo_saves_the_learners_that_it_showed(demo: tuple[Path, str], name: str, kind: str, column: int) -> None:
    """A search with the saved learner has the precision that the demo printed."""
    folder, output = demo
    learner = oahu.load(folder / name)
    assert type(learner) is getattr(oahu, kind)
    assert learner.n_seen_ == 3_000
    assert np.ptp(learner.metric_weights_) > 0.05
    X, y = load_digits(return_X_y=True)
    _, test, _, truth = train_test_split(X / 16.0, y, test_size=0.5, stratify=y, random_state=0)
    retriever = oahu.Retriever(learner.metric()).add(range(len(test)), test)
    same = [truth[match.key] == digit for at, digit in enumerate(truth) for match in retriever.similar_to(at, k=10)]
    assert 100 * np.mean(same) == pytest.approx(table(output)[3_000][column], abs=0.06)


def test_demo_conclusion_repeats_the_table_and_counts_classification_errors(demo: tuple[Path, str]) -> None:
    folder, output = demo
    text = " ".join(output.split())
    pattern = (
        r"([\d.]+) show the same digit with AnchoredOAHU, ([\d.]+) with OAHU, ([\d.]+) with the unlearned metric"
    )
    matches = [10 * float(share) for share in re.findall(pattern, text)[0]]
    assert matches == pytest.approx(table(output)[3_000][:3], abs=0.56)
    X, y = load_digits(return_X_y=True)
    train, test, labels, truth = train_test_split(X / 16.0, y, test_size=0.5, stratify=y, random_state=0)
    metrics = [oahu.load(folder / name).metric() for name in ("digits.oahu", "digits-paper.oahu")]
    scores = [
        oahu.Classifier(metric, k=5).fit(train, labels).score(test, truth)
        for metric in (*metrics, oahu.CosineMetric(64))
    ]
    wrong = [round(899 * (1 - score)) for score in scores]
    sentence = f"misclassify {wrong[0]} of 899 digits with AnchoredOAHU, {wrong[1]} with OAHU, {wrong[2]} with the"
    assert f"{sentence} unlearned metric." in text


def test_demo_writes_a_picture_and_prints_all_paths(demo: tuple[Path, str]) -> None:
    folder, output = demo
    assert (folder / "learning.png").read_bytes().startswith(b"\x89PNG")
    unwrapped = output.replace("\n", "")
    for name in ("learning.png", "digits.oahu", "digits-paper.oahu"):
        assert str(folder / name) in unwrapped


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
    ("name", "expected"), [("digits-paper.oahu", ["OAHU"]), ("digits.oahu", ["AnchoredOAHU", "weight of whitened"])]
)
def test_info_describes_a_learner(demo: tuple[Path, str], name: str, expected: list[str]) -> None:
    result = runner.invoke(app, ["info", str(demo[0] / name)])
    assert result.exit_code == 0
    for text in (*expected, "3,000", "weight of E_5", "learning_rate"):
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
