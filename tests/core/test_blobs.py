"""Files by content: whole or not at all, whoever writes at once, whatever the disk does."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import resource
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

import pytest

from assistant.core.blobs import FolderBlobStore
from assistant.core.errors import BadRequest, DiskFull, Misconfigured, NotFound, UnreadableFile
from assistant.core.ports import BlobStore
from tests.documents import shared

EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"  # SHA-256 of nothing
ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # of "abc", FIPS 180-2, B.1


@pytest.fixture
def store(tmp_path: Path) -> FolderBlobStore:
    return FolderBlobStore(tmp_path / "blobs", min_free_mb=0)


def files_in(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())


def test_it_is_the_kernels_blob_store(store: FolderBlobStore) -> None:
    port: BlobStore = store
    assert port.put(b"abc") == ABC


def test_a_real_document_comes_back_byte_for_byte(store: FolderBlobStore) -> None:
    document = shared("scan_clean/linn.png")
    with document.open("rb") as file:
        key = store.put(file)
    known = subprocess.run(["sha256sum", document], capture_output=True, text=True, check=True).stdout.split()[0]
    assert key == known
    assert store.path(key).read_bytes() == document.read_bytes()


def test_blobs_lie_two_folders_deep(store: FolderBlobStore, tmp_path: Path) -> None:
    store.put(b"abc")
    assert files_in(tmp_path / "blobs") == [f"ba/78/{ABC}"]


def test_the_same_bytes_are_kept_once(store: FolderBlobStore, tmp_path: Path) -> None:
    assert store.put(b"abc") == store.put(io.BytesIO(b"abc")) == ABC
    assert store.put(b"") == EMPTY
    assert sorted(store.keys()) == sorted([ABC, EMPTY])
    assert len(files_in(tmp_path / "blobs")) == 2


def test_a_stream_is_put_from_where_it_stands(store: FolderBlobStore) -> None:
    stream = io.BytesIO(b"skip abc")
    stream.seek(5)
    assert store.put(stream) == ABC


def test_a_stream_without_an_end_in_sight_is_put(store: FolderBlobStore) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as file:
        file.write(b"abc")
    with os.fdopen(reading, "rb") as pipe:
        assert store.put(pipe) == ABC


def test_a_large_file_is_not_held_in_memory(tmp_path: Path) -> None:
    code = """
import resource, sys
from pathlib import Path
from assistant.core.blobs import FolderBlobStore
store = FolderBlobStore(Path(sys.argv[1]), 0)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with open(sys.argv[2], "rb") as file:
    store.put(file)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(100 * 1024 * 1024)
    command = [sys.executable, "-c", code, str(tmp_path / "blobs"), str(large)]
    grown = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert grown < 16 * 1024  # kilobytes


@pytest.mark.parametrize(
    "key",
    [
        "",
        "abc",
        "../" * 21 + "x",
        ABC.upper(),
        ABC + "\n",
        ABC[:-1] + "/",
        ABC + "00",
        "g" * 64,
        "/etc/passwd",
        "٣" * 64,
    ],
)
def test_a_key_is_64_hexadecimal_digits_and_nothing_else(store: FolderBlobStore, key: str) -> None:
    for ask in (store.path, store.exists, store.delete):
        with pytest.raises(BadRequest):
            ask(key)


def test_what_is_not_there_is_not_found(store: FolderBlobStore) -> None:
    with pytest.raises(NotFound, match="ba7816bf8f01"):
        store.path(ABC)
    assert not store.exists(ABC)
    store.delete(ABC)


def test_deleting_leaves_no_file(store: FolderBlobStore, tmp_path: Path) -> None:
    key = store.put(b"abc")
    store.put_derived(key, "page-1.jpg", b"picture")
    store.put_derived(key, "page-2.jpg", b"picture")
    store.delete(key)
    assert not store.exists(key)
    assert files_in(tmp_path / "blobs") == []
    assert list(store.keys()) == []


def test_what_is_derived_belongs_to_its_source(store: FolderBlobStore) -> None:
    one, other = store.put(b"one"), store.put(b"other")
    place = store.put_derived(one, "page-1.jpg", b"first")
    assert store.derived(one, "page-1.jpg") == place
    assert place.read_bytes() == b"first"
    assert store.derived(other, "page-1.jpg") is None
    assert store.derived(one, "page-2.jpg") is None
    store.put_derived(one, "page-1.jpg", b"second")
    assert place.read_bytes() == b"second"
    assert [file.name for file in place.parent.iterdir()] == ["page-1.jpg"]
    assert sorted(store.keys()) == sorted([one, other])
    store.delete(other)
    assert store.derived(one, "page-1.jpg") == place


def test_nothing_is_derived_from_what_is_not_there(store: FolderBlobStore, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        store.put_derived(ABC, "page-1.jpg", b"picture")
    assert files_in(tmp_path / "blobs") == []


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", ".hidden", "a\0b", "x" * 121, "ñ.jpg", "a\n"])
def test_derived_names_are_plain(store: FolderBlobStore, name: str) -> None:
    key = store.put(b"abc")
    with pytest.raises(BadRequest):
        store.put_derived(key, name, b"picture")
    with pytest.raises(BadRequest):
        store.derived(key, name)


def test_a_page_image_late_for_its_deleted_document_is_not_kept(
    store: FolderBlobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The document goes between the check and the write, as when a citation is opened during a delete."""
    key = store.put(b"abc")
    look = store.path

    def look_and_lose(asked: str) -> Path:
        found = look(asked)
        store.delete(asked)
        return found

    monkeypatch.setattr(store, "path", look_and_lose)
    with pytest.raises(NotFound, match="deleted meanwhile"):
        store.put_derived(key, "page-1.jpg", b"picture")
    assert files_in(tmp_path / "blobs") == []


def test_threads_that_put_the_same_bytes_all_succeed(store: FolderBlobStore, tmp_path: Path) -> None:
    data = os.urandom(3_000_000)
    start = threading.Barrier(8)

    def put(number: int) -> str:
        start.wait()
        return store.put(data if number % 2 else io.BytesIO(data))

    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(put, range(8)))
    assert keys == {hashlib.sha256(data).hexdigest()}
    assert len(files_in(tmp_path / "blobs")) == 1


PUT_MANY = """
import io, sys
from pathlib import Path
from assistant.core.blobs import FolderBlobStore
sys.stdin.readline()
for number in range(60):
    store = FolderBlobStore(Path(sys.argv[1]), 0)  # opening sweeps: it must spare what others write just now
    store.put(io.BytesIO(bytes([number]) * 300_000))
"""


def test_processes_that_put_and_sweep_at_once_lose_nothing(store: FolderBlobStore, tmp_path: Path) -> None:
    folder = tmp_path / "blobs"
    command = [sys.executable, "-c", PUT_MANY, str(folder)]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(3)]
    for process in processes:
        process.communicate(b"go\n")
    assert [process.returncode for process in processes] == [0, 0, 0]
    expected = {hashlib.sha256(bytes([number]) * 300_000).hexdigest() for number in range(60)}
    assert set(store.keys()) == expected
    assert all(hashlib.sha256(store.path(key).read_bytes()).hexdigest() == key for key in expected)
    assert len(files_in(folder)) == 60


DIE = """
import os, signal, sys
from pathlib import Path
from assistant.core.blobs import FolderBlobStore

class Deadly:
    def seekable(self): return False
    def read(self, size):
        if self.pieces == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.pieces -= 1
        return b"x" * size
    pieces = 2

FolderBlobStore(Path(sys.argv[1]), 0).put(Deadly())
"""


def test_what_a_killed_writer_left_is_swept_at_the_next_start(tmp_path: Path) -> None:
    folder = tmp_path / "blobs"
    killed = subprocess.run([sys.executable, "-c", DIE, str(folder)], check=False)
    assert killed.returncode == -9
    assert len(files_in(folder / "incoming")) == 1
    store = FolderBlobStore(folder, 0)
    assert files_in(folder) == []
    assert list(store.keys()) == []


def test_a_writer_at_work_is_spared_by_the_sweep(tmp_path: Path) -> None:
    folder = tmp_path / "blobs"
    store = FolderBlobStore(folder, 0)

    class Slow(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            FolderBlobStore(folder, 0)  # another process starts just now
            return super().read(size)

    assert store.put(Slow(b"abc")) == ABC
    assert store.path(ABC).read_bytes() == b"abc"


def test_a_blob_cut_short_by_a_power_cut_is_mended_by_putting_it_again(store: FolderBlobStore) -> None:
    key = store.put(b"abc" * 1000)
    os.truncate(store.path(key), 10)
    assert store.put(b"abc" * 1000) == key
    assert store.path(key).read_bytes() == b"abc" * 1000


def test_a_file_too_large_for_the_disk_is_refused_before_it_is_read(tmp_path: Path) -> None:
    store = FolderBlobStore(tmp_path / "blobs", min_free_mb=0)

    class Huge(io.BytesIO):
        def seek(self, offset: int, whence: int = 0) -> int:
            return 1 << 60 if whence == os.SEEK_END else super().seek(offset, whence)

        def read(self, size: int | None = -1) -> bytes:
            raise AssertionError("read in vain")

    with pytest.raises(DiskFull, match="MB free") as full:
        store.put(Huge(b"abc"))
    assert "Free some space" in full.value.advice
    assert files_in(tmp_path / "blobs") == []


def test_the_reserve_stays_free(tmp_path: Path) -> None:
    store = FolderBlobStore(tmp_path / "blobs", min_free_mb=10**9)
    for put in (lambda: store.put(b"abc"), lambda: store.put(io.BytesIO(b"abc"))):
        with pytest.raises(DiskFull, match="stay free"):
            put()
    assert files_in(tmp_path / "blobs") == []


@pytest.fixture
def file_size_limit() -> object:
    """The kernel itself refuses to write more than this into one file, as a full disk or quota would."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [2_000_001, 2_100_000, 8_000_000])
def test_a_disk_that_fills_up_on_the_way_leaves_nothing_behind(
    store: FolderBlobStore, tmp_path: Path, file_size_limit: None, size: int
) -> None:
    for data in (b"x" * size, io.BytesIO(b"x" * size)):
        with pytest.raises(DiskFull, match="the disk is full"):
            store.put(data)
    key = store.put(b"abc")
    with pytest.raises(DiskFull):
        store.put_derived(key, "page-1.jpg", b"x" * size)
    assert files_in(tmp_path / "blobs") == [f"ba/78/{ABC}"]


class Full:
    """A file on a disk that is full when it is synced."""

    def __init__(self, error: int) -> None:
        self.error = error

    def __call__(self, descriptor: int) -> None:
        raise OSError(self.error, os.strerror(self.error))


@pytest.mark.parametrize(
    ("number", "error"),
    [(errno.ENOSPC, DiskFull), (errno.EDQUOT, DiskFull), (errno.EROFS, Misconfigured), (errno.EIO, Misconfigured)],
)
def test_a_disk_that_fails_at_the_sync_leaves_nothing_behind(
    store: FolderBlobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, error: type[Exception]
) -> None:
    monkeypatch.setattr(os, "fsync", Full(number))
    with pytest.raises(error):
        store.put(b"abc")
    assert files_in(tmp_path / "blobs") == []


def test_a_source_that_cannot_be_read_is_not_taken_for_a_bad_store(store: FolderBlobStore, tmp_path: Path) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError(errno.EIO, "Input/output error")

    broken: BinaryIO = Broken(b"abc")
    with pytest.raises(UnreadableFile, match="Input/output error"):
        store.put(broken)
    assert files_in(tmp_path / "blobs") == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Misconfigured, match="Not a directory") as refused:
        FolderBlobStore(tmp_path / "file" / "blobs")
    assert "may write" in refused.value.advice


def test_only_the_owner_may_look(store: FolderBlobStore, tmp_path: Path) -> None:
    store.put(b"abc")
    assert (tmp_path / "blobs").stat().st_mode & 0o077 == 0
    assert (tmp_path / "blobs" / "ba" / "78").stat().st_mode & 0o077 == 0
