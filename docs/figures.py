"""Measures the code, and writes the table of sizes into docs/architecture.md. `make docs` runs it."""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
PACKAGES = ("app", "containers", "plugins", "pointsman")
HEADINGS = (
    "package", "modules", "lines", "median module", "longest module", "functions", "median function", "longest function"
)  # fmt: skip
LONG_MODULE, LONG_FUNCTION = 300, 40


class Function(NamedTuple):
    """A function or method."""

    name: str
    lines: int
    """Without its docstring and decorators."""


class Module(NamedTuple):
    """A Python file."""

    path: str
    lines: int
    functions: list[Function]


def modules(package: Path) -> Iterator[Module]:
    """The modules of a package, with their functions."""
    for path in sorted(package.rglob("*.py")):
        text = path.read_text()
        nodes = ast.walk(ast.parse(text))
        functions = [_function(node) for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        yield Module(str(path.relative_to(ROOT)), len(text.splitlines()), functions)


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Function:
    first = node.body[0]
    has_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    docstring = (first.end_lineno or 0) - first.lineno + 1 if has_docstring else 0
    return Function(node.name, (node.end_lineno or 0) - node.lineno + 1 - docstring)


def folders() -> list[Path]:
    """The packages, and the rooms of `app`."""
    rooms = [path for path in sorted((ROOT / "app").iterdir()) if (path / "__init__.py").exists()]
    return [ROOT / "app", *rooms, *(ROOT / name for name in PACKAGES[1:])]


def row(folder: Path) -> str:
    """One line of the table."""
    found = list(modules(folder))
    lengths = [module.lines for module in found]
    functions = [function.lines for module in found for function in module.functions] or [0]
    longest = max(found, key=lambda module: module.lines)
    cells = (
        f"`{folder.relative_to(ROOT)}`",
        *(len(found), sum(lengths), f"{statistics.median(lengths):g}"),
        f"{longest.lines} `{Path(longest.path).name}`",
        *(len(functions), f"{statistics.median(functions):g}", max(functions)),
    )
    return f"| {' | '.join(map(str, cells))} |"


def table() -> str:
    """The whole of it, as Markdown."""
    every = [module for name in PACKAGES for module in modules(ROOT / name)]
    long_modules = [f"`{module.path}` ({module.lines})" for module in every if module.lines > LONG_MODULE]
    long_functions = [
        f"`{function.name}` in `{module.path}` ({function.lines})"
        for module in every
        for function in module.functions
        if function.lines > LONG_FUNCTION
    ]
    lines = [
        f"| {' | '.join(HEADINGS)} |",
        f"|{'---|' * len(HEADINGS)}",
        *map(row, folders()),
        "",
        f"Modules over {LONG_MODULE} lines: {', '.join(long_modules) or 'none'}.",
        f"Functions over {LONG_FUNCTION} lines, docstrings not counted: {', '.join(long_functions) or 'none'}.",
    ]
    return "\n".join(lines)


def main() -> None:
    """Rewrites the table."""
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}")


if __name__ == "__main__":
    main()
