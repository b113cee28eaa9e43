"""Rewrites the generated files that differ from the code. `make docs` runs it in a checkout."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from app.describing.defaults import updated
from app.describing.description import built_in_types
from app.describing.markdown import page
from app.describing.schema import schema_text
from containers.application import catalogue

ROOT = Path(__file__).parents[1]
DEFAULTS = "config/default.yaml"


def generated() -> Mapping[str, str]:
    """The contents that the generated files should have, by path below the checkout."""
    types = catalogue()
    return {
        "docs/schema.json": schema_text(types),
        "docs/plugins.md": page(built_in_types(types)),
        DEFAULTS: updated((ROOT / DEFAULTS).read_text(encoding="utf-8")),
    }


def main() -> None:
    """Writes the files, and prints which of them changed; then the table of sizes."""
    for name, text in generated().items():
        path = ROOT / name
        if path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"{name}: updated")  # noqa: T201 - a command's output
    subprocess.run([sys.executable, str(ROOT / "docs" / "figures.py")], check=True)  # noqa: S603 - our own script


if __name__ == "__main__":
    main()
