"""Pictures on their way to a model."""

from __future__ import annotations

import io
from typing import Any

import pytest
from PIL import Image

from assistant.core.errors import TooLarge, UnreadableFile, UnsupportedFile
from assistant.core.pictures import data_url, decoded, encode_picture, fit_picture, media_type
from assistant.core.tokens import visual_tokens
from tests.documents import shared


def file_of(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_a_picture_within_the_budget_is_sent_as_it_is(kind: str) -> None:
    data = file_of(Image.new("RGB", (640, 480), "white"), kind)
    assert fit_picture(data, "qwen3-vl", 300) == (data, 300)
    assert data_url(data).startswith(f"data:image/{kind.lower()};base64,")
    assert media_type(data[:12]) == f"image/{kind.lower()}"


def test_a_larger_one_is_shrunk_and_its_cost_is_told() -> None:
    data = shared("scan_clean/linn.png").read_bytes()
    fitted, cost = fit_picture(data, "qwen3-vl", 512)
    assert cost == visual_tokens(*opened(fitted).size, "qwen3-vl") <= 512
    assert cost > 450


def test_a_photo_is_turned_upright() -> None:
    image = Image.new("RGB", (320, 640), "white")
    image.paste("red", (0, 0, 320, 100))  # red on top when upright …
    exif = Image.Exif()
    exif[0x0112] = 6  # … but stored lying on its left side
    data = file_of(image.rotate(90, expand=True), "JPEG", exif=exif, quality=95)
    fitted, _ = fit_picture(data, "qwen3-vl", 2048)
    turned = opened(fitted).convert("RGB")
    assert turned.size == (320, 640)
    assert decoded(data).size == (320, 640)
    for upright in (turned, decoded(data)):
        red, green, _blue = upright.getpixel((160, 40))  # pyright: ignore[reportGeneralTypeIssues]
        assert red > 200 > 60 > green


def test_transparency_becomes_white_paper() -> None:
    image = Image.new("RGBA", (2000, 2000), (0, 0, 0, 0))
    fitted, _ = fit_picture(file_of(image), "qwen3-vl", 256)
    assert opened(fitted).convert("RGB").getpixel((50, 50)) == (255, 255, 255)
    assert decoded(file_of(image)).getpixel((50, 50)) == (255, 255, 255)


def test_print_goes_as_png_and_a_photo_as_jpeg() -> None:
    printed = Image.new("L", (1000, 1400), 255)
    printed.paste(0, (100, 100, 900, 160))
    assert opened(encode_picture(printed, "qwen3-vl", 2048)).format == "PNG"
    photo = Image.effect_noise((1000, 1400), 60)
    encoded = encode_picture(photo, "qwen3-vl", 2048)
    assert opened(encoded).format == "JPEG"
    assert len(encoded) < len(file_of(photo))


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", UnsupportedFile),
        (b"%PDF-1.7 no picture", UnsupportedFile),
        (b"RIFF\x00\x00\x00\x00WAVE", UnsupportedFile),
        (file_of(Image.new("RGB", (9, 9)), "GIF"), UnsupportedFile),
        (file_of(Image.effect_noise((900, 900), 50))[:2000], UnreadableFile),
    ],
)
def test_what_is_no_usable_picture_is_refused(data: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        fit_picture(data, "qwen3-vl", 64)
    with pytest.raises(error):
        decoded(data)
    assert media_type(data[:12]) in ("", "image/png")


def test_a_bomb_is_refused_before_it_is_decoded() -> None:
    bomb = file_of(Image.new("1", (20_000, 20_000)))  # 50 kB that become 400 million pixels
    assert len(bomb) < 100_000
    with pytest.raises(TooLarge):
        fit_picture(bomb, "qwen3-vl", 2048)
    with pytest.raises(TooLarge):
        decoded(bomb)
    with pytest.raises(TooLarge, match="2000 x 2000"):
        decoded(file_of(Image.new("RGB", (2000, 2000))), megapixels=1)
