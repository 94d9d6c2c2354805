"""Archives: what becomes of each file in them is told, within limits, and no path of theirs is ever one of ours."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import stat
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest

from assistant.core.domain import BlockKind
from assistant.core.errors import BadInput, EmptyFile, EncryptedFile, TooLarge, UnreadableFile
from assistant.core.settings import LimitSettings
from ingestion.sources import Source, open_source
from ingestion.sources.enclosed import Container, Enclosed
from tests.documents import shared

LIMITS = LimitSettings()
NOTE = b"El contador marca 4711 kWh."


def opened(folder: Path, data: bytes, name: str = "archivo.zip", limits: LimitSettings = LIMITS) -> Source:
    path = folder / name
    path.write_bytes(data)
    return open_source(path, limits=limits)


def within(source: Source) -> list[Enclosed]:
    assert isinstance(source, Container)
    return list(source.enclosed)


def fates(source: Source) -> dict[str, str]:
    return {each.about.path: each.about.left_out for each in within(source)}


def zipped(*files: tuple[str | zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", method) as archive:
        for name, data in files:
            archive.writestr(name, data)
    return held.getvalue()


def tarred(*files: tuple[str, bytes], more: list[tarfile.TarInfo] | None = None) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for info in more or []:
            archive.addfile(info)
    return held.getvalue()


def test_a_list_says_what_became_of_each(tmp_path: Path) -> None:
    data = zipped(("carpeta/nota.txt", NOTE), ("vacío.txt", b""), ("__MACOSX/._nota.txt", b"x"), ("carpeta/", b""))
    with opened(tmp_path, data) as source:
        assert (source.media_type, source.page_count, source.damage) == ("application/zip", 1, "")
        heading, summary, table = source.page(1).blocks
        assert (heading.text, summary.text) == (
            "archivo.zip",
            f"ZIP archive with 3 files, {len(NOTE) + 1} bytes unpacked.",
        )
        assert table.kind is BlockKind.TABLE
        assert f"| carpeta/nota.txt | {len(NOTE)} bytes | a document of its own |" in table.text
        assert "| vacío.txt | 0 bytes | left out: empty |" in table.text
        assert within(source)[0].open().read() == NOTE


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_every_usual_packing(method: int, tmp_path: Path) -> None:
    with opened(tmp_path, zipped(("a.txt", NOTE * 50), method=method)) as source:
        assert within(source)[0].open().read() == NOTE * 50


@pytest.mark.parametrize(
    "name", ["../../etc/cron.d/x", "/etc/passwd", "..\\..\\autoexec.bat", "C:\\x\\y.txt", "a/./b/../c"]
)
def test_paths_are_only_names(name: str, tmp_path: Path) -> None:
    with opened(tmp_path, zipped((name, NOTE))) as source:
        (path,) = fates(source)
        assert ".." not in path and not path.startswith(("/", "\\"))
    with opened(tmp_path, tarred((name, NOTE)), "a.tar") as source:
        (path,) = fates(source)
        assert ".." not in path and not path.startswith(("/", "\\"))


def test_a_real_archive_that_climbs_out_stays_inside() -> None:
    with open_source(shared("broken_or_hostile/zip_slip.zip"), limits=LIMITS) as source:
        assert all(not path.startswith("/") and ".." not in path for path in fates(source))


def test_a_real_nested_bomb_is_listed_and_not_unpacked() -> None:
    with open_source(shared("broken_or_hostile/nested_zip_bomb.zip"), limits=LIMITS) as source:
        assert source.page_count >= 1
        assert fates(source)


def test_a_bomb_is_called_one(tmp_path: Path) -> None:
    data = zipped(("ceros.bin", bytes(60_000_000)), ("nota.txt", NOTE))
    with opened(tmp_path, data) as source:
        assert fates(source)["ceros.bin"].startswith("a decompression bomb")
        assert fates(source)["nota.txt"] == ""
        assert "1 file (a decompression bomb" in source.damage


def test_limits_on_number_and_size(tmp_path: Path) -> None:
    data = zipped(*((f"{number}.txt", NOTE) for number in range(6)))
    with opened(tmp_path, data, limits=LimitSettings(parts=4)) as source:
        assert list(fates(source).values()).count("more than 4 files, which is the limit") == 2
        assert source.damage == "Left out: 2 files (more than 4 files, which is the limit)."
    noise = random.Random(1).randbytes(700_000)
    large = zipped(("a.bin", noise), ("b.bin", noise[1:]), ("c.txt", NOTE))
    with opened(tmp_path, large, limits=LimitSettings(unpacked_mb=1)) as source:
        assert fates(source) == {"a.bin": "", "b.bin": "over the limit of 1 MB unpacked", "c.txt": ""}


def locked(data: bytes) -> bytes:
    """The archive with its first file marked as behind a password, in both places where that stands."""
    broken = bytearray(data)
    broken[6] |= 1
    broken[data.index(b"PK\x01\x02") + 8] |= 1
    return bytes(broken)


def test_what_is_behind_a_password_is_said(tmp_path: Path) -> None:
    with pytest.raises(EncryptedFile, match="behind a password"):
        opened(tmp_path, locked(zipped(("a.txt", NOTE))))
    with opened(tmp_path, locked(zipped(("a.txt", NOTE), ("b.txt", NOTE)))) as source:
        assert fates(source) == {"a.txt": "behind a password", "b.txt": ""}
        assert source.damage == "Left out: 1 file (behind a password)."


def test_links_and_devices_are_not_followed(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("enlace.txt")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with opened(tmp_path, zipped((link, b"/etc/passwd"), ("nota.txt", NOTE))) as source:
        assert fates(source) == {"enlace.txt": "a link, which is not followed", "nota.txt": ""}
        assert source.damage == ""
    odd = [tarfile.TarInfo("enlace"), tarfile.TarInfo("duro"), tarfile.TarInfo("disco"), tarfile.TarInfo("tubo")]
    for info, kind in zip(odd, (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE), strict=True):
        info.type, info.linkname = kind, "/etc/passwd"
    with opened(tmp_path, tarred(("nota.txt", NOTE), more=odd), "a.tar") as source:
        assert fates(source) == {
            "nota.txt": "",
            "enlace": "a link, which is not followed",
            "duro": "a link, which is not followed",
            "disco": "a device, no file",
            "tubo": "a device, no file",
        }


def renamed(data: bytes, raw: bytes, utf8: bool = False) -> bytes:
    """The archive whose one file, written as XXXX, is called ``raw``."""
    broken = bytearray(data.replace(b"XXXX", raw))
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        flags = broken.index(mark) + place
        struct.pack_into("<H", broken, flags, 0x800 if utf8 else 0)
    return bytes(broken)


@pytest.mark.parametrize(
    ("raw", "utf8", "name"),
    [
        ("año".encode(), True, "año.txt"),
        ("año".encode(), False, "año.txt"),
        ("año1".encode("cp437"), False, "año1.txt"),
        ("ÓÁÍÚ".encode("cp850"), False, "ÓÁÍÚ.txt"),
        (b"abcd", False, "abcd.txt"),
    ],
)
def test_names_in_old_and_new_letters(raw: bytes, utf8: bool, name: str, tmp_path: Path) -> None:
    with opened(
        tmp_path, renamed(zipped(("XXXX.txt", NOTE)), raw.ljust(4, b"_") if len(raw) < 4 else raw, utf8)
    ) as source:
        assert list(fates(source)) == [name]


@pytest.mark.parametrize("raw", ["", "\0", "\0.txt", ".", "..", "/", "//"])
def test_a_name_that_says_nothing_does_not_cost_the_others(raw: str, tmp_path: Path) -> None:
    nameless = zipfile.ZipInfo("x")
    nameless.filename = raw
    with opened(tmp_path, zipped(("bien.txt", NOTE), (nameless, b"" if raw.endswith("/") else NOTE))) as source:
        found = within(source)
        assert len(found) == (1 if raw.endswith("/") else 2) and found[0].about.path == "bien.txt"
        for each in found:
            with each.open() as file:
                assert file.read() == NOTE


@pytest.mark.parametrize("packing", ["", "gz", "bz2", "xz"])
def test_tar_however_it_is_packed(packing: str, tmp_path: Path) -> None:
    data = tarred(("uno/a.txt", NOTE), ("uno/b.txt", NOTE * 9), ("señal.txt", b"x"))
    pack = {"": bytes, "gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}[packing]
    with opened(tmp_path, pack(data), "copia.tar") as source:
        assert fates(source) == {"uno/a.txt": "", "uno/b.txt": "", "señal.txt": ""}
        assert [each.open().read() for each in within(source)] == [NOTE, NOTE * 9, b"x"]
        assert source.page(1).blocks[1].text.startswith("TAR archive")


@pytest.mark.parametrize("ending", ["gz", "bz2", "xz"])
def test_a_single_packed_file(ending: str, tmp_path: Path) -> None:
    pack = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}[ending]
    with opened(tmp_path, pack(NOTE * 1000), f"carta.txt.{ending}") as source:
        assert fates(source) == {"carta.txt": ""}
        assert within(source)[0].open().read() == NOTE * 1000
    noise = random.Random(2).randbytes(1_500_000)
    with opened(tmp_path, pack(noise)[:1_200_000], f"carta.txt.{ending}") as source:
        assert "cut off or damaged" in source.damage
        rest = within(source)[0].open().read()
        assert len(rest) > 500_000
        assert noise.startswith(rest)


def test_bombs_of_a_whole_archive_end_at_the_limit(tmp_path: Path) -> None:
    limits = LimitSettings(unpacked_mb=20)
    with pytest.raises(TooLarge, match="more than 20 MB"):
        opened(tmp_path, gzip.compress(bytes(60_000_000)), "bomba.gz", limits)
    data = tarred(("nota.txt", NOTE), ("ceros", bytes(60_000_000)), ("tarde.txt", NOTE))
    with opened(tmp_path, gzip.compress(data), "bomba.tgz", limits) as source:
        assert fates(source)["nota.txt"] == ""
        assert "over the limit of 20 MB" in fates(source).get("ceros", "over the limit of 20 MB")
        assert source.damage


def test_a_cut_off_zip_gives_what_is_left(tmp_path: Path) -> None:
    noise = random.Random(3).randbytes(60_000)
    data = zipped(("nota.txt", NOTE * 20), ("ruido.bin", noise), ("final.txt", NOTE))
    with opened(tmp_path, data[: len(data) // 2]) as source:
        assert "cut off or damaged" in source.damage
        assert within(source)[0].open().read() == NOTE * 20
        assert fates(source).keys() == {"nota.txt", "ruido.bin"}
    held = io.BytesIO()
    with zipfile.ZipFile(Stream(held), "w", zipfile.ZIP_DEFLATED) as archive:  # sizes follow the data
        archive.writestr("nota.txt", NOTE * 20)
        archive.writestr("otra.txt", NOTE * 30)
    with opened(tmp_path, held.getvalue()[:-70]) as source:
        assert [each.open().read() for each in within(source)] == [NOTE * 20, NOTE * 30]
    with pytest.raises(UnreadableFile, match="no file could be found"):
        opened(tmp_path, data[:20])


class Stream:
    """A file that cannot go back, so that zipfile writes sizes behind the data."""

    def __init__(self, held: io.BytesIO) -> None:
        self._held = held

    def write(self, data: bytes) -> int:
        return self._held.write(data)

    def flush(self) -> None:
        self._held.flush()


def test_a_cut_off_tar_gives_what_stands_before(tmp_path: Path) -> None:
    data = tarred(("a.txt", NOTE), ("b.bin", random.Random(5).randbytes(50_000)))
    with opened(tmp_path, gzip.compress(data)[:20_000], "a.tgz") as source:
        assert "cut off or damaged" in source.damage
        assert within(source)[0].open().read() == NOTE


def test_an_empty_archive_is_empty(tmp_path: Path) -> None:
    with pytest.raises(EmptyFile):
        opened(tmp_path, zipped())


def test_archives_of_any_bytes_never_crash(tmp_path: Path) -> None:
    dice = random.Random(6)
    for data in (
        zipped(("a.txt", NOTE * 9), ("b.txt", NOTE)),
        tarred(("a.txt", NOTE)),
        gzip.compress(tarred(("a.txt", NOTE))),
    ):
        for _ in range(60):
            broken = bytearray(data)
            for _ in range(6):
                broken[dice.randrange(4, len(broken))] = dice.randrange(256)
            try:
                with opened(tmp_path, bytes(broken)) as source:
                    source.page(1)
            except BadInput:
                continue
