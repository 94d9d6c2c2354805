"""Run benchmarks: ``python -m eval.bench [name…] [--json FILE] [--markdown FILE] [--documents DIR]``."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import sys
from collections.abc import Sequence
from pathlib import Path

import eval.bench
from eval.bench.table import Table

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "docs"


def default_documents() -> Path:
    """The shared documents: beside the checkout, or where PERITO_DOCUMENTS says."""
    return Path(os.environ.get("PERITO_DOCUMENTS", SHARED))


def figures() -> list[str]:
    """The names of all figures: the modules of this package that measure something."""
    names = [module.name for module in pkgutil.iter_modules(eval.bench.__path__)]
    return sorted(name for name in names if name not in ("table", "__main__") and not name.startswith("_"))


def run(names: Sequence[str], documents: Path) -> list[Table]:
    """Run the figures named (all when none is), printing each as soon as it is there."""
    tables: list[Table] = []
    for name in names or figures():
        table: Table = importlib.import_module(f"eval.bench.{name}").run(documents)
        table.print()
        sys.stdout.flush()
        tables.append(table)
    return tables


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 0 done, 2 wrong use."""
    parser = argparse.ArgumentParser(prog="python -m eval.bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"figures to measure: {', '.join(figures())}")
    parser.add_argument("--json", type=Path, help="also write the tables to this file")
    parser.add_argument("--markdown", type=Path, help="also write them as Markdown")
    parser.add_argument("--documents", type=Path, default=default_documents(), help="real documents")
    given = parser.parse_args(arguments)
    if unknown := sorted(set(given.names) - set(figures())):
        parser.error(f"no such figure: {', '.join(unknown)}; there are {', '.join(figures())}")
    if not given.documents.is_dir():
        parser.error(f"no documents in {given.documents}; name their folder with --documents")
    tables = run(given.names, given.documents)
    if given.json:
        given.json.write_text(json.dumps([table.as_json() for table in tables], indent=2), "utf-8")
    if given.markdown:
        given.markdown.write_text("\n".join(table.as_markdown() for table in tables), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
