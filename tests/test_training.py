"""Training on streams: results, interruptions and errors."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

import oahu
from oahu import Click, Pair, StreamError, Triplet
from oahu.cli import app
from oahu.io.features import FeatureTable
from oahu.io.streams import StreamLine, read_stream
from oahu.training import StreamPosition, Trainer, file_batches, live_batches

runner = CliRunner()
rng = np.random.default_rng(0)
N_LINES = 1600  # more than a batch
TABLE = rng.normal(size=(40, 5)).astype(np.float32)
INDICES = rng.integers(0, 40, (N_LINES, 3))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a feature table and triplets of row numbers."""
    monkeypatch.chdir(tmp_path)
    np.save("items.npy", TABLE)
    oahu.write_stream("feedback.jsonl", (Triplet(*row) for row in INDICES.tolist()))
    return tmp_path


def train(*arguments: str, stdin: str | None = None) -> Any:
    return runner.invoke(app, ["train", *arguments], input=stdin)


def trained(model: str, *arguments: str, stdin: str | None = None) -> Any:
    """Train; return the learner in the model file."""
    result = train("--model", model, *arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return oahu.load(model)


ALL = ("--features", "items.npy", "--constraints", "feedback.jsonl")

#: Parameters of the expected learners. The feature table of a stream is the background of AnchoredOAHU.
PARAMETERS: dict[str, dict[str, Any]] = {"OPML": {"gamma": 1e-4}, "AnchoredOAHU": {"background": TABLE}}


# -- results ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", oahu.learners.LEARNERS)
def test_training_equals_partial_fit(folder: Path, name: str) -> None:
    given = ("--learner", name, "--set", "dtype=float64") + (("--set", "gamma=0.0001") if name == "OPML" else ())
    trained("model", *ALL, *given)
    learner = getattr(oahu, name)(random_state=0, dtype="float64", **PARAMETERS.get(name, {}))
    learner.partial_fit(TABLE[INDICES])
    learner.save("expected")
    again = oahu.load("model")
    again.save("plain")  # without the position
    assert same_bytes("plain", "expected")


def test_constraints_with_values_need_no_features(folder: Path) -> None:
    oahu.write_stream("values.jsonl", (Triplet(*row.tolist()) for row in TABLE[INDICES[:50]].astype(float)))
    by_value = trained("values", "--constraints", "values.jsonl", "--learner", "LEGO")
    np.testing.assert_array_equal(by_value.matrix_, oahu.LEGO().partial_fit(TABLE[INDICES[:50]]).matrix_)


def test_pairs_and_triplets_may_be_mixed(folder: Path) -> None:
    a, b, c = TABLE[0].tolist(), TABLE[1].tolist(), TABLE[2].tolist()
    lines = [Triplet(0, 1, 2), Pair(3, 4, True), Pair(5, 6, False), Triplet(a, b, c)]
    oahu.write_stream("mixed.jsonl", lines)
    learner = trained("model", "--features", "items.npy", "--constraints", "mixed.jsonl", "--learner", "RDML")
    expected = oahu.RDML().partial_fit(TABLE[[[0, 1, 2]]]).partial_fit(TABLE[[[3, 4], [5, 6]]], [1, -1])
    np.testing.assert_array_equal(learner.matrix_, expected.partial_fit(TABLE[[[0, 1, 2]]]).matrix_)


def test_constraints_may_name_items_by_id(folder: Path) -> None:
    names = np.array([f"item {row}" for row in range(40)])
    np.savez("named.npz", X=TABLE, ids=names)
    oahu.write_stream("named.csv", (Triplet(*names[row].tolist()) for row in INDICES[:50]))
    by_name = trained("model", "--features", "named.npz", "--constraints", "named.csv", "--learner", "OASIS")
    np.testing.assert_array_equal(by_name.matrix_, oahu.OASIS().partial_fit(TABLE[INDICES[:50]]).matrix_)


def test_standard_input_is_read(folder: Path) -> None:
    text = Path("feedback.jsonl").read_text()
    learner = trained("model", "--features", "items.npy", "--constraints", "-", "--learner", "SOML", stdin=text)
    assert learner.n_seen_ == N_LINES


def test_an_empty_stream_writes_no_model(folder: Path) -> None:
    Path("empty.jsonl").touch()
    result = train("--model", "model", "--features", "items.npy", "--constraints", "empty.jsonl")
    assert (result.exit_code, Path("model").exists()) == (0, False)
    assert "Nothing was learned" in result.output


# -- pairs for a learner of triplets ---------------------------------------------------------------------

PAIRS = [Pair(*row, bool(same)) for row, same in zip(INDICES[:, :2].tolist(), INDICES[:, 2] % 2, strict=True)]
PAIR_ARGUMENTS = ("--features", "items.npy", "--constraints", "pairs.jsonl", "--learner", "OASIS")


def joined(pairs: list[Pair]) -> oahu.Triplets:
    """The triplets that pairs of rows are joined into."""
    rows, same = [pair[:2] for pair in pairs], [pair.same for pair in pairs]
    return oahu.Pairs(rows, same, preprocessor=TABLE).triplets()


def test_pairs_are_joined_into_triplets(folder: Path) -> None:
    oahu.write_stream("pairs.jsonl", PAIRS)
    learner = trained("model", *PAIR_ARGUMENTS)
    expected = oahu.OASIS(random_state=0).partial_fit(joined(PAIRS))
    assert learner.n_seen_ == expected.n_seen_ > 500
    np.testing.assert_array_equal(learner.matrix_, expected.matrix_)


def test_pairs_of_values_are_joined_into_triplets(folder: Path) -> None:
    oahu.write_stream("pairs.jsonl", (Pair(TABLE[i], TABLE[j], same) for i, j, same in PAIRS))
    learner = trained("model", "--constraints", "pairs.jsonl", "--learner", "OASIS")
    np.testing.assert_array_equal(learner.matrix_, oahu.OASIS().partial_fit(joined(PAIRS)).matrix_)


def test_pairs_and_triplets_of_one_stream_are_learned_in_order(folder: Path) -> None:
    lines = [Triplet(0, 1, 2), Pair(3, 4, True), Triplet(5, 6, 7), Pair(8, 3, False), Triplet(9, 10, 11)]
    oahu.write_stream("pairs.jsonl", lines)
    learner = trained("model", *PAIR_ARGUMENTS)
    rows = [[0, 1, 2], [5, 6, 7], [3, 4, 8], [9, 10, 11]]
    np.testing.assert_array_equal(learner.matrix_, oahu.OASIS().partial_fit(TABLE[rows]).matrix_)


@pytest.mark.parametrize("n", [50, 1023, 1025, 1599])
def test_joining_pairs_resumes_as_if_it_had_not_been_interrupted(folder: Path, n: int) -> None:
    oahu.write_stream("pairs.jsonl", PAIRS)
    trained("whole", *PAIR_ARGUMENTS)
    oahu.write_stream("pairs.jsonl", PAIRS[:n])
    trained("parts", *PAIR_ARGUMENTS)
    oahu.write_stream("pairs.jsonl", PAIRS)
    trained("parts", *PAIR_ARGUMENTS)
    assert same_bytes("parts", "whole")


def test_the_summary_counts_joined_pairs_and_lists_the_learners_of_pairs(folder: Path) -> None:
    oahu.write_stream("pairs.jsonl", [Pair(0, 1, True), Pair(0, 2, False), Pair(7, 8, True)])
    result = train("--model", "model", *PAIR_ARGUMENTS)
    assert result.exit_code == 0
    assert (
        "OASIS learns from triplets: 1 triplets were formed from 3 pairs. 1 pairs were not used." in result.output
    )
    assert "These learners accept pairs: AnchoredOAHU, LEGO, RDML, POLA, Euclidean, Cosine." in result.output


def test_pairs_that_cannot_be_joined_are_an_error_that_lists_the_learners_of_pairs(folder: Path) -> None:
    oahu.write_stream("pairs.jsonl", [Pair(0, 1, True), Pair(2, 3, False), Pair(4, 5, True)])
    result = train("--model", "model", *PAIR_ARGUMENTS)
    assert result.exit_code == 1
    message = result.output.replace("\n", " ")
    assert "no two of the 3 pairs in pairs.jsonl can be joined into a triplet" in message
    assert "These learners accept pairs: AnchoredOAHU, LEGO, RDML" in message
    assert not Path("model").exists()


# -- clicks ----------------------------------------------------------------------------------------------


def random_click(row: NDArray[np.integer]) -> Click:
    """A click on rows of TABLE with at most two positives and two negatives."""
    generator = np.random.default_rng(row)
    items = generator.permutation(40)[:6].tolist()
    n_positives, n_negatives = generator.integers(0, 3, 2)
    if not n_positives + n_negatives:
        n_positives = 1
    query = items[0] if generator.random() < 0.8 else TABLE[items[0]].astype(float).tolist()
    return Click(query, tuple(items[1 : 1 + n_positives]), tuple(items[3 : 3 + n_negatives]), (items[5],), 0.5)


CLICKS = list(map(random_click, INDICES))
CLICK_ARGUMENTS = ("--features", "items.npy", "--constraints", "clicks.jsonl")


@pytest.mark.parametrize("name", oahu.learners.LEARNERS)
def test_training_on_clicks_equals_partial_fit(folder: Path, name: str) -> None:
    given = ("--set", "gamma=0.0001") if name == "OPML" else ()
    oahu.write_stream("clicks.jsonl", CLICKS[:200])
    trained("model", *CLICK_ARGUMENTS, "--learner", name, *given)
    learner = getattr(oahu, name)(random_state=0, **PARAMETERS.get(name, {}))
    learner.partial_fit(oahu.Clicks(CLICKS[:200], preprocessor=TABLE)).save("expected")
    again = oahu.load("model")
    again.save("plain")  # without the position
    assert same_bytes("plain", "expected")


def test_clicks_may_name_items_by_id(folder: Path) -> None:
    clicks = [click for click in CLICKS[:50] if isinstance(click.query, int)]
    names = [f"item {row}" for row in range(40)]
    np.savez("named.npz", X=TABLE, ids=np.array(names))
    oahu.write_stream(
        "named.csv",
        (Click(names[c.query], *([names[row] for row in part] for part in c[1:4]), c.weight) for c in clicks),
    )
    by_name = trained("model", "--features", "named.npz", "--constraints", "named.csv", "--learner", "OASIS")
    np.testing.assert_array_equal(by_name.matrix_, oahu.OASIS(preprocessor=TABLE).partial_fit(clicks).matrix_)


def test_clicks_with_values_need_no_features(folder: Path) -> None:
    clicks = [Click(TABLE[i].tolist(), [TABLE[j].tolist()], [TABLE[k].tolist()]) for i, j, k in INDICES[:50]]
    oahu.write_stream("values.jsonl", clicks)
    by_value = trained("values", "--constraints", "values.jsonl", "--learner", "LEGO")
    np.testing.assert_array_equal(by_value.matrix_, oahu.LEGO().partial_fit(TABLE[INDICES[:50]]).matrix_)


def test_clicks_pairs_and_triplets_of_one_stream_are_learned_in_order(folder: Path) -> None:
    lines = [Click(0, [1], [2]), Pair(3, 4, True), Click(3, [9]), Click(5, [6], [7]), Pair(8, 3, False)]
    oahu.write_stream("clicks.jsonl", [*lines, Triplet(9, 10, 11)])
    learner = trained("model", *CLICK_ARGUMENTS, "--learner", "OASIS")
    rows = [[0, 1, 2], [5, 6, 7], [3, 4, 8], [9, 10, 11]]
    np.testing.assert_array_equal(learner.matrix_, oahu.OASIS().partial_fit(TABLE[rows]).matrix_)


@pytest.mark.parametrize("name", ["OASIS", "LEGO"])
@pytest.mark.parametrize("n", [50, 1023, 1025, 1599])
def test_training_on_clicks_resumes_as_if_it_had_not_been_interrupted(folder: Path, name: str, n: int) -> None:
    stream = [(CLICKS, PAIRS)[k % 2][k] for k in range(N_LINES)]
    for model, parts in (("whole", [N_LINES]), ("parts", [n, N_LINES])):
        for stop in parts:
            oahu.write_stream("clicks.jsonl", stream[:stop])
            trained(model, *CLICK_ARGUMENTS, "--learner", name)
    assert same_bytes("parts", "whole")


@pytest.mark.parametrize(
    "changed",
    [
        Click(0, (1,), (2,), (3,), 0.5),
        Click(0, (1,), (2,), (4,), 0.25),
        Click(0, (1, 2), (), (4,), 0.5),
        Click(TABLE[0].tolist(), (1,), (2,), (4,), 0.5),
    ],
)
def test_a_changed_click_is_another_stream(folder: Path, changed: Click) -> None:
    learned = Click(0, (1,), (2,), (4,), 0.5)
    oahu.write_stream("clicks.jsonl", [learned])
    trained("model", *CLICK_ARGUMENTS)
    trained("model", *CLICK_ARGUMENTS)
    oahu.write_stream("clicks.jsonl", [changed, learned])
    result = train("--model", "model", *CLICK_ARGUMENTS)
    assert (result.exit_code, "differ from the lines" in result.output) == (1, True)


def test_the_summary_counts_clicks_that_were_not_used(folder: Path) -> None:
    oahu.write_stream("clicks.jsonl", [Click(0, [1], [2]), Click(3, [4]), Click(5, [], [6])])
    for _ in range(2):
        result = train("--model", "model", *CLICK_ARGUMENTS, "--learner", "OASIS")
        message = result.output.replace("\n", " ")
        assert result.exit_code == 0
        assert "3 lines learned" in message
        assert (
            "2 clicks in clicks.jsonl were not used: OASIS needs clicks with at least one positive and" in message
        )
        assert "These learners accept clicks with only positives or negatives: AnchoredOAHU, LEGO" in message
    assert "not used" not in train("--model", "other", *CLICK_ARGUMENTS, "--learner", "LEGO").output


@pytest.mark.parametrize("with_pairs", [False, True])
def test_a_stream_without_usable_clicks_is_an_error(folder: Path, with_pairs: bool) -> None:
    pairs = [Pair(0, 1, True)] if with_pairs else []
    oahu.write_stream("clicks.jsonl", [Click(3, [4]), *pairs, Click(5, [], [6])])
    result = train("--model", "model", *CLICK_ARGUMENTS, "--learner", "OASIS")
    message = result.output.replace("\n", " ")
    assert result.exit_code == 1
    assert "OASIS needs clicks with at least one positive and one negative" in message
    assert ("can be joined into a triplet" in message) == with_pairs
    assert not Path("model").exists()


# -- continuing ------------------------------------------------------------------------------------------


def write_first_lines(n: int) -> None:
    """Write the first n lines of the stream to begun.jsonl."""
    lines = Path("feedback.jsonl").read_text().splitlines(keepends=True)
    Path("begun.jsonl").write_text("".join(lines[:n]))


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 1023, 1024, 1025, N_LINES])
def test_training_continues_after_the_learned_lines(folder: Path, n: int) -> None:
    trained("whole", *ALL)
    write_first_lines(n)
    trained("parts", "--features", "items.npy", "--constraints", "begun.jsonl")
    trained("parts", *ALL)
    assert same_bytes("parts", "whole")


def test_new_lines_learns_all_lines(folder: Path) -> None:
    lines = Path("feedback.jsonl").read_text().splitlines(keepends=True)
    Path("one.jsonl").write_text("".join(lines[:1000]))
    Path("two.jsonl").write_text("".join(lines[1000:]))
    trained("whole", *ALL)
    trained("parts", "--features", "items.npy", "--constraints", "one.jsonl")
    trained("parts", "--features", "items.npy", "--constraints", "two.jsonl", "--new-lines")
    assert lines_in("parts") == N_LINES - 1000  # lines of the second stream
    for name in ("whole", "parts"):
        oahu.load(name).save(name)  # without the position
    assert same_bytes("parts", "whole")


def test_a_second_stream_is_resumed(folder: Path) -> None:
    lines = Path("feedback.jsonl").read_text().splitlines(keepends=True)
    for name, some in (("one", lines[:1000]), ("begun", lines[1000:1300]), ("two", lines[1000:])):
        Path(f"{name}.jsonl").write_text("".join(some))
    trained("whole", *ALL)
    trained("parts", "--features", "items.npy", "--constraints", "one.jsonl")
    trained("parts", "--features", "items.npy", "--constraints", "begun.jsonl", "--new-lines")
    trained("parts", "--features", "items.npy", "--constraints", "two.jsonl")
    for name in ("whole", "parts"):
        oahu.load(name).save(name)
    assert same_bytes("parts", "whole")


def test_reordered_columns_are_another_stream(folder: Path) -> None:
    rows = ["1,2,3", "4,5,6", "7,8,9"]
    Path("a.csv").write_text("\n".join(["anchor,positive,negative", *rows[:2]]))
    Path("b.csv").write_text("\n".join(["anchor,negative,positive", *rows]))
    trained("model", "--features", "items.npy", "--constraints", "a.csv")
    result = train("--model", "model", "--features", "items.npy", "--constraints", "b.csv")
    assert (result.exit_code, "differ from the lines" in result.output) == (1, True)


def test_another_stream_is_rejected_and_the_model_is_unchanged(folder: Path) -> None:
    write_first_lines(1000)
    trained("model", "--features", "items.npy", "--constraints", "begun.jsonl")
    before = Path("model").read_bytes()
    lines = Path("feedback.jsonl").read_text().splitlines(keepends=True)
    Path("other.jsonl").write_text("".join([lines[1], *lines[1:]]))
    result = train("--model", "model", "--features", "items.npy", "--constraints", "other.jsonl")
    assert result.exit_code == 1
    assert "first 1,000 lines of other.jsonl differ from the lines" in result.output.replace("\n", " ")
    assert Path("model").read_bytes() == before


def test_a_shorter_stream_is_rejected(folder: Path) -> None:
    trained("model", *ALL)
    write_first_lines(1000)
    result = train("--model", "model", "--features", "items.npy", "--constraints", "begun.jsonl")
    assert result.exit_code == 1
    output = result.output.replace("\n", " ")
    assert "learned 1,600 lines, but begun.jsonl has only 1,000" in output
    assert "--new-lines" in output


def test_a_model_without_a_position_requires_new_lines(folder: Path) -> None:
    oahu.LEGO(random_state=0).partial_fit(TABLE[INDICES[:9]]).save("model")
    result = train("--model", "model", *ALL)
    assert (result.exit_code, "--new-lines" in result.output) == (1, True)
    assert trained("model", *ALL, "--new-lines").n_seen_ == 2 * (N_LINES + 9)


# -- interruptions ---------------------------------------------------------------------------------------


def started(model: str, constraints: str, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "oahu", "train", "--features", "items.npy", "--constraints", constraints]
    return subprocess.Popen([*command, "--model", model, "--save-every", "0", *arguments], **options)


def lines_in(model: str) -> int:
    """Return the number of lines that the model in a file has learned."""
    position = StreamPosition.of(model) if Path(model).exists() else None
    return position.lines if position else 0


def same_bytes(first: str, second: str) -> bool:
    """Whether two files are equal. A plain ``==`` in an assertion would print a difference of megabytes."""
    return Path(first).read_bytes() == Path(second).read_bytes()


def wait_for(condition: Any) -> None:
    """Wait for a condition. The limit only ends a test that hangs."""
    end = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


@pytest.mark.server
@pytest.mark.parametrize("signals", [[signal.SIGINT, signal.SIGKILL], [signal.SIGTERM]])
def test_interrupted_training_gives_the_same_file(folder: Path, signals: list[signal.Signals]) -> None:
    lines = Path("feedback.jsonl").read_bytes().splitlines(keepends=True)
    trained("whole", *ALL)
    dice, done = random.Random(len(signals)), 0
    for which in signals:
        process = started("parts", "-", stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdin is not None
        upto = done + dice.randint(200, 700)
        process.stdin.writelines(lines[:upto])
        process.stdin.flush()
        wait_for(lambda done=done: lines_in("parts") > done)
        process.send_signal(which)
        _, message = process.communicate(timeout=600)
        assert process.returncode == (-signal.SIGKILL if which == signal.SIGKILL else 130)
        assert (b"Run the same command to continue" in message) == (which != signal.SIGKILL)
        done = lines_in("parts")
        assert 0 < done <= upto
    trained("parts", *ALL)
    assert same_bytes("parts", "whole")


@pytest.mark.server
def test_lines_of_a_pipe_are_learned_as_they_arrive(folder: Path) -> None:
    process = started("model", "-", stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdin is not None
    for n, row in enumerate(INDICES[:3].tolist(), start=1):
        process.stdin.write(json.dumps(row).encode() + b"\n")
        process.stdin.flush()
        wait_for(lambda n=n: lines_in("model") == n)
    process.stdin.close()
    assert process.wait(timeout=600) == 0


# -- errors ----------------------------------------------------------------------------------------------

BAD_LINES: dict[str, tuple[str, str]] = {
    "no JSON": ("maybe", "line 1500: invalid JSON"),
    "an unknown item": ("[1, 2, 40]", "line 1500: The feature table has no item 40"),
    "an unknown item in a pair": ("[1, 40, true]", "line 1500: The feature table has no item 40"),
    "other features": ("[[1.0], [2.0], [3.0]]", "line 1500: X has 1 features"),
    "an unknown item in a click": ('{"query": 1, "positives": [40], "negatives": [2]}', "line 1500: .*no item 40"),
    "an unknown item in an unused click": ('{"query": 1, "positives": [40]}', "line 1500: .*no item 40"),
    "another length": (
        '{"query": [1], "positives": [1], "negatives": [2]}',
        "line 1500: The query of .* has 1 feat",
    ),
    "an item twice in a click": ('{"query": 1, "positives": [1]}', "line 1500: .*the item 1 occurs twice"),
    "an item twice under two ids": ('{"query": 1, "positives": ["1"]}', "line 1500: .*the item 1 occurs twice"),
    "too large": ("[[1e39, 0, 0, 0, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0]]", r"line 1500: .*too large for float32"),
}


@pytest.mark.parametrize(("line", "message"), BAD_LINES.values(), ids=BAD_LINES.keys())
def test_an_invalid_line_is_named_and_the_lines_before_it_are_learned(
    folder: Path, line: str, message: str
) -> None:
    lines = Path("feedback.jsonl").read_text().splitlines()
    Path("bad.jsonl").write_text("\n".join([*lines[:1499], line, *lines[1500:]]))
    result = train("--model", "model", "--features", "items.npy", "--constraints", "bad.jsonl")
    assert result.exit_code == 1
    assert re.search(message, result.output.replace("\n", " ")), result.output
    assert lines_in("model") == 1499


def test_training_continues_after_a_line_is_corrected(folder: Path) -> None:
    lines = Path("feedback.jsonl").read_text().splitlines()
    Path("mended.jsonl").write_text("\n".join([*lines[:1499], "oops", *lines[1500:]]))
    assert train("--model", "model", "--features", "items.npy", "--constraints", "mended.jsonl").exit_code == 1
    Path("mended.jsonl").write_text("\n".join(lines))
    trained("model", "--features", "items.npy", "--constraints", "mended.jsonl")
    trained("whole", *ALL)
    assert same_bytes("model", "whole")


def test_an_invalid_first_line_is_named(folder: Path) -> None:
    Path("bad.jsonl").write_text("nonsense\n")
    result = train("--model", "model", "--features", "items.npy", "--constraints", "bad.jsonl")
    assert (result.exit_code, "bad.jsonl, line 1: invalid JSON" in result.output) == (1, True)


BAD_COMMANDS: dict[str, tuple[tuple[str, ...], str]] = {
    "an unknown learner": (
        (*ALL, "--learner", "ITML"),
        "Unknown learner 'ITML'. Choose one of OAHU, AnchoredOAHU, LEGO",
    ),
    "an unknown parameter": ((*ALL, "--set", "rate=1"), "AnchoredOAHU has no parameter 'rate'. Its parameters are"),
    "the table as a parameter": ((*ALL, "--set", "preprocessor=1"), "has no parameter 'preprocessor'"),
    "the background as a parameter": ((*ALL, "--set", "background=1"), "has no parameter 'background'"),
    "no value": ((*ALL, "--set", "tau"), "NAME=VALUE. Got 'tau'"),
    "a value out of range": (
        (*ALL, "--set", "batch_size=0"),
        "^error: The 'batch_size' parameter of AnchoredOAHU must be an int",
    ),
    "no features": (
        ("--constraints", "feedback.jsonl"),
        r"line 1: The item \d+ is given by id, but there is no feature table",
    ),
    "no such features": (("--features", "none.npy", "--constraints", "feedback.jsonl"), "none.npy"),
    "no such stream": (("--features", "items.npy", "--constraints", "none.jsonl"), "none.jsonl"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD_COMMANDS.values(), ids=BAD_COMMANDS.keys())
def test_an_invalid_command_gives_the_reason_and_writes_no_model(
    folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    result = train("--model", "model", *arguments)
    assert result.exit_code == 1
    assert re.search(message, result.output.replace("\n", " ")), result.output
    assert not Path("model").exists()


def test_a_missing_folder_is_an_error_before_training(folder: Path) -> None:
    result = train("--model", "nowhere/model", *ALL)
    assert (result.exit_code, "the folder" in result.output) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--learner", "LEGO"), "contains an AnchoredOAHU, not a LEGO"),
        (("--set", "n_random=7"), "was trained with n_random=9. Got n_random=7"),
    ],
)
def test_another_learner_or_parameter_is_rejected_when_training_continues(
    folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    trained("model", *ALL, "--set", "n_random=9")
    before = Path("model").read_bytes()
    result = train("--model", "model", *ALL, *arguments)
    assert result.exit_code == 1
    assert message in result.output.replace("\n", " ")
    assert Path("model").read_bytes() == before


def test_the_same_parameters_may_be_given_again(folder: Path) -> None:
    given = ("--learner", "LEGO", "--set", "bounds=[0.5, 2.0]", "--set", "learning_rate=0.2")
    trained("model", *ALL, *given)
    assert trained("model", *ALL, *given).bounds == [0.5, 2.0]


def test_a_metric_cannot_be_trained(folder: Path) -> None:
    oahu.EuclideanMetric(5).save("model")
    result = train("--model", "model", *ALL)
    assert (result.exit_code, "EuclideanMetric, which is not a learner" in result.output) == (1, True)


# -- batches ---------------------------------------------------------------------------------------------


def numbered(n: int) -> Iterator[StreamLine]:
    return (StreamLine(k + 1, Triplet(*INDICES[k].tolist()), str(k).encode()) for k in range(n))


@pytest.mark.parametrize("n", [0, 1, 1024, 1025, 1600])
def test_batches_are_the_lines_in_order(n: int) -> None:
    batches = list(file_batches(numbered(n)))
    assert [line.number for batch in batches for line in batch] == list(range(1, n + 1))
    assert all(0 < len(batch) <= 1024 for batch in batches)


@pytest.mark.parametrize("n", [0, 1, 1024, 1600])
def test_live_batches_are_the_lines_in_order(n: int) -> None:
    lines = [line for batch in live_batches(iter(list(numbered(n)) * 3), lambda: False) for line in batch]
    assert [line.number for line in lines] == list(range(1, n + 1)) * 3


def test_live_batches_end_when_stop_returns_true() -> None:
    never = threading.Event()

    def silent() -> Iterator[StreamLine]:
        never.wait()
        yield from ()

    assert list(live_batches(silent(), lambda: True)) == []
    never.set()


def test_an_error_follows_the_lines_before_it() -> None:
    def broken() -> Iterator[StreamLine]:
        yield from numbered(3)
        raise StreamError("no", "here", 4)

    for batches in (file_batches(broken()), live_batches(broken(), lambda: False)):
        learned = []
        with pytest.raises(StreamError, match="here, line 4"):
            learned.extend(line.number for batch in batches for line in batch)
        assert learned == [1, 2, 3]


def test_a_live_stream_is_read_ahead_by_a_bounded_number_of_lines() -> None:
    taken = []

    def endless() -> Iterator[StreamLine]:
        for k in range(100_000):
            taken.append(k)
            yield StreamLine(k, Triplet(0, 1, 2), b"")

    consumed = 0
    for batch in islice(live_batches(endless(), lambda: False), 20):
        consumed += len(batch)
        assert len(taken) <= consumed + 4096 + 1


def test_saving_without_changes_does_not_write_the_file(folder: Path) -> None:
    trainer = Trainer(oahu.LEGO(), Path("model"), "here", FeatureTable(TABLE), save_every=0)
    trainer.learn(list(read_stream("feedback.jsonl"))[:10])
    written = Path("model").stat().st_mtime_ns
    trainer.save()
    assert Path("model").stat().st_mtime_ns == written
