"""Filled form fields and written notes: text that people see on the page and that is not in its text."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pypdfium2 as pdfium
import pypdfium2.raw as raw

from ingestion.sources.pdfium.geometry import Geometry

_MOST_ANNOTATIONS = 5_000
_MOST_CHARACTERS = 20_000  # of one value
_NOT_SHOWN = raw.FPDF_ANNOT_FLAG_HIDDEN | raw.FPDF_ANNOT_FLAG_NOVIEW
_PASSWORD_FIELD = 1 << 13


@dataclass(frozen=True, slots=True)
class Field:
    """A value with its place, (x0, y0, x1, y1) in points as shown."""

    text: str
    box: tuple[float, float, float, float]


def read_fields(document: pdfium.PdfDocument, page: pdfium.PdfPage, geometry: Geometry) -> tuple[Field, ...]:
    """Values of form fields (a ticked box as ☒, an empty one as nothing) and the text of free-text notes.
    Call under the lock."""
    count = min(raw.FPDFPage_GetAnnotCount(page), _MOST_ANNOTATIONS)
    found: list[Field] = []
    for index in range(max(0, count)):
        with _annotation(page, index) as annotation:
            text = _text_of(document, annotation) if annotation else ""
            if text:
                found.append(Field(text, _place(annotation, geometry)))
    return tuple(found)


@contextmanager
def _annotation(page: pdfium.PdfPage, index: int) -> Generator[Any]:
    annotation = raw.FPDFPage_GetAnnot(page, index)
    try:
        yield annotation
    finally:
        if annotation:
            raw.FPDFPage_CloseAnnot(annotation)


def _text_of(document: pdfium.PdfDocument, annotation: Any) -> str:
    if raw.FPDFAnnot_GetFlags(annotation) & _NOT_SHOWN:
        return ""
    kind = raw.FPDFAnnot_GetSubtype(annotation)
    if kind == raw.FPDF_ANNOT_FREETEXT:
        return _string(lambda buffer, size: raw.FPDFAnnot_GetStringValue(annotation, b"Contents", buffer, size))
    if kind != raw.FPDF_ANNOT_WIDGET or document.formenv is None:
        return ""
    return _value(document.formenv.raw, annotation)


def _value(form: Any, annotation: Any) -> str:
    kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
    if kind in (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON):
        return "☒" if raw.FPDFAnnot_IsChecked(form, annotation) else ""
    if kind not in (raw.FPDF_FORMFIELD_TEXTFIELD, raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX):
        return ""
    if raw.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD_FIELD and kind == raw.FPDF_FORMFIELD_TEXTFIELD:
        return ""
    return _string(lambda buffer, size: raw.FPDFAnnot_GetFormFieldValue(form, annotation, buffer, size))


def _string(read: Callable[[Any, int], int]) -> str:
    """A UTF-16 value through PDFium's two calls: how long, then the bytes."""
    size = min(read(None, 0), 2 * _MOST_CHARACTERS)
    if size <= 2:
        return ""
    buffer = ctypes.create_string_buffer(size)
    read(ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)), size)
    return buffer.raw.decode("utf-16-le", errors="ignore").split("\0")[0].strip()


def _place(annotation: Any, geometry: Geometry) -> tuple[float, float, float, float]:
    rectangle = raw.FS_RECTF()
    raw.FPDFAnnot_GetRect(annotation, rectangle)
    box = geometry.boxes(np.array([[rectangle.left, rectangle.right, rectangle.bottom, rectangle.top]]))[0]
    return float(box[0]), float(box[1]), float(box[2]), float(box[3])
