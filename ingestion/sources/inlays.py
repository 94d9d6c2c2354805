"""Pictures within a text: measured from their header, decoded only when their page is drawn."""

from __future__ import annotations

import io
from collections.abc import Callable

from PIL import Image
from PIL.Image import Image as Picture

from assistant.core.errors import PeritoError, UnreadableFile
from assistant.core.settings import LimitSettings
from ingestion.sources.pictures import BROKEN, PILLOWS_OWN, upright_rgb, upright_size
from ingestion.sources.sections import Inlay

_LEAST_SIDE, _LEAST_PIXELS = 24, 4_000  # what is smaller is an icon, a bullet or a tracking pixel
_SMALLER_FROM = 150  # dpi below which a smaller picture is wanted
_LONG_SIDE_INCHES = 11.69


def inlay_of(load: Callable[[], bytes], limits: LimitSettings) -> Inlay | None:
    """The picture, or None where it cannot be read, is over the limit, or is too small to show anything."""
    try:
        with Image.open(io.BytesIO(load()), formats=PILLOWS_OWN) as picture:
            width, height = upright_size(picture)
    except (PeritoError, Image.UnidentifiedImageError, *BROKEN):
        return None
    small = min(width, height) < _LEAST_SIDE or width * height < _LEAST_PIXELS
    return None if small or width * height > limits.image_megapixels * 1e6 else Inlay(load, width, height)


def draw_inlay(inlay: Inlay, limits: LimitSettings, dpi: float = _SMALLER_FROM) -> Picture:
    """The picture upright, RGB, within ``limits.render_megapixels``; smaller where ``dpi`` is below 150.
    UnreadableFile."""
    try:
        with Image.open(io.BytesIO(inlay.load()), formats=PILLOWS_OWN) as picture:
            scale = min(1.0, (limits.render_megapixels * 1e6 / (inlay.width * inlay.height)) ** 0.5)
            if dpi < _SMALLER_FROM:
                scale = min(scale, dpi * _LONG_SIDE_INCHES / max(inlay.width, inlay.height))
            size = max(1, int(picture.width * scale)), max(1, int(picture.height * scale))
            return upright_rgb(picture, size)
    except (Image.UnidentifiedImageError, *BROKEN) as error:
        raise UnreadableFile(f"A picture in the text cannot be read ({error})") from None
