"""Pictures of telephones, moving pictures, and what is no picture but sound or film."""

from __future__ import annotations

import io
import wave
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from assistant.core.errors import TooLarge, UnreadableFile, UnsupportedFile
from assistant.core.settings import LimitSettings
from ingestion.readers.ocr import OcrReader
from ingestion.sources import open_source
from tests.documents import shared

LIMITS = LimitSettings()


async def test_a_telephones_picture_is_read_like_any_other(ocr_reader: OcrReader) -> None:
    with open_source(shared("scan_clean/DA-1p.heic"), limits=LIMITS) as source:
        assert (source.media_type, source.page_count) == ("image/heic", 1)
        reading = await ocr_reader.read(source.page(1).render(200))
    truth = shared("gt/text_layer/DA-1p.png.p1.txt").read_text("utf-8").split()
    read = " ".join(block.text for block in reading.blocks).split()
    assert len(set(read) & set(truth)) / len(set(truth)) > 0.6  # 595 pixels wide: hard for anyone


def test_heif_of_limits_and_damage(tmp_path: Path) -> None:
    data = shared("scan_clean/DA-1p.heic").read_bytes()
    path = tmp_path / "foto.heic"
    path.write_bytes(data)
    with pytest.raises(TooLarge, match="595 × 842"):
        open_source(path, limits=LimitSettings(image_megapixels=1).model_copy(update={"image_megapixels": 0.2}))
    path.write_bytes(data[:400])
    with pytest.raises(UnreadableFile, match=r"picture foto\.heic cannot be read"):
        open_source(path, limits=LIMITS)


def test_avif(tmp_path: Path) -> None:
    path = tmp_path / "foto.avif"
    Image.new("RGB", (120, 80), "red").save(path)
    with open_source(path, limits=LIMITS) as source:
        assert source.media_type == "image/avif"
        pixel = source.page(1).render(200).getpixel((60, 40))
    assert isinstance(pixel, tuple) and pixel[0] > 200


def slide(number: int, dot: int = 0) -> Image.Image:
    picture = Image.new("L", (200, 150), 255)
    ImageDraw.Draw(picture).rectangle((20 + 40 * number, 20, 50 + 40 * number, 130), fill=0)
    picture.putpixel((dot, 0), 0)
    return picture


def test_frames_of_a_moving_picture_that_differ_are_pages(tmp_path: Path) -> None:
    path = tmp_path / "pases.gif"
    frames = [slide(0), slide(0, 1), slide(0, 2), slide(1), slide(1, 1), slide(0, 3), slide(2)]
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=100)
    with open_source(path, limits=LIMITS) as source:
        assert source.page_count == 3
        shown = [np.asarray(source.page(number).render(200).convert("L")) for number in (1, 2, 3)]
    assert [int(image[75, 35 + 40 * number]) for number, image in enumerate(shown)] == [0, 0, 0]


def test_a_film_of_a_thousand_frames_is_bounded(tmp_path: Path) -> None:
    frames = [Image.effect_noise((60, 60), 200).convert("P") for _ in range(120)]
    path = tmp_path / "ruido.gif"
    frames[0].save(path, save_all=True, append_images=frames[1:])
    with open_source(path, limits=LIMITS) as source:
        assert source.page_count == 20


def spoken() -> bytes:
    held = io.BytesIO()
    with wave.open(held, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(bytes(1600))
    return held.getvalue()


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("voz.wav", spoken()),
        ("voz.mp3", b"ID3\x04\x00\x00\x00\x00\x00\x00" + bytes(200)),
        ("voz.m4a", b"\x00\x00\x00\x20ftypM4A \x00\x00\x00\x00M4A mp42isom" + bytes(200)),
        ("acto.mp4", b"\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00isommp42" + bytes(200)),
        ("acto.webm", b"\x1aE\xdf\xa3\x9fB\x86\x81\x01" + bytes(200)),
        ("voz.ogg", b"OggS\x00\x02" + bytes(200)),
    ],
)
def test_recordings_are_refused_with_what_they_would_take(name: str, head: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(head)
    with pytest.raises(UnsupportedFile, match="sound or video recording") as refused:
        open_source(path, limits=LIMITS)
    assert "transcription endpoint" in str(refused.value)
