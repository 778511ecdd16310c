"""A running service, a browser, and small collections of real digits to look at."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright
from sklearn.datasets import load_digits

from oahu import Client
from oahu.service.images import encode_png
from oahu.service.keys import KeyFile

PATIENCE = 30_000  # milliseconds that something may take on a busy machine
MOVES = {"learner": "OAHU", "parameters": {"learning_rate": 0.3, "beta": 0.5}}  # at once, and visibly
N_ITEMS = 60
CALM = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"}

expect.set_options(timeout=PATIENCE)
_numbers = itertools.count()


# -- services ------------------------------------------------------------------------------------------------


@contextmanager
def _serving(data: Path, gently: bool = False) -> Iterator[str]:
    """The address of a service in a process of its own, which is told to stop or, if not ``gently``, is killed."""
    script = Path(__file__).with_name("page_server.py")
    with subprocess.Popen([sys.executable, str(script), str(data)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert address, "the service did not start"
            yield address
        finally:
            process.terminate() if gently else process.kill()
    assert not gently or process.returncode == 0


@pytest.fixture(scope="session")
def serving() -> Any:
    """Runs a service with its data in a folder."""
    return _serving


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service that everyone may use."""
    with _serving(tmp_path_factory.mktemp("page")) as found:
        yield found


@dataclass
class Locked:
    """A service that asks for keys."""

    address: str
    keys: KeyFile
    admin: str

    def key(self, role: Any) -> str:
        """A new key, when the service has taken notice of it."""
        token = self.keys.add(f"a {role}", role)
        with httpx.Client(base_url=self.address, headers={"Authorization": f"Bearer {token}"}) as http:
            while http.get("/v1/collections").status_code == 401:
                pass
        return token

    def remove(self, token: str) -> None:
        self.keys.revoke(token.split("_")[1])


@pytest.fixture(scope="session")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Locked]:
    """A service that asks for keys."""
    data = tmp_path_factory.mktemp("locked")
    keys = KeyFile(data)
    admin = keys.add("the admin", "admin")
    with _serving(data) as found:
        yield Locked(found, keys, admin)


# -- collections ---------------------------------------------------------------------------------------------


@dataclass
class Digits:
    """A collection of handwritten digits: keys d-00 ... d-59."""

    client: Client
    keys: list[str]
    labels: list[str]

    @property
    def name(self) -> str:
        assert self.client.name is not None
        return self.client.name

    def like(self, key: str) -> list[str]:
        """The others with the same label."""
        label = self.labels[self.keys.index(key)]
        return [other for other, one in zip(self.keys, self.labels, strict=True) if one == label and other != key]

    def unlike(self, key: str) -> list[str]:
        """Those with another label."""
        return [other for other in self.keys if other != key and other not in self.like(key)]


def _digits(client: Client, **config: Any) -> Digits:
    images, labels = load_digits(return_X_y=True)
    rows = (images[:N_ITEMS] / 16).astype(np.float32)
    found = Digits(client, [f"d-{at:02d}" for at in range(N_ITEMS)], [str(label) for label in labels[:N_ITEMS]])
    pictures = [encode_png(np.kron(255 - 255 * row.reshape(8, 8), np.ones((8, 8)))) for row in rows]
    client.create(dimension=64, **{**MOVES, **config})
    client.put(found.keys, rows, found.labels, [{"number": at} for at in range(N_ITEMS)], pictures)
    return found


@pytest.fixture
def digits(address: str) -> Iterator[Digits]:
    """A collection whose metric moves at once."""
    with Client(address, f"digits-{next(_numbers)}") as client:
        yield _digits(client)


@pytest.fixture
def anchored(address: str) -> Iterator[Digits]:
    """A collection with the learner that collections have if nothing else is said."""
    with Client(address, f"anchored-{next(_numbers)}") as client:
        yield _digits(client, learner="AnchoredOAHU", parameters={})


@pytest.fixture
def locked_digits(locked: Locked) -> Iterator[Digits]:
    """A collection of the service that asks for keys."""
    with Client(locked.address, f"digits-{next(_numbers)}", locked.admin) as client:
        yield _digits(client)


@pytest.fixture
def empty(address: str) -> Iterator[Callable[..., Client]]:
    """Makes collections without items."""
    made: list[Client] = []

    def make(dimension: int, **config: Any) -> Client:
        made.append(Client(address, f"empty-{next(_numbers)}"))
        return made[-1].create(dimension, **config)

    yield make
    for client in made:
        client.close()


# -- browsers ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")  # not longer: while it is there, no other test of the process can run an event loop
def browser() -> Iterator[Browser]:
    """Debian's Chromium."""
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next((found for name in names if (found := shutil.which(name))), None)
    if path is None:
        missing = "the page is tested in Chromium: apt-get install chromium"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Look:
    """A browser window that looks at a service."""

    page: Page
    address: str
    problems: list[str] = field(default_factory=list)  # that scripts had
    requests: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(PATIENCE)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", lambda said: said.type == "error" and self.problems.append(said.text))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("websocket", lambda socket: self.requests.append(socket.url))

    def go(self, path: str = "/") -> None:
        self.page.goto(self.address + path)

    def at(self, name: str, **asked: str) -> None:
        """Look at a collection, until it is to be seen."""
        self.go(f"/collections/{name}?{urlencode(asked)}")
        self.page.wait_for_function("window.did_handshake === true")
        expect(self.page.locator(".workspace")).to_be_visible()

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that the page alone does not tell."""
        end = time.monotonic() + PATIENCE / 1_000
        while not condition():
            assert time.monotonic() < end, "it did not happen"
            self.page.wait_for_timeout(50)

    def results(self) -> list[str]:
        """The keys of the results, in order."""
        return self._keys(".tiles.results")

    def gallery(self) -> list[str]:
        """The keys in the gallery, in order."""
        return self._keys(".tiles.catalogue")

    def _keys(self, where: str) -> list[str]:
        expect(self.page.locator(f"{where} .tile").first).to_be_visible()
        found: list[str] = self.page.eval_on_selector_all(
            f"{where} > .tile:not(.tile-leave-active)", "all => all.map(one => one.dataset.key)"
        )
        return found

    def tile(self, key: str) -> Locator:
        """The tile of a key that is to be seen."""
        return self.page.locator(f".tile[data-key={json.dumps(key, ensure_ascii=False)}]:visible")

    def mark(self, key: str, kind: str) -> None:
        """Mark a result as alike or unlike, until it is."""
        button = self.tile(key).locator(f".mark.{kind}")
        button.click()
        expect(button).to_have_attribute("aria-pressed", "true")

    def dial(self, which: str) -> Locator:
        """What a dial of the metric shows."""
        return self.page.locator(f".metric [data-number={which}]")

    def weights(self) -> list[str]:
        """What the chart says the weights are."""
        return self.page.locator(".bars .weight").all_text_contents()

    def entry(self, seq: int) -> Locator:
        """A line of the log."""
        return self.page.locator(f".log li[data-seq='{seq}']")

    def log_in(self, token: str) -> None:
        self.page.fill("#key", token)
        self.page.click("button[type=submit]")


@pytest.fixture(scope="module")
def visitor(browser: Browser) -> Iterator[BrowserContext]:
    """One visitor, who has the page's scripts already."""
    context = browser.new_context(**CALM)
    yield context
    context.close()


@pytest.fixture
def look(visitor: BrowserContext, address: str) -> Iterator[Look]:
    """A window of theirs at the service that everyone may use."""
    page = visitor.new_page()
    yield Look(page, address)
    page.close()


@pytest.fixture
def window(browser: Browser) -> Iterator[Callable[..., Look]]:
    """Opens windows, each of another visitor."""
    opened = []

    def open_(address: str, **options: Any) -> Look:
        context = browser.new_context(**{**CALM, **options})
        opened.append(context)
        return Look(context.new_page(), address)

    yield open_
    for context in opened:
        context.close()
