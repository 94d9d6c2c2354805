"""Holds flags of ``vllm serve`` against vLLM's own parser, without starting anything.

    python parse_flags.py MODEL --flag value …

Runs in the environment that holds vLLM. Exits with 0 and the parsed arguments as JSON, or with the
parser's own complaint. What stands in a compose file or a manifest is checked so.
"""

from __future__ import annotations

import json
import sys

from vllm.entrypoints.cli.serve import ServeSubcommand
from vllm.utils.argparse_utils import FlexibleArgumentParser


def parsed(arguments: list[str]) -> dict[str, object]:
    """``arguments`` of ``vllm serve`` as vLLM takes them. SystemExit where it would not start."""
    parser = FlexibleArgumentParser(prog="vllm")
    command = ServeSubcommand()
    command.subparser_init(parser.add_subparsers(required=True, dest="subparser"))
    arguments_given = parser.parse_args(["serve", *arguments])
    command.validate(arguments_given)
    return vars(arguments_given)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(parsed(sys.argv[1:]), default=str) + "\n")
