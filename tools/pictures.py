"""Draw the pictures of the README: python tools/pictures.py [learning] [service].

``learning`` runs `oahu demo`. ``service`` runs `oahu serve --demo`, adds feedback, and takes a screenshot
with Chromium. The other pictures are written by `benchmarks/anchored.py` and `oahu bench constraints`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import oahu

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
QUERY = "digits-00008"


def draw_learning() -> None:
    """Draw the learning curves of the demo."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "oahu", "demo", "--out", folder], check=True)
        shutil.copy(Path(folder) / "learning.png", IMAGES / "learning.png")


def draw_service() -> None:
    """Take a screenshot of the search page after 400 triplets of feedback."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "service.log"
        command = [sys.executable, "-m", "oahu", "serve", "--demo", "--port", "0", "--data", f"{folder}/data"]
        with log.open("w") as file:
            process = subprocess.Popen(command, stderr=file)
        try:
            address = wait_for_address(process, log)
            give_feedback(oahu.Client(address, "digits"))
            take_screenshot(address)
        finally:
            process.terminate()
            process.wait()


def wait_for_address(process: subprocess.Popen[bytes], log: Path) -> str:
    """Wait until the service logs its address."""
    while process.poll() is None:
        if found := re.search(r"listens at (http://[\d.]+:\d+)", log.read_text()):
            return found[1]
        time.sleep(0.1)
    raise RuntimeError(f"The service has not started: {log.read_text()}")


def give_feedback(client: oahu.Client) -> None:
    """Add triplets that follow from the labels, and mark two matches of the query as similar."""
    from sklearn.datasets import load_digits

    labels = load_digits().target
    names = [f"digits-{row:05}" for row in range(len(labels))]
    triplets = oahu.sample_triplets(labels, 400, random_state=0)
    client.feedback(oahu.Triplet(*(names[row] for row in triplet)) for triplet in triplets)
    matches = [match["key"] for match in client.search(QUERY, k=20)["matches"]]
    same = [key for key in matches if labels[int(key[-5:])] == labels[int(QUERY[-5:])]]
    client.feedback(query=QUERY, positive=same[:2])
    while client.describe()["candidates"]["constraints_behind"] > 0:  # wait until the index uses the latest metric
        time.sleep(0.1)


def take_screenshot(address: str) -> None:
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 860}, device_scale_factor=1.25)
        page.goto(f"{address}/collections/digits?like={QUERY}")
        page.locator(".badge").first.wait_for()
        page.wait_for_function("[...document.images].every(image => image.complete)")
        page.screenshot(path=IMAGES / "service.png")
        browser.close()


PICTURES = {"learning": draw_learning, "service": draw_service}

if __name__ == "__main__":
    for name in sys.argv[1:] or PICTURES:
        PICTURES[name]()
