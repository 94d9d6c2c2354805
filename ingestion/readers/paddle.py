"""PaddleOCR as a cascade: a quick recogniser on every line, a careful one where that is not enough.

The only module that knows PaddleOCR. Detection and recognition run on ONNX Runtime; where its OpenVINO provider
and a CPU with bf16 are there, in bf16, which halves the time. One thread: the processes are the parallelism.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ingestion.readers.lines import Line, Pixels, Quad
from ingestion.readers.ocrmodels import Model, Models, speaks_europe

if TYPE_CHECKING:
    from paddleocr import TextDetection, TextRecognition

WEAK = 0.95  # a line under this score is read again with care
HARD_PAGE = 0.2  # share of weak lines in the sample from which the whole page is read with care
SAMPLE = 16  # lines tried first
FOREIGN = 0.80  # a carefully read line under this score may be in a script that the cut recognisers lack
FOREIGN_TRIES = 4
DETECTION_SIDE = 1600  # pixels; a page is shrunk to it for finding its lines
SMALL_PRINT_SIDE = 2560  # where the lines found are lower than …
SMALL_PRINT_HEIGHT = 13  # … these pixels and the page has more to give

Provider = Literal["openvino", "cpu"]


@dataclass(frozen=True, slots=True)
class Text:
    """A recognised line: what it says, how sure (0 to 1)."""

    text: str
    score: float


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


class Recogniser:
    """One of PaddleOCR's text recognition models, loaded when first asked."""

    def __init__(self, model: Model, provider: Provider) -> None:
        self._model = model
        self._provider: Provider = provider
        self._engine: TextRecognition | None = None

    def read(self, crops: Sequence[Pixels]) -> list[Text]:
        """The text of each crop (BGR). Crops go one by one: padding them to a batch costs more than it saves."""
        results = self._loaded().predict(list(crops), batch_size=1) if crops else []
        return [Text(str(result["rec_text"]), min(1.0, float(result["rec_score"]))) for result in results]

    def load(self) -> None:
        self._loaded()

    def _loaded(self) -> TextRecognition:
        if self._engine is None:
            from paddleocr import TextRecognition

            self._engine = TextRecognition(**_arguments(self._model, self._provider))
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

    def find(self, image: Pixels) -> list[Quad]:
        """The corners of the lines on ``image``, from the top down."""
        quads = self._detect(image, DETECTION_SIDE)
        scale = DETECTION_SIDE / max(image.shape[:2])
        if quads and scale < 0.8 and np.median([_thickness(quad) for quad in quads]) * scale < SMALL_PRINT_HEIGHT:
            return self._detect(image, SMALL_PRINT_SIDE)
        return quads

    def glance(self, crops: Sequence[Pixels]) -> list[Text]:
        """The crops read by the quick recogniser only."""
        return self._quick.read(crops)

    def read(self, image: Pixels, quads: Sequence[Quad]) -> list[Line]:
        """What stands in ``quads``, in their order; a line without text is left out."""
        crops = crop(image, quads)
        texts = self._read_crops([piece for piece in crops if piece.size])
        found = [quad for quad, piece in zip(quads, crops, strict=True) if piece.size]
        return [Line(t.text, t.score, quad) for t, quad in zip(texts, found, strict=True) if t.text.strip()]

    def _read_crops(self, crops: list[Pixels]) -> list[Text]:
        """Quick on a sample; where that comes back weak, careful on all; else careful on the weak lines."""
        if self._careful is self._quick:
            return self._with_foreign(crops, self._quick.read(crops))
        sample = set(_spread(len(crops), SAMPLE))
        quick = dict(zip(sorted(sample), self._quick.read([crops[i] for i in sorted(sample)]), strict=True))
        if sum(text.score < WEAK for text in quick.values()) > HARD_PAGE * len(sample):
            return self._with_foreign(crops, self._careful.read(crops))
        rest = [i for i in range(len(crops)) if i not in sample]
        quick |= dict(zip(rest, self._quick.read([crops[i] for i in rest]), strict=True))
        weak = [i for i in range(len(crops)) if quick[i].score < WEAK]
        again = dict(zip(weak, self._careful.read([crops[i] for i in weak]), strict=True))
        return self._with_foreign(crops, [again.get(i, quick[i]) for i in range(len(crops))])

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

        found = self._detector.predict(image, batch_size=1, limit_side_len=side, limit_type="max")[0]["dt_polys"]
        return [np.asarray(quad, np.float32) for quad in SortQuadBoxes()(found)] if len(found) else []


def crop(image: Pixels, quads: Sequence[Quad]) -> list[Pixels]:
    """The lines cut out and straightened; one that stands on end is laid down."""
    from paddlex.inference.pipelines.components import CropByPolys

    corners: Any = [quad.astype(np.int16) for quad in quads]
    pieces: Any = CropByPolys(det_box_type="quad")(image, corners) if quads else []
    return list(pieces)


def _load_detector(model: Model, provider: Provider) -> TextDetection:
    from paddleocr import TextDetection

    # PaddleOCR's OCR pipeline uses these three
    return TextDetection(**_arguments(model, provider), thresh=0.3, box_thresh=0.6, unclip_ratio=1.5)


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


def _spread(count: int, wanted: int) -> list[int]:
    """``wanted`` indices evenly over ``count``."""
    return sorted({int(i) for i in np.linspace(0, count - 1, min(count, wanted))}) if count else []


def _is_foreign(text: Text) -> bool:
    letters = [character for character in text.text if character.isalpha()]
    return bool(letters) and sum(not speaks_europe(character) for character in letters) > 0.3 * len(letters)
