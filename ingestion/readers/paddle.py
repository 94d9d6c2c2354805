"""PaddleOCR as a cascade: a quick recogniser on every line, a careful one where that is not enough.

The only module that knows PaddleOCR. Detection and recognition run on ONNX Runtime; where its OpenVINO provider
and a CPU with bf16 are there, in bf16, which halves the time. One thread: the processes are the parallelism.
"""

from __future__ import annotations

import importlib.metadata
import logging
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

import cv2
import numpy as np

from ingestion.readers.ink import letter_height
from ingestion.readers.lines import Line, Pixels, Quad
from ingestion.readers.ocrmodels import Model, Models, speaks_europe

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from paddleocr import TextDetection, TextRecognition

# Thresholds from 2,144 lines of 44 pages: within 0.15 points of reading everything with care, at 60 % of its cost.
WEAK = 0.95  # a line under this score is read again with care,
DOUBTS = 2.5  # and so is one with so many characters in doubt: a long line hides them in its mean
HARD_PAGE = 0.15  # share of weak lines in the sample above which the whole page is read with care: choosing among
HARD_SHORT_PAGE = 0.1  # its lines costs as much and reads worse; less will do for a page of few lines
SHORT_PAGE = 60  # lines
SAMPLE = 16  # lines tried first
FOREIGN = 0.70  # a carefully read line under this score may be in a script that the cut recognisers lack
FOREIGN_TRIES = 4
DETECTION_SIDE = 1600  # pixels; a page is shrunk to it for finding its lines,
LARGE_PRINT_SIDES = (960, 1280)  # or to one of these where its letters are then still …
LARGE_PRINT_HEIGHT = 12  # … so many pixels high
SMALL_PRINT_SIDE = 2560  # where the lines found are lower than …
SMALL_PRINT_HEIGHT = 13  # … these pixels and the page has more to give, or the letters at once than …
SMALL_LETTERS = 6  # … these

LINE_HEIGHT = 48  # pixels a line is scaled to by the recognisers
NARROWED = 0.8  # of its width, at least: characters have room to spare, and the cost goes with the width
LEAST_WIDTH = 96  # pixels; shorter lines are put on paper of this width
PAPER_STEP = 64  # pixels; divides all sides above, and is a multiple of 32 as detection wants

_WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3001: ",", 0x3002: ".", 0x3000: " "}

Provider = Literal["openvino", "cpu"]


@dataclass(frozen=True, slots=True)
class Text:
    """A recognised line: what it says, how sure (0 to 1)."""

    text: str
    score: float


def import_paddleocr() -> ModuleType:
    """The library, imported late, over the headless OpenCV.

    PaddleX looks for the package ``opencv-contrib-python`` by name before it imports ``cv2``, and remembers the
    answer. Any OpenCV serves it, and ours is ``opencv-python-headless``, since the others want libGL and all unpack
    into one folder: so the headless one answers to both names while PaddleX is imported.
    """
    true_version = importlib.metadata.version

    def version(distribution_name: str) -> str:
        asked = distribution_name == "opencv-contrib-python"
        return true_version("opencv-python-headless" if asked else distribution_name)

    importlib.metadata.version = version
    try:
        import paddleocr
    finally:
        importlib.metadata.version = true_version
    return paddleocr


def best_provider() -> Provider:
    """OpenVINO where it pays: on CPUs without bf16 it is no faster than plain ONNX Runtime."""
    import onnxruntime

    has_openvino = "OpenVINOExecutionProvider" in onnxruntime.get_available_providers()
    return "openvino" if has_openvino and _has_bf16() else "cpu"


def _has_bf16() -> bool:
    if platform.system() != "Linux":
        return False
    try:
        flags = Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:
        return False
    return "avx512_bf16" in flags or "amx_bf16" in flags


def engine_config(provider: Provider) -> dict[str, Any]:
    """ONNX Runtime's settings. OpenVINO would pin the threads of all processes to the same core."""
    if provider == "cpu":
        return {"intra_op_num_threads": 1, "inter_op_num_threads": 1}
    options = '{"CPU":{"INFERENCE_PRECISION_HINT":"bf16","ENABLE_CPU_PINNING":"NO"}}'
    return {
        "providers": ["OpenVINOExecutionProvider", "CPUExecutionProvider"],
        "provider_options": [{"device_type": "CPU", "num_of_threads": "1", "load_config": options}, {}],
    }


def open_session(model: Path) -> InferenceSession:
    """Any ONNX model as the OCR's are run: on one thread, by the best provider there is."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    config = engine_config(best_provider())
    return onnxruntime.InferenceSession(
        model, options, config.get("providers", ["CPUExecutionProvider"]), config.get("provider_options")
    )


class Recogniser:
    """One of PaddleOCR's text recognition models, loaded when first asked."""

    def __init__(self, model: Model, provider: Provider) -> None:
        self._model = model
        self._provider: Provider = provider
        self._engine: TextRecognition | None = None

    def read(self, crops: Sequence[Pixels]) -> list[Text]:
        """The text of each crop (BGR). Crops go one by one: padding them to a batch costs more than it saves."""
        padded = [_in_step(piece) for piece in crops]
        results = self._loaded().predict(padded, batch_size=1) if padded else []
        return [Text(_narrow(str(found["rec_text"])), min(1.0, float(found["rec_score"]))) for found in results]

    def load(self) -> None:
        self._loaded()

    def _loaded(self) -> TextRecognition:
        if self._engine is None:
            engine: TextRecognition = import_paddleocr().TextRecognition(**_arguments(self._model, self._provider))
            self._engine = engine
        return self._engine


class PaddleEngine:
    """Finds lines and reads them. Pictures are BGR, as OpenCV and PaddleOCR have them."""

    def __init__(self, models: Models, provider: Provider | None = None) -> None:
        """Load detection and the quick recogniser; the others are loaded when first needed."""
        self.provider: Provider = provider or best_provider()
        logging.getLogger("paddlex").setLevel(logging.ERROR)
        self._detector = _load_detector(models.detector, self.provider)
        self._quick = Recogniser(models.quick, self.provider)
        self._careful = Recogniser(models.careful, self.provider) if models.careful != models.quick else self._quick
        self._full = Recogniser(models.full, self.provider) if models.full != models.careful else self._careful
        self._quick.load()

    def warm(self) -> Iterator[None]:
        """Load what is loaded late, and compile the networks for the shapes they will meet, a little at each step."""
        for width in (1236, 1131):  # Letter, A4
            self._detect(np.full((DETECTION_SIDE, width, 3), 255, np.uint8), DETECTION_SIDE)
            yield
        for recogniser in (self._careful, self._full):
            recogniser.load()
            yield
        for recogniser in (self._quick, self._careful):
            for width in (*range(LEAST_WIDTH, 641, 32), *range(704, 1281, 64)):
                recogniser.read([np.full((LINE_HEIGHT, width, 3), 255, np.uint8)])
                yield

    def find(self, image: Pixels) -> list[Quad]:
        """The corners of the lines on ``image``, from the top down."""
        longer = max(image.shape[:2])
        side = _detection_side(longer, letter_height(image))
        quads = self._detect(image, side)
        heights = [_thickness(quad) * min(1.0, side / longer) for quad in quads]
        if side < DETECTION_SIDE and heights and np.percentile(heights, 10) < SMALL_PRINT_HEIGHT:
            side = DETECTION_SIDE  # large letters, and small ones too
            quads = self._detect(image, side)
            heights = [_thickness(quad) * min(1.0, side / longer) for quad in quads]
        if heights and side == DETECTION_SIDE and longer > 1.25 * side and np.median(heights) < SMALL_PRINT_HEIGHT:
            return self._detect(image, SMALL_PRINT_SIDE)
        return quads

    def glance(self, image: Pixels, quads: Sequence[Quad], chosen: Sequence[int]) -> dict[int, Text]:
        """The ``chosen`` of the lines, by their index, read by the quick recogniser only."""
        crops = {i: piece for i, piece in zip(chosen, crop(image, [quads[i] for i in chosen]), strict=True)}
        return self._read_quickly({i: piece for i, piece in crops.items() if piece.size}, {})

    def read(self, image: Pixels, quads: Sequence[Quad], known: Mapping[int, Text] | None = None) -> list[Line]:
        """What stands in ``quads``, in their order; a line without text is left out. ``known`` is what ``glance``
        saw of the same lines: it is not read quickly again."""
        found = [(i, piece) for i, piece in enumerate(crop(image, quads)) if piece.size]
        seen = {place: known[i] for place, (i, _) in enumerate(found) if i in known} if known else {}
        texts = self._read_crops([piece for _, piece in found], seen)
        return [Line(t.text, t.score, quads[i]) for t, (i, _) in zip(texts, found, strict=True) if t.text.strip()]

    def _read_crops(self, crops: list[Pixels], known: Mapping[int, Text]) -> list[Text]:
        """Quick on a sample; where that comes back weak, careful on all; else careful on the weak lines."""
        if self._careful is self._quick:
            return self._with_foreign(crops, self._quick.read(crops))
        sample = _spread(len(crops), SAMPLE)
        quick = self._read_quickly({i: crops[i] for i in sample}, known)
        hard = HARD_SHORT_PAGE if len(crops) <= SHORT_PAGE else HARD_PAGE
        if sum(text.score < WEAK for text in quick.values()) > hard * len(sample):
            return self._with_foreign(crops, self._careful.read(crops))
        quick = self._read_quickly(dict(enumerate(crops)), {**known, **quick})
        weak = [i for i in range(len(crops)) if _is_doubtful(quick[i])]
        again = dict(zip(weak, self._careful.read([crops[i] for i in weak]), strict=True))
        return self._with_foreign(crops, [again.get(i, quick[i]) for i in range(len(crops))])

    def _read_quickly(self, crops: Mapping[int, Pixels], known: Mapping[int, Text]) -> dict[int, Text]:
        """The crops by the quick recogniser, but for those already known."""
        new = [i for i in crops if i not in known]
        texts = dict(zip(new, self._quick.read([crops[i] for i in new]), strict=True))
        return {i: texts[i] if i in texts else known[i] for i in crops}

    def _with_foreign(self, crops: list[Pixels], texts: list[Text]) -> list[Text]:
        """Lines in scripts that the cut recognisers lack, read by the full one: tried on a few first."""
        poor = sorted((i for i, text in enumerate(texts) if text.score < FOREIGN), key=lambda i: texts[i].score)
        if not poor or self._full is self._careful:
            return texts
        tried = poor[:FOREIGN_TRIES]
        better = dict(zip(tried, self._full.read([crops[i] for i in tried]), strict=True))
        if not any(_is_foreign(new) and new.score > texts[i].score for i, new in better.items()):
            return texts
        rest = poor[FOREIGN_TRIES:] if len(poor) < len(texts) / 2 else [i for i in range(len(texts)) if i not in better]
        better |= dict(zip(rest, self._full.read([crops[i] for i in rest]), strict=True))
        return [better[i] if i in better and better[i].score > old.score else old for i, old in enumerate(texts)]

    def _detect(self, image: Pixels, side: int) -> list[Quad]:
        from paddlex.inference.pipelines.components import SortQuadBoxes

        page, (height, width) = _to_size(image, side), image.shape[:2]
        scale = min(1.0, side / max(height, width))
        found = self._detector.predict(page, batch_size=1, limit_side_len=side, limit_type="max")[0]["dt_polys"]
        if not len(found):
            return []
        quads = [np.asarray(quad, np.float32) / scale for quad in SortQuadBoxes()(found)]
        return [np.clip(quad, 0, (width, height)).astype(np.float32) for quad in quads]


def crop(image: Pixels, quads: Sequence[Quad]) -> list[Pixels]:
    """The lines cut out and straightened; one that stands on end is laid down."""
    import_paddleocr()
    from paddlex.inference.pipelines.components import CropByPolys

    corners: Any = [quad.astype(np.int16) for quad in quads]
    pieces: Any = CropByPolys(det_box_type="quad")(image, corners) if quads else []
    return list(pieces)


def _in_step(piece: Pixels) -> Pixels:
    """The crop as high as the recognisers want it, narrowed, and in one of few widths: every new shape costs
    compiling the network for it, and memory."""
    height, width = piece.shape[:2]
    natural = LINE_HEIGHT * width / height
    step = 32 if natural <= 640 else 64 if natural <= 1280 else 128
    paper = max(LEAST_WIDTH, int(np.ceil(NARROWED * natural / step)) * step)
    wide = max(1, min(paper, round(natural)))
    how = cv2.INTER_AREA if height > LINE_HEIGHT else cv2.INTER_LINEAR
    scaled = cv2.resize(piece, (wide, LINE_HEIGHT), interpolation=how)
    return np.asarray(cv2.copyMakeBorder(scaled, 0, 0, 0, paper - wide, cv2.BORDER_REPLICATE), np.uint8)


def _detection_side(longer: int, letters: float) -> int:
    """To how many pixels a page with this longer side is shrunk for finding lines with letters of this height."""
    if letters and letters * DETECTION_SIDE / longer < SMALL_LETTERS and longer > 1.25 * DETECTION_SIDE:
        return SMALL_PRINT_SIDE
    sides = (side for side in LARGE_PRINT_SIDES if side < longer and letters * side / longer >= LARGE_PRINT_HEIGHT)
    return next(sides, DETECTION_SIDE)


def _to_size(image: Pixels, side: int) -> Pixels:
    """The page shrunk to ``side``, and on paper of one of few shapes, for the same reason."""
    scale = min(1.0, side / max(image.shape[:2]))
    if scale < 1.0:
        image = np.asarray(cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA), np.uint8)
    bottom, right = -image.shape[0] % PAPER_STEP, -image.shape[1] % PAPER_STEP
    return np.asarray(cv2.copyMakeBorder(image, 0, bottom, 0, right, cv2.BORDER_REPLICATE), np.uint8)


def _is_doubtful(text: Text) -> bool:
    return text.score < WEAK or (1 - text.score) * len(text.text) > DOUBTS


def _load_detector(model: Model, provider: Provider) -> TextDetection:
    # PaddleOCR's OCR pipeline uses these three
    return import_paddleocr().TextDetection(**_arguments(model, provider), thresh=0.3, box_thresh=0.6, unclip_ratio=1.5)


def _arguments(model: Model, provider: Provider) -> dict[str, Any]:
    return {
        "model_name": model.name,
        "model_dir": str(model.folder),
        "engine": "onnxruntime",
        "engine_config": engine_config(provider),
    }


def _thickness(quad: Quad) -> float:
    """The line's height in pixels, whichever way it runs."""
    return float(min(np.linalg.norm(quad[0] - quad[1]), np.linalg.norm(quad[1] - quad[2])))


def _narrow(text: str) -> str:
    """Wide forms as plain ones, but in Chinese, Japanese and Korean text, where they belong."""
    if any(character.isalpha() and not speaks_europe(character) for character in text):
        return text
    return text.translate(_WIDE)


def _spread(count: int, wanted: int) -> list[int]:
    """``wanted`` indices evenly over ``count``."""
    return sorted({int(i) for i in np.linspace(0, count - 1, min(count, wanted))}) if count else []


def _is_foreign(text: Text) -> bool:
    letters = [character for character in text.text if character.isalpha()]
    if len(text.text) > 3 and len(set(text.text)) < 3:
        return False  # a row of "二" is a ruling
    return bool(letters) and sum(not speaks_europe(character) for character in letters) > 0.3 * len(letters)
