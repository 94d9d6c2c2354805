"""Pictures that people send: decoded safely, and fitted to a vision-language model's token budget.

Everything here decodes or encodes, so async callers go through ``asyncio.to_thread``.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from assistant.core.errors import BadInput, TooLarge, UnreadableFile, UnsupportedFile
from assistant.core.tokens import Family, fit_to_budget, visual_tokens

if TYPE_CHECKING:
    from PIL.Image import Image

MOST_MEGAPIXELS = 120  # decoded whole, this is 360 MB of memory
FLAT_COLOURS, FLAT_SHARE = 4, 0.6  # a picture that few colours cover is printed or drawn, not photographed
_ORIENTATION = 0x0112  # the EXIF tag that turns a photo upright
_MEDIA_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}


def encode_picture(image: Image, family: Family, max_tokens: int) -> bytes:
    """``image`` as a PNG or JPEG file of the largest size that costs at most ``max_tokens``.

    PNG where few colours cover the page (print, drawings: sharp and small), else JPEG without colour
    subsampling, which would blur small coloured type.
    """
    from PIL.Image import Resampling

    size = fit_to_budget(image.width, image.height, family, max_tokens)
    picture = image if image.mode in ("L", "RGB") else image.convert("RGB")
    if size != picture.size:
        picture = picture.resize(size, Resampling.LANCZOS, reducing_gap=3.0)
    file = io.BytesIO()
    if _is_flat(image):
        picture.save(file, "PNG", compress_level=4)
    else:
        picture.save(file, "JPEG", quality=90, subsampling=0)
    return file.getvalue()


def fit_picture(data: bytes, family: Family, max_tokens: int) -> tuple[bytes, int]:
    """The picture file to send for ``data`` and the visual tokens it costs.

    A PNG, JPEG or WebP file within the budget is sent as it is; anything else is turned upright,
    resized and encoded anew. Raises as ``decoded``.
    """
    import PIL.Image

    with _opened(data, MOST_MEGAPIXELS) as image:
        cost = visual_tokens(*image.size, family)
        if cost <= max_tokens and image.getexif().get(_ORIENTATION, 1) == 1:
            return data, cost
        fitted = encode_picture(_upright(image), family, max_tokens)
    with PIL.Image.open(io.BytesIO(fitted)) as sent:
        return fitted, visual_tokens(*sent.size, family)


def decoded(data: bytes, megapixels: int = MOST_MEGAPIXELS) -> Image:
    """A picture file's pixels, upright, RGB. Raises UnsupportedFile for what is no PNG, JPEG or WebP, TooLarge
    before decoding more than ``megapixels``, UnreadableFile for a damaged one."""
    with _opened(data, megapixels) as image:
        return _upright(image).convert("RGB")


@contextmanager
def _opened(data: bytes, megapixels: int) -> Generator[Image]:
    """The picture, its size known and its pixels not yet decoded; what goes wrong inside as errors of ours."""
    import PIL.Image

    try:
        with PIL.Image.open(io.BytesIO(data), formats=list(_MEDIA_TYPES)) as image:
            if image.width * image.height > megapixels * 1_000_000:
                raise TooLarge(f"The picture has {image.width} x {image.height} pixels", "Send a smaller one")
            yield image
    except BadInput:
        raise
    except (PIL.Image.DecompressionBombError, PIL.Image.DecompressionBombWarning):
        raise TooLarge("The picture has more pixels than can be decoded safely", "Send a smaller one") from None
    except PIL.Image.UnidentifiedImageError:
        raise UnsupportedFile("This is no PNG, JPEG or WebP picture", "Send it as one of these") from None
    except (OSError, ValueError, SyntaxError) as error:  # what Pillow raises on damaged files
        raise UnreadableFile(f"The picture could not be decoded: {error}", "Save it again and send the copy") from None


def _upright(image: Image) -> Image:
    from PIL import ImageOps

    return ImageOps.exif_transpose(_without_alpha(image))


def media_type(head: bytes) -> str:
    """What a file is by its first 12 bytes: a PNG, JPEG or WebP picture, or "" for anything else."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return _MEDIA_TYPES["PNG"]
    if head.startswith(b"\xff\xd8\xff"):
        return _MEDIA_TYPES["JPEG"]
    return _MEDIA_TYPES["WEBP"] if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else ""


def data_url(data: bytes) -> str:
    """A picture file as a ``data:`` URL with its media type (by content)."""
    return f"data:{media_type(data)};base64,{base64.b64encode(data).decode('ascii')}"


def _is_flat(image: Image) -> bool:
    """Whether few colours cover most of it, so that PNG is small and JPEG would only add noise."""
    side = 256
    sample = image.resize((side, side), 0).convert("RGB")  # nearest: no colours that were not there
    colours = sample.getcolors(side * side) or []
    commonest = sorted((count for count, _ in colours), reverse=True)[:FLAT_COLOURS]
    return sum(commonest) >= FLAT_SHARE * side * side


def _without_alpha(image: Image) -> Image:
    """Transparent pixels become white paper; converting alone would show what lies under them."""
    import PIL.Image

    if image.mode not in ("RGBA", "LA", "PA") and "transparency" not in image.info:
        return image
    layer = image.convert("RGBA")
    paper = PIL.Image.new("RGBA", layer.size, "white")
    paper.alpha_composite(layer)
    paper.info["exif"] = image.info.get("exif", b"")
    return paper.convert("RGB")
