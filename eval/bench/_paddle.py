"""Plain PaddleOCR with its defaults, in a process of its own, as what ours is held against.

``python -m eval.bench._paddle PICTURE…`` prints one JSON object a picture: its lines, seconds, CPU-seconds and the
largest resident memory so far. The first picture is read once before, unmeasured.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np
import psutil
from PIL import Image

from ingestion.readers.ocrmodels import find_models
from ingestion.readers.paddle import import_paddleocr


def main(pictures: list[str]) -> None:
    engine = _engine()
    engine.predict(_bgr(pictures[0]))
    me = psutil.Process()
    for picture in pictures:
        image = _bgr(picture)
        cpu, wall = _cpu(me), time.perf_counter()
        found = engine.predict(image)[0]
        seconds = {"wall": time.perf_counter() - wall, "cpu": _cpu(me) - cpu}
        print(json.dumps({"lines": _lines(found, image), "resident": me.memory_info().rss, **seconds}), flush=True)  # noqa: T201


def _engine() -> Any:
    """PP-OCRv6 small as PaddleOCR runs it when told nothing but where the models are."""
    models = find_models()
    return import_paddleocr().PaddleOCR(
        engine="onnxruntime",
        text_detection_model_name=models.detector.name,
        text_detection_model_dir=str(models.detector.folder),
        text_recognition_model_name=models.full.name,
        text_recognition_model_dir=str(models.full.folder),
        use_doc_orientation_classify=False,
        use_doc_unwarping=False,
        use_textline_orientation=False,
    )


def _bgr(picture: str) -> Any:
    return np.ascontiguousarray(np.asarray(Image.open(picture).convert("RGB"))[:, :, ::-1])


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def _lines(found: Any, image: Any) -> list[dict[str, Any]]:
    height, width = image.shape[:2]
    scale = np.array([width, height])
    boxes = [(np.asarray(poly) / scale) for poly in found["rec_polys"]]
    return [
        {"text": text, "score": float(score), "box": [*box.min(axis=0).tolist(), *box.max(axis=0).tolist()]}
        for text, score, box in zip(found["rec_texts"], found["rec_scores"], boxes, strict=True)
    ]


if __name__ == "__main__":
    main(sys.argv[1:])
