"""Picture files as pages: PNG, JPEG, TIFF and HEIF (every frame a page), WebP, AVIF, BMP, GIF (its frames that differ).

The size is read from the header and held against the limits before anything is decoded, so Pillow's own
guard against decompression bombs (which warns at one fixed size for the whole process) is set aside here.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError
from PIL.Image import Image as Picture

from assistant.core.domain import WHOLE_PAGE
from assistant.core.errors import TooLarge, UnreadableFile
from assistant.core.settings import LimitSettings
from ingestion.pages import Page

Image.MAX_IMAGE_PIXELS = None
MEDIA_TYPES = {
    "PNG": "image/png",
    "JPEG": "image/jpeg",
    "TIFF": "image/tiff",
    "WEBP": "image/webp",
    "BMP": "image/bmp",
    "GIF": "image/gif",
    "AVIF": "image/avif",
    "HEIF": "image/heic",
}
PILLOWS_OWN = tuple(kind for kind in MEDIA_TYPES if kind != "HEIF")  # read without another library
_MOST_GIF_FRAMES = 20  # that differ, and so are pages
_GIF_MEGAPIXELS = 400  # of all frames together that are looked at
_DIFFERENT = 0.03  # share of a small grey picture's pixels that changed, from which a frame is another page
_CHANGED = 48  # grey levels
_LONG_SIDE_INCHES = 11.69  # what a picture without a trustworthy resolution is taken for: A4
_SMALLER_FROM = 150  # dpi below which a smaller picture is wanted
_TURNED = (5, 6, 7, 8)  # EXIF orientations that swap width and height
BROKEN = (OSError, SyntaxError, ValueError, EOFError, ArithmeticError, IndexError, KeyError)


class PictureSource:
    """An open picture file. Frames are decoded one at a time and not kept."""

    damage = ""

    def __init__(self, path: Path, name: str, kind: str, limits: LimitSettings) -> None:
        self._path = path
        self._name = name
        self._kind = kind
        self._limits = limits
        self.media_type = MEDIA_TYPES[kind]
        if kind == "HEIF":
            from ingestion.sources.heif import teach_pillow

            teach_pillow()
        self._frames: Sequence[int] = (0,)  # of the file, page by page
        self._frames = self._found_frames()
        self.page_count = len(self._frames)
        if self.page_count > limits.pages:
            raise TooLarge(f"{name} has {self.page_count} pages; the limit is {limits.pages}")
        if self.page_count == 1:
            self._size(1)  # refuse what is too large or broken before it is accepted

    def page(self, number: int) -> Page:
        """Frame ``number``, from 1. UnreadableFile, TooLarge."""
        width, height = self._size(number)
        return Page(
            number=number,
            width=float(width),
            height=float(height),
            draw=lambda dpi: self._draw(number, dpi),
            pictures=(WHOLE_PAGE,),
            is_picture=True,
        )

    def close(self) -> None:
        """Nothing stays open between pages."""

    def __enter__(self) -> PictureSource:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _opened(self, number: int) -> Generator[Any]:
        try:
            with Image.open(self._path, formats=[self._kind]) as picture:
                picture.seek(self._frames[number - 1])
                yield picture
        except (UnidentifiedImageError, *BROKEN) as error:
            raise UnreadableFile(f"{self._what(number)} cannot be read ({_reason(error)})") from None

    def _what(self, number: int) -> str:
        many = getattr(self, "page_count", 1) > 1
        return f"Page {number} of {self._name}" if many else f"The picture {self._name}"

    def _found_frames(self) -> Sequence[int]:
        if self._kind not in ("TIFF", "HEIF", "GIF"):
            return (0,)
        self._size(1)
        with self._opened(1) as picture:
            if self._kind == "GIF":
                return _different_frames(picture)
            return range(_count_frames(picture, self._limits.pages + 1))

    def _size(self, number: int) -> tuple[int, int]:
        """Width and height upright. TooLarge before anything is decoded."""
        with self._opened(number) as picture:
            width, height = picture.size
            megapixels = width * height / 1e6
            if megapixels > self._limits.image_megapixels and not self._shrinks(picture):
                raise TooLarge(
                    f"{self._what(number)} has {width} × {height} pixels ({megapixels:.0f} megapixels); "
                    f"the limit is {self._limits.image_megapixels}",
                    "Make it smaller or cut it into parts",
                )
            return upright_size(picture)

    def _shrinks(self, picture: Any) -> bool:
        """Whether the decoder can halve the picture (up to three times) until it is small enough. A
        progressive JPEG cannot: all its coefficients are held before the first pixel."""
        width, height = picture.size
        return (
            self._kind == "JPEG"
            and not picture.info.get("progressive")
            and width * height / 64e6 <= self._limits.image_megapixels
        )

    def _draw(self, number: int, dpi: float) -> Picture:
        self._size(number)
        with self._opened(number) as picture:
            size = self._target(picture.size, dpi)
            return upright_rgb(picture, size)

    def _target(self, size: tuple[int, int], dpi: float) -> tuple[int, int]:
        """How large the picture is wanted, before it is turned."""
        width, height = size
        scale = min(1.0, (self._limits.render_megapixels * 1e6 / (width * height)) ** 0.5)
        if dpi < _SMALLER_FROM:
            scale = min(scale, dpi * _LONG_SIDE_INCHES / max(width, height))
        return max(1, int(width * scale)), max(1, int(height * scale))


def upright_size(picture: Any) -> tuple[int, int]:
    """Width and height of an open picture as it is meant to be seen."""
    width, height = picture.size
    turned = picture.getexif().get(0x0112) in _TURNED
    return (height, width) if turned else (width, height)


def upright_rgb(picture: Any, size: tuple[int, int]) -> Picture:
    """An open picture decoded, made as small as ``size`` (before it is turned) and turned upright."""
    if picture.format == "JPEG":
        picture.draft(None, size)
    decoded = _as_rgb(picture)
    if decoded.width * decoded.height > 1.02 * size[0] * size[1]:
        decoded = decoded.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)
    return ImageOps.exif_transpose(_with_exif(decoded, picture))


def _count_frames(picture: Any, most: int) -> int:
    """Frames counted until one cannot be found (a damaged tail costs only itself)."""
    count = 1
    while count < most:
        try:
            picture.seek(count)
        except BROKEN:
            return count
        count += 1
    return count


def _different_frames(picture: Any) -> list[int]:
    """The first frame of a moving picture, and those that show something else than all before (as slides do)."""
    most = max(1, int(_GIF_MEGAPIXELS * 1e6 / (picture.width * picture.height)))
    kept: list[tuple[int, NDArray[np.int16]]] = []
    for index in range(most):
        try:
            picture.seek(index)
            small = np.asarray(picture.convert("L").resize((96, 96), Image.Resampling.BOX)).astype(np.int16)
        except BROKEN:
            break
        if all(float((np.abs(small - other) > _CHANGED).mean()) > _DIFFERENT for _, other in kept):
            kept.append((index, small))
        if len(kept) == _MOST_GIF_FRAMES:
            break
    return [index for index, _ in kept] or [0]


def _with_exif(decoded: Picture, source: Picture) -> Picture:
    """The decoded picture with the orientation the file gives."""
    orientation = source.getexif().get(0x0112)
    decoded.getexif()[0x0112] = orientation or 1
    return decoded


def _as_rgb(picture: Picture) -> Picture:
    """Eight bits a channel, on white where it is transparent."""
    if picture.mode in ("I;16", "I;16B", "I;16L", "I;16N", "I", "F"):
        picture = _eight_bits(picture)
    if picture.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in picture.info:
        clear = picture.convert("RGBA")
        paper = Image.new("RGB", picture.size, "white")
        paper.paste(clear, mask=clear.getchannel("A"))
        return paper
    return picture.convert("RGB")


def _eight_bits(picture: Picture) -> Picture:
    """Deep greys spread over eight bits; a plain cut would turn most of them white."""
    values = np.asarray(picture).astype(np.float32)
    top = 65535.0 if picture.mode.startswith("I;16") else max(1.0, float(np.nanmax(values)))
    if picture.mode == "F" and top <= 1.0:
        top = 1.0
    scaled = np.nan_to_num(values / top * 255.0)
    return Image.fromarray(np.clip(scaled, 0, 255).astype(np.uint8))


def _reason(error: BaseException) -> str:
    return str(error).rstrip(".").splitlines()[0][:120] if str(error) else type(error).__name__
