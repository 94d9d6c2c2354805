"""What reading leaves in memory: the index grows with the documents, the process around it does not."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

from assistant.core.domain import Access
from assistant.core.ports import Upload
from assistant.core.settings import load_settings
from compose.standalone import Perito, open_perito

ALL = Access("ana", None)
KEPT = 8  # blocks of Python's allocator a document: one small object kept of each is more


async def take_in(perito: Perito, folder: Path, numbers: range) -> int:
    """Read that many notes to their end; the blocks of memory that Python then holds."""
    for number in numbers:
        path = folder / f"note {number}.txt"
        said = f"Note {number}. The rent of flat {number} is {900 + number} euros a month. "
        path.write_text(said * (100 if number < 2 else 1), "utf-8")  # long ones are cut by a library that loads late
        await perito.worker.submit(Upload(path, path.name, "legal"), ALL)
        path.unlink()
    await perito.worker.drain()
    gc.collect()
    return sys.getallocatedblocks()


async def test_documents_that_were_read_leave_nothing_behind_in_the_process(tmp_path: Path) -> None:
    async with open_perito(load_settings()) as perito:
        before = await take_in(perito, tmp_path, range(60))  # and all that is made once
        after = await take_in(perito, tmp_path, range(60, 260))
        assert len(perito.catalogue.documents(ALL)) == 260
    assert (after - before) / 200 < KEPT
