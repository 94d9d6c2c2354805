"""What a watched folder holds once it has come to rest: which files are whole, what they say, which are gone.

A file counts when it looked the same for a while, and did so before and after it was read; a file is gone when it was
not seen for as long. A folder that vanished as a whole, or whose disk is not there, has not lost its files.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from assistant.core.errors import TooLarge
from assistant.core.settings import MEGABYTE
from compose.watch.folder import Ignored, Sight, Sign, look_into
from compose.watch.memory import KnownFile

PIECE = 1_000_000


@dataclass(frozen=True, slots=True)
class Found:
    """A file at rest. ``sha256`` is "" for one that is too large to be accepted: it is not even read."""

    sign: Sign
    sha256: str


def too_large(size: int, most_mb: int) -> str:
    """What is said of a file of ``size`` bytes that is not accepted."""
    return str(TooLarge(f"It has {size // MEGABYTE} MB; the limit is {most_mb} MB"))


@dataclass(frozen=True, slots=True)
class Survey:
    """``present``: at rest. ``restless``: new or changed, and not yet at rest. Of the files known: ``missing`` are
    gone, ``fading`` were there a moment ago, ``left`` are not to be touched. ``troubles`` by path. ``away`` says why
    the folder as a whole does not count."""

    present: Mapping[str, Found] = field(default_factory=dict[str, Found])
    restless: Mapping[str, Sign] = field(default_factory=dict[str, Sign])
    missing: frozenset[str] = frozenset()
    fading: frozenset[str] = frozenset()
    left: frozenset[str] = frozenset()
    troubles: Mapping[str, str] = field(default_factory=dict[str, str])
    away: str = ""

    @property
    def settled(self) -> bool:
        """Whether a further look would find the same, if nothing changes."""
        return not self.restless and not self.fading


@dataclass(frozen=True, slots=True)
class Watched:
    """What is watched, and how. ``settle``: seconds for which a file has to look the same. ``may_be_empty``: it may
    lose all its files at once."""

    root: Path
    home: Path
    ignored: Ignored
    settle: float
    may_be_empty: bool = False
    upload_mb: int = 500


class Surveyor:
    """Looks at a folder again and again, and remembers since when things look as they do. For one thread at a time."""

    def __init__(
        self,
        watched: Watched,
        clock: Callable[[], float] = time.monotonic,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._watched = watched
        self._clock = clock
        self._should_stop = should_stop
        self._since: dict[str, tuple[Sign | None, float]] = {}  # None: it was not there
        self._read: dict[str, Found] = {}

    def survey(self, known: Mapping[str, KnownFile]) -> Survey:
        """One look. BadRequest where the folder holds too much."""
        watched = self._watched
        sight = look_into(watched.root, watched.ignored, watched.home)
        if sight is None:
            self._since.clear()
            return Survey(away=f"{watched.root} is not there, or cannot be read. Nothing is removed; it is waited for.")
        if len(known) > 1 and not sight.files and not sight.dark and not watched.may_be_empty:
            return Survey(
                away=f"{watched.root} is empty, where {len(known)} files were: is its disk mounted? Nothing is "
                "removed; it is waited for. If it is meant to be empty, say so with --may-be-empty."
            )
        return self._sorted(sight, known)

    def _sorted(self, sight: Sight, known: Mapping[str, KnownFile]) -> Survey:
        present: dict[str, Found] = {}
        restless: dict[str, Sign] = {}
        troubles = dict(sight.dark)
        for path, sign in sight.files.items():
            before = known.get(path)
            if before is not None and before.sign == sign:
                present[path] = Found(sign, before.sha256)
            elif self._should_stop() or not self._rests(path, sign):
                restless[path] = sign
            else:
                self._take(path, sign, present, restless, troubles)
        gone = [path for path in known if path not in sight.files]
        left = self._left(gone, sight, known, troubles)
        lost = [path for path in gone if path not in left]
        missing = frozenset(path for path in lost if self._rests(path, None))
        new = (path for path, found in present.items() if path not in known or known[path].sign != found.sign)
        self._forget_but({*restless, *lost, *new}, present)
        return Survey(present, restless, missing, frozenset(lost) - missing, left, troubles)

    def _rests(self, path: str, sign: Sign | None) -> bool:
        """Whether a file looks (or is gone) as it did a while ago."""
        before = self._since.get(path)
        if before is None or before[0] != sign:
            self._since[path] = before = (sign, self._clock())
        return self._clock() - before[1] >= self._watched.settle

    def _take(
        self, path: str, sign: Sign, present: dict[str, Found], restless: dict[str, Sign], troubles: dict[str, str]
    ) -> None:
        """Read a file that rests, unless that was done."""
        read = self._read.get(path)
        try:
            found = read if read is not None and read.sign == sign else self._fingerprint(path, sign)
        except OSError as error:
            troubles[path] = error.strerror or str(error)
            return
        if found is None:
            restless[path] = sign
        else:
            present[path] = self._read[path] = found

    def _fingerprint(self, path: str, sign: Sign) -> Found | None:
        """None where it changed while it was read, or the reading was stopped."""
        if sign.size > self._watched.upload_mb * MEGABYTE:
            return Found(sign, "")
        digest = hashlib.sha256()
        with opened(self._watched.root, path) as file:
            while piece := file.read(PIECE):
                if self._should_stop():
                    return None
                digest.update(piece)
            same = sign_of(file) == sign
        return Found(sign, digest.hexdigest()) if same else None

    def _left(
        self, gone: list[str], sight: Sight, known: Mapping[str, KnownFile], troubles: dict[str, str]
    ) -> frozenset[str]:
        """Those of the files ``gone`` that are not lost: ignored by now, out of sight, or on a disk that is away. A
        disk is there where a file that was on it is seen; its number may have changed since. One that has lost all its
        files at once is taken for another, or empty, in its place."""
        here = {file.sign.device for path, file in known.items() if path in sight.files} | {0}
        count = Counter(file.sign.device for file in known.values() if file.sign.device != sight.folders.get(""))
        emptied = {device for device, files in count.items() if files > 1 and not self._watched.may_be_empty}
        away = [
            path
            for path in gone
            if (device := known[path].sign.device) not in here
            and (device != sight.device_around(path) or device in emptied)
        ]
        for folder, files in Counter(path.rpartition("/")[0] for path in away).items():
            where = self._watched.root / folder
            troubles[folder or "."] = (
                f"the disk on which {files} files of {where} were is not mounted, or empty; none is removed. If it is "
                "meant to be empty, say so with --may-be-empty"
            )
        hidden = [path for path in gone if sight.is_dark(path) or self._watched.ignored(path)]
        return frozenset([*away, *hidden])

    def _forget_but(self, watched: set[str], present: Mapping[str, Found]) -> None:
        self._since = {path: since for path, since in self._since.items() if path in watched}
        self._read = {path: read for path, read in self._read.items() if path in present}


def opened(root: Path, path: str) -> BinaryIO:
    """A file of the folder, open; OSError where it is none any more. Links are not followed, wherever on the way they
    were put since the folder was looked at."""
    *folders, name = path.split("/")
    place = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for folder in folders:
            above, place = place, os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=place)
            os.close(above)
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=place)
    finally:
        os.close(place)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileNotFoundError(2, "It is no file any more")
    return os.fdopen(descriptor, "rb")


def sign_of(file: BinaryIO) -> Sign:
    """How an open file looks now."""
    found = os.fstat(file.fileno())
    return Sign(found.st_size, found.st_mtime_ns)
