"""Compiled kernels: announced once, the same machine code from disk, and never for other sources."""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numba
import pytest

import oahu
from oahu import jit
from oahu.learners.oasis import _learn

pytestmark = pytest.mark.slow

#: Learns with two types of numbers, so that each kernel is compiled twice. Prints the number of kernels that were
#: loaded from disk and a hash of the models. The log goes to stderr.
SCRIPT = """
import hashlib, logging, sys
import numpy as np
import oahu
from oahu.io import model_files
from oahu.learners import oasis, sors

logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(message)s")
triplets = np.random.default_rng(0).standard_normal((200, 3, 21))
models = [
    model_files.to_bytes(learner(random_state=0, dtype=dtype).partial_fit(triplets))
    for learner in (oahu.OASIS, oahu.SORS)
    for dtype in ("float32", "float64")
]
hits = sum(sum(kernel.stats.cache_hits.values()) for kernel in (oasis._learn, sors._learn))
print(hits, hashlib.sha256(b"".join(models)).hexdigest())
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[SimpleNamespace]:
    """Two processes with one cache, which is empty at first: the number of cache hits, the models, and the log."""
    cache = tmp_path_factory.mktemp("cache")
    package = Path(oahu.__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": str(package), "NUMBA_CACHE_DIR": str(cache)}
    found = []
    for _ in range(2):
        command = [sys.executable, "-c", SCRIPT]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        hits, models = done.stdout.split()
        files = [path.name for path in cache.rglob("*.nbi")]
        found.append(SimpleNamespace(hits=int(hits), models=models, log=done.stderr.splitlines(), files=files))
    return found


def test_the_second_process_loads_the_kernels_of_the_first(runs: list[SimpleNamespace]) -> None:
    assert [run.hits for run in runs] == [0, 4]


def test_compiled_and_loaded_kernels_give_the_same_bits(runs: list[SimpleNamespace]) -> None:
    assert runs[0].models == runs[1].models


def test_the_first_compilation_of_a_kernel_is_logged_once(runs: list[SimpleNamespace]) -> None:
    announced = [line for line in runs[0].log if line.startswith("compiling ")]
    assert len(announced) == len(set(announced)) == 2
    assert all(line.endswith(" (once; cached on disk) ...") for line in announced)
    assert not [line for line in runs[1].log if line.startswith("compiling ")]


def test_the_name_in_the_cache_includes_the_fingerprint(runs: list[SimpleNamespace]) -> None:
    source = Path(_learn.py_func.__code__.co_filename)
    assert any(f"_learn_{jit._fingerprint(source)}" in name for name in runs[0].files)


# -- announcements -----------------------------------------------------------------------------------------


@pytest.fixture
def announce(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Announce a kernel, as numba does when it begins to compile it."""
    monkeypatch.setattr(jit, "_announced", set())
    monkeypatch.setattr(jit, "_titles", {"the kernel": "a kernel"})
    event = SimpleNamespace(data={"dispatcher": "the kernel"})
    return lambda: jit._Announcer().on_start(event)


def test_a_terminal_gets_one_line(
    announce: Callable[[], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    announce()
    announce()
    assert capsys.readouterr().err == "oahu: compiling a kernel (once; cached on disk) ...\n"


def test_without_a_terminal_the_log_gets_one_line(
    announce: Callable[[], None], caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.INFO, logger="oahu"):
        announce()
        announce()
    assert caplog.messages == ["compiling a kernel (once; cached on disk) ..."]
    assert capsys.readouterr().err == ""


def test_a_process_without_stderr_logs(
    announce: Callable[[], None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with caplog.at_level(logging.INFO, logger="oahu"):
        announce()
    assert len(caplog.messages) == 1


def test_functions_that_are_no_kernels_are_not_announced(
    announce: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="oahu"):
        jit._Announcer().on_start(SimpleNamespace(data={"dispatcher": "another"}))
    assert caplog.messages == []


# -- compilation -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_pauses_while_a_kernel_is_compiled(
    monkeypatch: pytest.MonkeyPatch, enabled: bool
) -> None:
    monkeypatch.setattr(jit, "_titles", {"the kernel": "a kernel"})
    pause, event = jit._CollectorPause(), SimpleNamespace(data={"dispatcher": "the kernel"})
    another = SimpleNamespace(data={"dispatcher": "another"})
    was_enabled = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        pause.on_start(another)
        assert gc.isenabled() == enabled
        pause.on_start(event)
        assert not gc.isenabled()
        pause.on_end(event)
        pause.on_end(another)
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()


def test_an_inlined_copy_calls_copies_of_the_functions_that_it_calls() -> None:
    copy = jit.inlined_copy(_twice_plus_one)
    assert copy(2.0) == _twice_plus_one(2.0) == 5.0
    assert numba.njit(lambda x: copy(x))(2.0) == 5.0


def _twice(x: float) -> float:
    return 2.0 * x


def _twice_plus_one(x: float) -> float:
    return _twice(x) + 1.0


# -- fingerprints ------------------------------------------------------------------------------------------

KERNEL = "from oahu.part.helpers import double\n\n\ndef run(x):\n    return double(x)\n"
HELPERS = '''"""Helpers."""\n\n\ndef double(x):\n    """Return twice x."""\n    return 2 * x  # exact\n'''


@pytest.fixture
def fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """The fingerprint of a kernel in a package with these sources."""
    package = tmp_path / "oahu"
    (package / "part").mkdir(parents=True)
    (package / "other").mkdir()
    monkeypatch.setattr(jit, "_PACKAGE", package)

    def fingerprint(kernel: str = KERNEL, helpers: str = HELPERS, other: str = "") -> str:
        (package / "part" / "kernel.py").write_text(kernel)
        (package / "part" / "helpers.py").write_text(helpers)
        (package / "other" / "module.py").write_text(other)
        jit._imports.cache_clear()
        jit._code_hash.cache_clear()
        return jit._fingerprint(package / "part" / "kernel.py")

    return fingerprint


@pytest.mark.parametrize(
    "edited",
    [
        HELPERS.replace("Return twice x.", "Return x + x."),
        HELPERS.replace('"""Helpers."""', '"""Functions\n\nthat kernels call."""'),
        HELPERS.replace("# exact", "# without rounding"),
        HELPERS.replace("\n\n\ndef", "\n\n\n\n\n# A comment.\ndef"),
    ],
    ids=["docstring", "module docstring", "comment", "line numbers"],
)
def test_an_edited_docstring_or_comment_keeps_the_fingerprint(fingerprint: Callable[..., str], edited: str) -> None:
    assert edited != HELPERS
    assert fingerprint(helpers=edited) == fingerprint()


@pytest.mark.parametrize(
    "edited",
    [
        HELPERS.replace("2 * x", "3 * x"),
        HELPERS.replace("2 * x", "2 + x"),
        HELPERS.replace("x)", "y)").replace("* x", "* y"),
        HELPERS.replace("2 * x", "abs(x)"),
    ],
    ids=["constant", "operator", "variable", "call"],
)
def test_edited_code_of_a_helper_changes_the_fingerprint(fingerprint: Callable[..., str], edited: str) -> None:
    assert fingerprint(helpers=edited) != fingerprint()


def test_edited_code_of_the_kernel_changes_the_fingerprint(fingerprint: Callable[..., str]) -> None:
    assert fingerprint(kernel=KERNEL.replace("double(x)", "double(double(x))")) != fingerprint()


def test_helpers_of_helpers_count(fingerprint: Callable[..., str], tmp_path: Path) -> None:
    indirect = HELPERS.replace("return 2 * x", "return twice(x)")
    helpers = f"from oahu.part.more import twice\n{indirect}"
    more = tmp_path / "oahu" / "part" / "more.py"
    more.write_text("def twice(x):\n    return 2 * x\n")
    before = fingerprint(helpers=helpers)
    more.write_text("def twice(x):\n    return x + x\n")
    assert fingerprint(helpers=helpers) != before


def test_modules_of_other_packages_do_not_count(fingerprint: Callable[..., str]) -> None:
    kernel = f"from oahu.other.module import name\n{KERNEL}"
    assert fingerprint(kernel=kernel, other="name = 1\n") == fingerprint(kernel=kernel, other="name = 2\n")


def test_an_imported_package_stands_for_its_init_file(fingerprint: Callable[..., str], tmp_path: Path) -> None:
    kernel = "from oahu.part import double\n"
    init = tmp_path / "oahu" / "part" / "__init__.py"
    init.write_text("double = 2\n")
    before = fingerprint(kernel=kernel)
    init.write_text("double = 3\n")
    assert fingerprint(kernel=kernel) != before


def test_the_fingerprint_does_not_depend_on_the_order_of_a_set() -> None:
    code = compile("x in {1, 2}", "", "eval")
    one, other = frozenset([0, 8]), frozenset([8, 0])  # equal hashes in a table of 8: in order of insertion
    assert list(one) != list(other)
    parts = [list(jit._parts_of(code.replace(co_consts=(constant,)))) for constant in (one, other)]
    assert parts[0] == parts[1]
