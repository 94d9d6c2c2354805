"""What transformers' own ``smart_resize`` makes of sizes, for comparison with ours.

    python reference_sizes.py < SIZES.json > REFERENCE.json

Runs in the environment that holds transformers. Takes ``[[width, height], …]`` and gives
``[{"size": [w, h], "qwen3-vl": [w, h], "qwen2.5-vl": [w, h]}, …]`` with the families' published bounds.
"""

from __future__ import annotations

import json
import sys

from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize

BOUNDS = {"qwen3-vl": (32, 65_536, 16_777_216), "qwen2.5-vl": (28, 3_136, 12_845_056)}


def reference(width: int, height: int) -> dict[str, object]:
    resized = {
        family: list(reversed(smart_resize(height, width, factor=cell, min_pixels=low, max_pixels=high)))
        for family, (cell, low, high) in BOUNDS.items()
    }
    return {"size": [width, height], **resized}


if __name__ == "__main__":
    json.dump([reference(*size) for size in json.load(sys.stdin)], sys.stdout)
