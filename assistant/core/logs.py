"""Logging: configured once by an entry point, named loggers everywhere else."""

from __future__ import annotations

import logging
import sys
import warnings

NOISY = ("httpx", "httpcore", "openai", "urllib3", "PIL", "paddlex", "ppocr", "RapidOCR", "alembic", "watchfiles")


def configure_logs(level: str = "INFO") -> None:
    """One line a record on standard error; libraries speak from WARNING up."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in NOISY:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    logging.captureWarnings(True)
    warnings.simplefilter("once")
