"""Writes a folder that vLLM serves as a Qwen3-VL: the real architecture, tiny, with random weights.

    python tiny_qwen3vl.py TOKENIZER_FOLDER MODEL_FOLDER

Runs in the environment that holds vLLM and transformers. The configuration comes from transformers'
own classes; no weights are written, since vLLM makes them up itself (``--load-format dummy``). What it
answers is gibberish, but its tokens, limits and errors are those of the model we build for.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from transformers import Qwen3VLConfig

# Qwen3-VL's own preprocessor: patches of 16, merged 2 x 2, between 64 and 16,384 visual tokens.
IMAGE_PROCESSOR = {
    "image_processor_type": "Qwen2VLImageProcessorFast",
    "processor_class": "Qwen3VLProcessor",
    "size": {"shortest_edge": 65536, "longest_edge": 16777216},
    "patch_size": 16,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}
VIDEO_PROCESSOR = IMAGE_PROCESSOR | {
    "video_processor_type": "Qwen3VLVideoProcessor",
    "size": {"shortest_edge": 4096, "longest_edge": 25165824},
}
CHAT_TEMPLATE = """\
{%- for message in messages %}{{ '<|im_start|>' + message.role + '\\n' }}
{%- if message.content is string %}{{ message.content }}{%- else %}{%- for part in message.content %}
{%- if part.type in ('image', 'image_url') %}{{ '<|vision_start|><|image_pad|><|vision_end|>' }}
{%- elif 'text' in part %}{{ part.text }}{%- endif %}{%- endfor %}{%- endif %}{{ '<|im_end|>\\n' }}
{%- endfor %}{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}"""


def configuration() -> Qwen3VLConfig:
    """Qwen3-VL with two layers of 128 and a vision tower two deep; token ids as in the tokenizer."""
    text = {
        "vocab_size": 151936,
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": True,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 5_000_000.0,
            "mrope_interleaved": True,
            "mrope_section": [8, 4, 4],
        },
    }
    vision = {
        "depth": 2,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_heads": 2,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "out_hidden_size": 128,
        "num_position_embeddings": 2304,
        "deepstack_visual_indexes": [0, 1],
    }
    config = Qwen3VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=True)
    config.architectures = ["Qwen3VLForConditionalGeneration"]
    config.dtype = "bfloat16"
    return config


def write_model(tokenizer: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    configuration().save_pretrained(folder)
    shutil.copy(tokenizer / "tokenizer.json", folder)
    tokens = json.loads((tokenizer / "tokenizer_config.json").read_text("utf-8"))
    texts = {
        "tokenizer_config.json": tokens | {"chat_template": CHAT_TEMPLATE},
        "preprocessor_config.json": IMAGE_PROCESSOR,
        "video_preprocessor_config.json": VIDEO_PROCESSOR,
        "generation_config.json": {"eos_token_id": [151645, 151643], "pad_token_id": 151643},
    }
    for name, value in texts.items():
        (folder / name).write_text(json.dumps(value, indent=1), "utf-8")
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, "utf-8")


if __name__ == "__main__":
    write_model(Path(sys.argv[1]), Path(sys.argv[2]))
