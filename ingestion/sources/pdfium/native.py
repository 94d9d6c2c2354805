"""PDFium's functions that are called once a character or once an object, with cheap prototypes.

pypdfium2's own prototypes convert arguments through ctypes objects and give up the interpreter's lock on
every call, which costs more than the calls themselves. These take plain numbers and addresses, keep the
interpreter's lock (each call lasts well under a microsecond) and can be driven by ``map``.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Iterable
from ctypes import c_int, c_ulong, c_void_p
from itertools import repeat
from typing import Any

import numpy as np
import pypdfium2.raw as raw
from numpy.typing import NDArray

Handle = int


def _cheap(function: Any, result: Any, *arguments: Any) -> Callable[..., Any]:
    address = ctypes.cast(function, c_void_p).value
    assert address is not None
    return ctypes.PYFUNCTYPE(result, *arguments)(address)


char_code = _cheap(raw.FPDFText_GetUnicode, ctypes.c_uint, c_void_p, c_int)
char_object = _cheap(raw.FPDFText_GetTextObject, ctypes.c_size_t, c_void_p, c_int)
char_unmapped = _cheap(raw.FPDFText_HasUnicodeMapError, c_int, c_void_p, c_int)
char_size = _cheap(raw.FPDFText_GetFontSize, ctypes.c_double, c_void_p, c_int)
char_weight = _cheap(raw.FPDFText_GetFontWeight, c_int, c_void_p, c_int)
char_box = _cheap(raw.FPDFText_GetCharBox, c_int, c_void_p, c_int, c_void_p, c_void_p, c_void_p, c_void_p)
char_origin = _cheap(raw.FPDFText_GetCharOrigin, c_int, c_void_p, c_int, c_void_p, c_void_p)
char_matrix = _cheap(raw.FPDFText_GetMatrix, c_int, c_void_p, c_int, c_void_p)

count_objects = _cheap(raw.FPDFPage_CountObjects, c_int, c_void_p)
page_object = _cheap(raw.FPDFPage_GetObject, ctypes.c_size_t, c_void_p, c_int)
count_form_objects = _cheap(raw.FPDFFormObj_CountObjects, c_int, c_void_p)
form_object = _cheap(raw.FPDFFormObj_GetObject, ctypes.c_size_t, c_void_p, c_ulong)
object_type = _cheap(raw.FPDFPageObj_GetType, c_int, c_void_p)
object_matrix = _cheap(raw.FPDFPageObj_GetMatrix, c_int, c_void_p, c_void_p)
object_bounds = _cheap(raw.FPDFPageObj_GetBounds, c_int, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p)
object_fill = _cheap(raw.FPDFPageObj_GetFillColor, c_int, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p)
object_stroke = _cheap(raw.FPDFPageObj_GetStrokeColor, c_int, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p)
picture_size = _cheap(raw.FPDFImageObj_GetImagePixelSize, c_int, c_void_p, c_void_p, c_void_p)
object_transparent = _cheap(raw.FPDFPageObj_HasTransparency, c_int, c_void_p)
text_mode = _cheap(raw.FPDFTextObj_GetTextRenderMode, c_int, c_void_p)
text_font = _cheap(raw.FPDFTextObj_GetFont, ctypes.c_size_t, c_void_p)
font_name = _cheap(raw.FPDFFont_GetBaseFontName, ctypes.c_size_t, c_void_p, c_void_p, ctypes.c_size_t)
font_flags = _cheap(raw.FPDFFont_GetFlags, c_int, c_void_p)
path_mode = _cheap(raw.FPDFPath_GetDrawMode, c_int, c_void_p, c_void_p, c_void_p)
path_segments = _cheap(raw.FPDFPath_CountSegments, c_int, c_void_p)
path_segment = _cheap(raw.FPDFPath_GetPathSegment, ctypes.c_size_t, c_void_p, c_int)
segment_point = _cheap(raw.FPDFPathSegment_GetPoint, c_int, c_void_p, c_void_p, c_void_p)
segment_type = _cheap(raw.FPDFPathSegment_GetType, c_int, c_void_p)
segment_close = _cheap(raw.FPDFPathSegment_GetClose, c_int, c_void_p)


def address_of(handle: Any) -> Handle:
    """The address behind one of pypdfium2's objects or raw handles."""
    value = ctypes.cast(getattr(handle, "raw", handle), c_void_p).value
    return value or 0


def collect(function: Callable[..., Any], handle: Handle, count: int, dtype: Any) -> NDArray[Any]:
    """``function(handle, i)`` for every i below ``count``."""
    return np.fromiter(map(function, repeat(handle), range(count)), dtype, count)


def fill(function: Callable[..., Any], handle: Handle, count: int, columns: int) -> NDArray[np.float64]:
    """A function that writes ``columns`` doubles through pointers, called for every i below ``count``."""
    values = np.zeros((count, columns))
    start, step = values.ctypes.data, 8 * columns
    pointers = [range(start + 8 * k, start + 8 * k + step * count, step) for k in range(columns)]
    drain(map(function, repeat(handle), range(count), *pointers))
    return values


def drain(calls: Iterable[object]) -> None:
    """Run an iterator for its effects."""
    deque(calls, maxlen=0)
