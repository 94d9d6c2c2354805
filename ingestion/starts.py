"""How often a document was begun and never left: one that takes the whole process with it must not do so again at
every start.

Its file cannot, since it is opened in a process of its own (``openfiles``); what is made of it, or what was ended
together with us, still can.

A mark beside the document's file says how many pages were done at its last beginning, and how often it has begun
with no more than those. Whoever leaves the document in order, read or not, removes the mark; a dead process cannot.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from assistant.core.blobs import FolderBlobStore
from assistant.core.errors import DiskFull


class Starts:
    """The marks in a blob store."""

    def __init__(self, blobs: FolderBlobStore) -> None:
        self._blobs = blobs

    def begin(self, document_id: str, blob: str, pages_done: int) -> int:
        """Note a beginning; how many before it were never left and got no page further. NotFound."""
        before, count = self._read(self._blobs.derived(blob, _name(document_id)))
        count = count + 1 if before == pages_done else 1
        with contextlib.suppress(DiskFull):  # uncounted, but what is accepted is read
            self._blobs.put_derived(blob, _name(document_id), f"{pages_done} {count}".encode())
        return count - 1

    def leave(self, document_id: str, blob: str) -> None:
        """Remove the mark."""
        mark = self._blobs.derived(blob, _name(document_id))
        if mark is not None:
            mark.unlink(missing_ok=True)

    def _read(self, mark: Path | None) -> tuple[int, int]:
        with contextlib.suppress(OSError, ValueError):
            if mark is not None:
                pages, count = mark.read_text("ascii").split()
                return int(pages), int(count)
        return 0, 0


def _name(document_id: str) -> str:
    return f"begun-{document_id}"
