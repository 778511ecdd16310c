"""Print the share of statements that tests execute, by package, from the record of `make coverage`.

Compiled functions count as not executed: their lines leave no record.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import coverage


def main() -> None:
    measured = coverage.Coverage()
    measured.load()
    packages: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for file in measured.get_data().measured_files():
        _, statements, _, missing, _ = measured.analysis2(file)
        parts = Path(file.rsplit("/src/oahu/", 1)[1]).parts
        for name in (parts[0] if len(parts) > 1 else "(top)", "all"):
            packages[name][0] += len(statements)
            packages[name][1] += len(statements) - len(missing)
    print("| package | statements | executed |", "|---|---|---|", sep="\n")
    for name, (statements, executed) in sorted(packages.items(), key=lambda item: (item[0] == "all", item[0])):
        print(f"| {name} | {statements} | {executed / statements:.0%} |")


if __name__ == "__main__":
    main()
