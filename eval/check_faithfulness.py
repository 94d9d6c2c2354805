"""How often the grounding rule is right: ``python -m eval.check_faithfulness [--documents DIR]``.

``faithfulness_swap`` has questions with their answers, half of them exchanged by rule for another phrase of the
same passage. The rule (``Ground.is_near``) has to tell which: does the answer stand in a sentence about as near to
the question as the nearest? Exchanged answers always stand somewhere in the passage, so a rule that only looks
whether they occur is right in half of the cases.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from assistant.grounding import MARGIN, Ground, flattened
from assistant.matching import text_roots
from eval.bench.__main__ import default_documents
from eval.bench.table import Table


def run(documents: Path) -> Table:
    """Accuracy of the rule by margin; the product's own is marked."""
    file = documents / "datasets" / "faithfulness_swap" / "xquad_swap.open.jsonl"
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    table: list[list[str | float | int]] = []
    for margin in (0.0, 0.05, 0.1, MARGIN, 0.3):
        held = [(stands(row["context"], row["question"], row["answer"], margin), row["label"]) for row in rows]
        right = sum(stood == (label == "supported") for stood, label in held)
        caught = [not stood for stood, label in held if label == "unsupported"]
        doubted = [not stood for stood, label in held if label == "supported"]
        name = f"{margin:g}" + (" (the product's)" if margin == MARGIN else "")
        table.append([name, right / len(rows), sum(caught) / len(caught), sum(doubted) / len(doubted), len(rows)])
    columns = ["margin", "accuracy", "exchanged caught", "right ones doubted", "answers"]
    return Table("faithfulness_swap", "Grounding rule on answers exchanged by rule", columns, table)


def stands(context: str, question: str, answer: str, margin: float) -> bool:
    """Whether ``answer`` stands in ``context`` near what the question is about."""
    wanted, ground = f" {flattened(answer)} ", Ground(context)
    there = wanted in f" {ground.flat} "
    return there and ground.is_near(lambda _, sentence: wanted in sentence, text_roots(question), margin)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m eval.check_faithfulness", description=__doc__)
    parser.add_argument("--documents", type=Path, default=default_documents(), help="folder with datasets/")
    run(parser.parse_args(arguments).documents).print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
