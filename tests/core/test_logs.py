"""Logging as an entry point sets it up, in a process of its own: it changes the whole of it."""

from __future__ import annotations

import re
import subprocess
import sys

SET_UP = """
import logging, warnings
from assistant.core.logs import configure_logs
configure_logs("INFO")
"""


def said(code: str, level: str = "INFO") -> list[str]:
    """The lines on standard error after logs were configured (twice) and ``code`` ran."""
    run = subprocess.run(
        [sys.executable, "-c", f"{SET_UP}configure_logs('{level}')\n{code}"], capture_output=True, text=True, check=True
    )
    assert run.stdout == ""
    return run.stderr.splitlines()


def test_a_record_is_one_line_however_often_logs_are_configured() -> None:
    (line,) = said("logging.getLogger('ingestion.worker').info('%s is read', 'a\\nERROR forged\\r.pdf')")
    assert re.fullmatch(r"\d\d:\d\d:\d\d INFO    ingestion\.worker: a\\nERROR forged\\n\.pdf is read", line)


def test_a_traceback_keeps_its_lines() -> None:
    lines = said("try:\n    1 / 0\nexcept ZeroDivisionError:\n    logging.exception('page 3')")
    assert lines[0].endswith("ERROR   root: page 3")
    assert lines[-1] == "ZeroDivisionError: division by zero"


def test_libraries_speak_from_warning_up_even_when_we_debug() -> None:
    code = """
for name in ("httpx", "assistant"):
    for say in ("debug", "info", "warning"):
        getattr(logging.getLogger(name), say)(say)
"""
    assert [line.split(" ", 1)[1] for line in said(code, "DEBUG")] == [
        "WARNING httpx: warning",
        "DEBUG   assistant: debug",
        "INFO    assistant: info",
        "WARNING assistant: warning",
    ]


def test_where_only_errors_are_wanted_libraries_do_not_warn() -> None:
    code = """
for name in ("httpx", "assistant"):
    logging.getLogger(name).warning("w")
    logging.getLogger(name).error("e")
"""
    assert [line.split(" ", 1)[1] for line in said(code, "ERROR")] == ["ERROR   httpx: e", "ERROR   assistant: e"]


def test_warnings_are_logged_once() -> None:
    lines = said("for _ in range(3):\n    warnings.warn('odd')")
    assert sum("UserWarning: odd" in line for line in lines) == 1


def test_what_a_library_asks_of_its_authors_is_shown_only_when_we_debug() -> None:
    code = "warnings.warn('old', DeprecationWarning)"
    assert said(code) == []
    assert "DeprecationWarning: old" in said(code, "DEBUG")[0]
