"""What lies in a watched folder, as it looks from the outside: nothing is opened."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from assistant.core.errors import BadRequest, NotFound, PeritoError, UnreadableFile

USUALLY_IGNORED = (
    ".*", "~$*", "*~", "*.tmp", "*.temp", "*.part", "*.partial", "*.crdownload", "*.download", "*.swp",
    "Thumbs.db", "ehthumbs.db", "desktop.ini", "__MACOSX", "$RECYCLE.BIN", "System Volume Information",
)  # fmt: skip
MOST_FILES = 1_000_000


@dataclass(frozen=True, slots=True)
class Sign:
    """How a file looks. ``device`` is the file system of the folder it lies in: of files, layered ones give several."""

    size: int
    mtime_ns: int
    device: int = field(compare=False, default=0)


@dataclass(frozen=True, slots=True)
class Sight:
    """A folder at one moment. Paths are relative to it, with "/" between their parts; ``folders`` gives the device of
    each folder (the watched one is ""), ``dark`` what could not be looked at, with why."""

    files: Mapping[str, Sign]
    folders: Mapping[str, int]
    dark: Mapping[str, str]

    def device_around(self, path: str) -> int | None:
        """The device of the nearest folder above ``path`` that is there."""
        return next((self.folders[above] for above in _above(path) if above in self.folders), None)

    def is_dark(self, path: str) -> bool:
        """Whether ``path`` may be there and cannot be seen."""
        return any(each in self.dark for each in (path, *_above(path)))


class Ignored:
    """Which files and folders do not count: by their name, or their path where the pattern has a "/". Without regard
    to case, as `*`, `?` and `[…]` are understood by a shell."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        """``patterns`` besides those that are usually ignored."""
        self._patterns = [pattern.casefold().rstrip("/").removeprefix("./") for pattern in patterns]
        if not all(self._patterns):
            raise BadRequest("An empty pattern would ignore nothing", "Give --ignore a pattern such as '*.bak'")

    def __call__(self, path: str) -> bool:
        """Whether ``path``, or a folder above it, is ignored."""
        return any(self.one(each) for each in (path, *_above(path)) if each)

    def one(self, path: str) -> bool:
        """Whether ``path`` itself is ignored, those above it not being so."""
        name = path.rpartition("/")[2]
        if any(fnmatchcase(name.casefold(), pattern.casefold()) for pattern in USUALLY_IGNORED):
            return True
        whole = path.casefold()
        return any(
            fnmatchcase(whole if "/" in pattern else name.casefold(), pattern.lstrip("/")) for pattern in self._patterns
        )


def checked_folder(folder: Path, home: Path) -> Path:
    """The folder's one true path. NotFound, BadRequest or UnreadableFile where it cannot be watched."""
    try:
        whole = folder.expanduser().resolve(strict=True)
        is_folder = stat.S_ISDIR(whole.stat().st_mode)
    except FileNotFoundError:
        raise NotFound(f"There is no folder {folder}", "Check the path, and that its disk is mounted") from None
    except (OSError, RuntimeError) as error:
        raise _unreadable(folder, error) from None
    if not is_folder:
        raise BadRequest(f"{folder} is not a folder", "Name the folder it lies in, or add it with `perito ingest`")
    if whole == home or home in whole.parents:
        raise BadRequest(
            f"{folder} lies in Perito's own home {home}, which holds what Perito keeps",
            "Watch a folder outside of it",
        )
    try:
        with os.scandir(whole):
            pass
    except OSError as error:
        raise _unreadable(folder, error) from None
    return whole


def _unreadable(folder: Path, error: Exception) -> PeritoError:
    said = getattr(error, "strerror", None) or str(error)
    return UnreadableFile(f"The folder {folder} cannot be read: {said}", "Check who may read it")


def look_into(root: Path, ignored: Ignored, home: Path) -> Sight | None:
    """All regular files below ``root`` that are not ignored; None where it is not there or cannot be read. No link is
    followed: it may lead to what is nobody's business here. Perito's ``home`` is passed over."""
    files: dict[str, Sign] = {}
    folders: dict[str, int] = {}
    dark: dict[str, str] = {}
    waiting = [""]
    while waiting:
        below = waiting.pop()
        place = root / below if below else root
        if place == home:
            continue
        try:
            device = place.stat().st_dev
            found = list(_entries(place, below))
        except FileNotFoundError:
            if not below:
                return None
            continue
        except OSError as error:
            if not below:
                return None
            dark[below] = error.strerror or str(error)
            continue
        folders[below] = device
        for path, entry in found:
            if not ignored.one(path):
                waiting += _taken(path, entry, device, files, dark)
        if len(files) > MOST_FILES:
            raise BadRequest(f"{root} holds more than {MOST_FILES:,} files", "Watch the folders in it one by one")
    return Sight(files, folders, dark)


def _entries(place: Path, below: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    with os.scandir(place) as entries:
        for entry in entries:
            yield f"{below}/{entry.name}" if below else entry.name, entry


def _taken(path: str, entry: os.DirEntry[str], device: int, files: dict[str, Sign], dark: dict[str, str]) -> list[str]:
    """Note a file; a folder is given back, to be looked into."""
    try:
        if entry.is_dir(follow_symlinks=False):
            return [path]
        if entry.is_file(follow_symlinks=False):
            found = entry.stat(follow_symlinks=False)
            files[path] = Sign(found.st_size, found.st_mtime_ns, device)
    except FileNotFoundError:  # it went away meanwhile
        pass
    except OSError as error:
        dark[path] = error.strerror or str(error)
    return []


def printable(path: str) -> str:
    """A path that may hold bytes that are no text, as it can be shown."""
    return path.encode("utf-8", "replace").decode("utf-8")


def _above(path: str) -> Iterator[str]:
    """The folders above, the nearest first; the last is ""."""
    while path:
        path = path.rpartition("/")[0]
        yield path
