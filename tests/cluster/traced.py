"""``perito worker``, the real command, that notes in a file which pages it reads and keeps:
``python -m tests.cluster.traced FILE``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from compose import cli, standalone
from tests.cluster.notes import Notes, watch_pages


def main() -> None:
    notes, build = Notes(Path(sys.argv.pop())), standalone.build_worker

    def build_and_watch(*arguments: Any, **named: Any) -> Any:
        worker = build(*arguments, **named)
        watch_pages(worker, notes)
        return worker

    standalone.build_worker = build_and_watch
    sys.argv = ["perito", "worker"]
    cli.main()


if __name__ == "__main__":
    main()
