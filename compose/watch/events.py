"""The file system's word that something changed. It only wakes: what changed is looked for, since notices get lost (on
network shares all those of other machines are)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from watchfiles import Change, awatch

from compose.watch.folder import Ignored

CHECK_MS = 2_000  # the folder may have been replaced, or a disk mounted over it
ABSENT_SECONDS = 1.0
NO_NOTICE_SECONDS = 300.0  # trying again goes through all folders, and has everything looked at
DEBOUNCE_MS, STEP_MS = 1_000, 100


async def wake_on_changes(root: Path, ignored: Ignored, wake: asyncio.Event, tell: Callable[[str], None]) -> None:
    """Set ``wake`` whenever something changes below ``root``, until cancelled; the folder may go and come back."""
    told = False
    while True:
        pause = ABSENT_SECONDS
        try:
            await _follow(root, ignored, wake)
        except FileNotFoundError:  # it went away, or one in it, while it was gone through
            pass
        except (OSError, RuntimeError) as error:  # e.g. the system's limit of watched folders
            if await asyncio.to_thread(_identity, root) is not None:
                pause = NO_NOTICE_SECONDS
                if not told:
                    tell(f"The system gives no notice of changes in {root} ({error}). It is looked at now and then.")
                told = True
        await asyncio.sleep(pause)


async def _follow(root: Path, ignored: Ignored, wake: asyncio.Event) -> None:
    """Until the folder is another one, or gone."""

    def counts(_: Change, path: str) -> bool:
        return path == str(root) or not ignored(os.path.relpath(path, root).replace(os.sep, "/"))

    armed = await asyncio.to_thread(_identity, root)
    if armed is None:
        return
    wake.set()  # for what happened before anybody listened
    changes = awatch(
        root, watch_filter=counts, debounce=DEBOUNCE_MS, step=STEP_MS, rust_timeout=CHECK_MS, yield_on_timeout=True,
        ignore_permission_denied=True,
    )  # fmt: skip
    async for change in changes:
        if change:
            wake.set()
        if await asyncio.to_thread(_identity, root) != armed:
            wake.set()
            return


def _identity(root: Path) -> tuple[int, int] | None:
    try:
        found = root.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
