"""oahu from a shell: the demo and the description of a model file."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from typer.testing import CliRunner

import oahu
from oahu.cli import app

runner = CliRunner()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A short demo's folder and output."""
    folder = tmp_path_factory.mktemp("demo")
    result = runner.invoke(app, ["demo", "--out", str(folder), "--triplets", "3000"], catch_exceptions=False)
    assert result.exit_code == 0
    return folder, result.output


def rows(output: str, name: str) -> list[list[str]]:
    return [line.split()[1:] for line in output.splitlines() if line.split()[:1] == [name]]


def test_demo_shows_progress_and_the_weights_of_both_learners(demo: tuple[Path, str]) -> None:
    _, output = demo
    assert "3000/3000 triplets" in output
    assert "weights of OAHU" in output
    assert "weights of AnchoredOAHU" in output
    assert all(output.count(f"E_{level}") == 2 for level in range(6))
    assert "whitened" in output


def test_demo_shows_three_lines(demo: tuple[Path, str]) -> None:
    _, output = demo
    for name in ("unlearned", "OAHU", "AnchoredOAHU"):
        (found, right) = next(row for row in rows(output, name) if row[-1].endswith("%"))
        assert 80 < float(found.rstrip("%")) <= 100
        assert 80 < float(right.rstrip("%")) <= 100


def table(output: str) -> dict[int, list[float]]:
    """The summary, in per cent: of digits found, and of triplets ordered right, three each, by triplets seen."""
    lines = re.findall(r"^ *([\d,]+)((?: +[\d.]+%){6}) *$", output, flags=re.MULTILINE)
    return {int(n.replace(",", "")): [float(x.rstrip("%")) for x in cells.split()] for n, cells in lines}


def test_demo_sums_up_the_stream_from_beginning_to_end(demo: tuple[Path, str]) -> None:
    _, output = demo
    seen = list(table(output))
    assert len(seen) == 9
    assert (seen[0], seen[-1]) == (0, 3_000)
    assert seen == sorted(seen)


def test_demo_does_not_move_what_is_not_learned(demo: tuple[Path, str]) -> None:
    lines = np.array(list(table(demo[1]).values()))
    assert np.ptp(lines[:, [0, 3]], axis=0).tolist() == [0, 0]


def test_demo_learns_to_order_triplets_and_the_anchor_holds(demo: tuple[Path, str]) -> None:
    """Both order triplets better than no learning does; the anchored one starts where that is, and stays nearer."""
    lines = table(demo[1])
    first, last = lines[0], lines[3_000]
    assert min(last[4:]) > last[3] + 2
    assert first[2] == pytest.approx(first[0], abs=0.5)
    assert first[5] == pytest.approx(first[3], abs=1)
    assert last[2] > max(last[:2])


@pytest.mark.parametrize(
    ("name", "kind", "column"), [("digits.oahu", "AnchoredOAHU", 2), ("digits-paper.oahu", "OAHU", 1)]
)
def test_demo_saves_the_learners_that_it_showed(demo: tuple[Path, str], name: str, kind: str, column: int) -> None:
    """Judged again, a file finds what it was shown to find."""
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


def test_demo_says_what_came_out_whichever_way_it_went(demo: tuple[Path, str]) -> None:
    """The closing sentences repeat the table, and count the mistakes of neighbours."""
    folder, output = demo
    said = " ".join(output.split())
    found = re.findall(r"([\d.]+) are right by OAHU, ([\d.]+) by AnchoredOAHU, ([\d.]+) by plain cosine", said)
    paper, anchored, plain = (10 * float(share) for share in found[0])
    assert [plain, paper, anchored] == pytest.approx(table(output)[3_000][:3], abs=0.56)
    X, y = load_digits(return_X_y=True)
    train, test, labels, truth = train_test_split(X / 16.0, y, test_size=0.5, stratify=y, random_state=0)
    metrics = [oahu.load(folder / name).metric() for name in ("digits-paper.oahu", "digits.oahu")]
    right = [
        oahu.Classifier(one, k=5).fit(train, labels).score(test, truth) for one in (*metrics, oahu.CosineMetric(64))
    ]
    wrong = [round(899 * (1 - share)) for share in right]
    assert (
        f"mislabel {wrong[0]} of 899 digits by OAHU, {wrong[1]} by AnchoredOAHU, {wrong[2]} by plain cosine" in said
    )


def test_demo_draws_a_picture_and_says_where_everything_is(demo: tuple[Path, str]) -> None:
    folder, output = demo
    assert (folder / "learning.png").read_bytes().startswith(b"\x89PNG")
    unwrapped = output.replace("\n", "")
    for name in ("learning.png", "digits.oahu", "digits-paper.oahu"):
        assert str(folder / name) in unwrapped


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
def test_info_of_no_model_is_an_error_that_names_the_file(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "broken.oahu"
    if content is not None:
        path.write_bytes(content)
    result = runner.invoke(app, ["info", str(path)])
    assert result.exit_code == 1
    assert "broken.oahu" in result.stderr.replace("\n", "")


def test_version_is_printed() -> None:
    assert runner.invoke(app, ["--version"]).output.strip() == oahu.__version__


@pytest.mark.parametrize("name", ["[/no]", "[bold]a"])
def test_names_that_look_like_markup_are_only_names(tmp_path: Path, name: str) -> None:
    result = runner.invoke(app, ["info", str(tmp_path / name)])
    assert result.exit_code == 1
    assert name in result.stderr.replace("\n", "")
    out = tmp_path / name.replace("/", "")
    done = runner.invoke(app, ["demo", "--out", str(out), "--triplets", "100"], catch_exceptions=False)
    assert str(out) in done.output.replace("\n", "")


def test_demo_without_matplotlib_says_what_to_install_before_it_learns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = runner.invoke(app, ["demo", "--out", str(tmp_path / "out")])
    assert result.exit_code == 1
    assert "pip install 'oahu[plots]'" in result.stderr
    assert not (tmp_path / "out").exists()
