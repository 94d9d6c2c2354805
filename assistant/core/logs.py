"""Logging: configured once by an entry point, named loggers everywhere else."""

from __future__ import annotations

import logging
import sys
import warnings

NOISY = ("httpx", "httpcore", "openai", "urllib3", "PIL", "paddlex", "ppocr", "RapidOCR", "alembic", "watchfiles")


class OneLine(logging.Formatter):
    """A file's name may hold line breaks, and none may forge a record; a traceback keeps its lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        """The record's line."""
        return "\\n".join(super().formatMessage(record).splitlines())


def configure_logs(level: str = "INFO") -> None:
    """One line a record on standard error; libraries speak from WARNING up. May be called again."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in NOISY:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    logging.captureWarnings(True)
    warnings.simplefilter("once")
    if root.level > logging.DEBUG:  # what a library asks of its authors is nothing to whoever runs us
        warnings.simplefilter("ignore", DeprecationWarning)
