"""Write the package map of CONTRIBUTING.md from the first line of every module's docstring.

python tools/package_map.py            write it
python tools/package_map.py --check    fail if it is out of date
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- package map: make format writes it -->\n", "<!-- end of package map -->\n"


def summary(module: Path) -> str:
    """Return the first line of a module's docstring, without its full stop."""
    text = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0].rstrip(".")


def package_lines(folder: Path, depth: int) -> list[str]:
    """Return a package, its modules and its sub-packages as nested list items."""
    indent = "  " * depth
    init = folder / "__init__.py"
    lines = [f"{indent}- **{folder.name}/**: {summary(init)}" if init.exists() else f"{indent}- **{folder.name}/**"]
    for module in sorted(folder.glob("*.py")):
        if module.name != "__init__.py":
            lines.append(f"{indent}  - `{module.name}`: {summary(module)}")
    for sub in sorted(path for path in folder.iterdir() if (path / "__init__.py").exists()):
        lines += package_lines(sub, depth + 1)
    return lines


def main(check: bool) -> int:
    path = ROOT / "CONTRIBUTING.md"
    text = path.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    new = f"{before}{BEGIN}\n" + "\n".join(package_lines(ROOT / "src" / "oahu", 0)) + f"\n\n{END}{after}"
    if check and new != text:
        print("The package map in CONTRIBUTING.md is out of date. Run: make format")
        return 1
    path.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
