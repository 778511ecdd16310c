"""Run a service that refreshes its pages often, with an additional route that makes a learner fail."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from oahu.service.page import collection_page, home_page
from oahu.service.serve import serve
from oahu.service.settings import Settings


def main(data: Path) -> None:
    """Run the service until it is stopped, and write its address to the standard output."""
    collection: Any = collection_page
    home: Any = home_page
    collection._POLL_SECONDS = home._POLL_SECONDS = collection._MAP_SECONDS = 0.1

    def started(address: str, app: Any) -> None:
        def fail(name: str) -> None:
            app.state.service.collection(name).learner.error = RuntimeError("<b>broken</b>")

        app.add_api_route("/fail/{name}", fail, methods=["POST"])
        sys.stdout.write(f"{address}\n")
        sys.stdout.flush()

    serve(Settings(data=data, port=0, refresh_every=0.1, max_collections=1_000), started)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
