"""Holds flags of ``vllm serve`` against vLLM's own parser, without starting anything.

    python parse_flags.py MODEL --flag value …        one command: exits with 0 and its arguments as JSON,
                                                      or with the parser's own complaint
    python parse_flags.py < '[["MODEL", "--flag"], …]'   many: [{"parsed": …} or {"error": …}, …]

Runs in the environment that holds vLLM. What stands in a compose file or a manifest is checked so.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys

from vllm.entrypoints.cli.serve import ServeSubcommand
from vllm.utils.argparse_utils import FlexibleArgumentParser


def parsed(arguments: list[str]) -> dict[str, object]:
    """``arguments`` of ``vllm serve`` as vLLM takes them. SystemExit where it would not start."""
    parser = FlexibleArgumentParser(prog="vllm")
    command = ServeSubcommand()
    command.subparser_init(parser.add_subparsers(required=True, dest="subparser"))
    taken = parser.parse_args(["serve", *arguments])
    command.validate(taken)
    return vars(taken)


def judged(arguments: list[str]) -> dict[str, object]:
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return {"parsed": parsed(arguments)}
    except SystemExit:
        return {"error": complaint.getvalue()}
    except (TypeError, ValueError) as error:
        return {"error": str(error)}


if __name__ == "__main__":
    result = parsed(sys.argv[1:]) if sys.argv[1:] else [judged(command) for command in json.load(sys.stdin)]
    sys.stdout.write(json.dumps(result, default=str) + "\n")
