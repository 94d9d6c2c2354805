"""The OCR's models as folders in PaddleOCR's layout: ``inference.onnx`` beside ``inference.yml``.

*small* comes inside the rapidocr wheel, *tiny* beside this module (``models/``, licence there). The folders
are made at first use under the user's cache, named by what is in them, so processes that make the same one at
the same time do not disturb each other. ``ocr.models`` names a folder with other models instead.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import platformdirs

from assistant.core.errors import Misconfigured
from ingestion.readers.onnxcut import NotCuttable, cut_recogniser, read_characters

VERSION = "4"  # of what is made here; part of the folders' names

DETECTION_YML = """Global:
  model_name: {name}
PreProcess:
  transform_ops:
  - DecodeImage: {{channel_first: false, img_mode: BGR}}
  - DetResizeForTest: {{resize_long: 960}}
  - NormalizeImage: {{mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225], scale: 1./255., order: hwc}}
  - ToCHWImage: null
  - KeepKeys: {{keep_keys: [image, shape]}}
PostProcess:
  name: DBPostProcess
  thresh: 0.3
  box_thresh: 0.6
  max_candidates: 3000
  unclip_ratio: 1.5
"""

# Least width of a line: ours are wide enough as they come; PaddleOCR would put short ones on paper of 320.
RECOGNITION_YML = """Global:
  model_name: {name}
PreProcess:
  transform_ops:
  - DecodeImage: {{channel_first: false, img_mode: BGR}}
  - MultiLabelEncode: {{gtc_encode: NRTRLabelEncode}}
  - RecResizeImg: {{image_shape: [3, 48, 96]}}
  - KeepKeys: {{keep_keys: [image, label_ctc, label_gtc, length, valid_ratio]}}
PostProcess:
  name: CTCLabelDecode
  character_dict:
"""


@dataclass(frozen=True, slots=True)
class Model:
    """One model as PaddleOCR wants it: its official name and its folder."""

    name: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Models:
    """The models the cascade works with. ``full`` reads every script; the other two may be cut to those of
    Europe. Any two may be the same."""

    detector: Model
    quick: Model  # reads every line
    careful: Model  # reads again what came back weak
    full: Model

    @property
    def recognisers(self) -> tuple[Model, ...]:
        return self.quick, self.careful, self.full


def find_models(folder: str = "", cache: Path | None = None) -> Models:
    """The models in ``folder``, or those that came with Perito where it is empty. Misconfigured where the
    folder lacks a detector or a recogniser."""
    return _given_models(Path(folder).expanduser()) if folder else _bundled_models(cache or _cache_folder())


def speaks_europe(character: str) -> bool:
    """Whether a character can stand in a document written in a Latin or Greek script: letters, digits,
    punctuation, currencies, mathematics, bullets and check marks, and no emoji. Wide punctuation stays too:
    the models take many a plain comma or colon for it, and would drop the mark if they could not say so."""
    code = ord(character[0])
    if 0xFF01 <= code <= 0xFF5E or code in (0x3001, 0x3002):
        return True
    if code < 0x2300 or 0x2460 <= code <= 0x2473 or 0x25A0 <= code <= 0x25FF or 0x2610 <= code <= 0x2612:
        return not unicodedata.name(character[0], "").startswith(("CJK", "COPTIC"))
    return code in (0x2605, 0x2606, 0x260E, 0x2713, 0x2714, 0x2715, 0x2716, 0x2718)


def _cache_folder() -> Path:
    return platformdirs.user_cache_path("perito", appauthor=False) / "ocr"


def _bundled_models(cache: Path) -> Models:
    rapid = Path(str(files("rapidocr"))) / "models"
    ours = Path(str(files("ingestion.readers"))) / "models"
    small = _read(rapid / "PP-OCRv6_rec_small.onnx")
    return Models(
        detector=_detector("PP-OCRv6_small_det", _read(rapid / "PP-OCRv6_det_small.onnx"), cache),
        quick=_recogniser("PP-OCRv6_tiny_rec", _read(ours / "PP-OCRv6_rec_tiny.onnx"), cache, speaks_europe),
        careful=_recogniser("PP-OCRv6_small_rec", small, cache, speaks_europe),
        full=_recogniser("PP-OCRv6_small_rec", small, cache, None),
    )


def _given_models(folder: Path) -> Models:
    def first(kind: str, *sizes: str) -> Model:
        for size in sizes:
            name = f"PP-OCRv6_{size}_{kind}"
            if (folder / name / "inference.onnx").is_file() and (folder / name / "inference.yml").is_file():
                return Model(name, folder / name)
        raise Misconfigured(
            f"ocr.models names {folder}, where no PP-OCRv6_{{tiny,small,medium}}_{kind} is",
            "Put PaddleOCR's ONNX models there (inference.onnx and inference.yml each), or leave the setting empty",
        )

    careful = first("rec", "medium", "small", "tiny")
    return Models(
        detector=first("det", "small", "medium", "tiny"),
        quick=first("rec", "tiny", "small", "medium"),
        careful=careful,
        full=careful,
    )


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise Misconfigured(
            f"The OCR model {file.name} is missing: {error.strerror or error}", "Install Perito again"
        ) from error


def _detector(name: str, model: bytes, cache: Path) -> Model:
    return _folder(name, model, "", cache, lambda: (model, DETECTION_YML.format(name=name)))


def _recogniser(name: str, model: bytes, cache: Path, wanted: Callable[[str], bool] | None) -> Model:
    def make() -> tuple[bytes, str]:
        try:
            made = model if wanted is None else cut_recogniser(model, wanted)
        except NotCuttable:  # another version's file: slower whole, but right
            made = model
        return made, RECOGNITION_YML.format(name=name) + _dictionary(made)

    return _folder(name, model, "" if wanted is None else "-cut", cache, make)


def _dictionary(model: bytes) -> str:
    return "".join(f"  - '{_quoted(character)}'\n" for character in read_characters(model))


def _quoted(character: str) -> str:
    return character.replace("'", "''")


def _folder(name: str, model: bytes, suffix: str, cache: Path, make: Callable[[], tuple[bytes, str]]) -> Model:
    """The folder named by the model's hash, made where it is not there yet: built aside, then moved."""
    digest = hashlib.sha256(VERSION.encode() + model).hexdigest()[:12]
    folder = cache / f"{name}{suffix}-{digest}"
    if not (folder / "inference.yml").is_file():
        onnx, yml = make()
        cache = _writable(cache)
        folder = cache / folder.name
        aside = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=cache))
        (aside / "inference.onnx").write_bytes(onnx)
        (aside / "inference.yml").write_text(yml, "utf-8")
        try:
            aside.rename(folder)
        except OSError:  # another process was first
            shutil.rmtree(aside, ignore_errors=True)
    return Model(name, folder)


def _writable(cache: Path) -> Path:
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Misconfigured(
            f"The OCR's models cannot be unpacked to {cache}: {error.strerror or error}",
            "Make that folder writable, or set XDG_CACHE_HOME to one that is",
        ) from error
    return cache
