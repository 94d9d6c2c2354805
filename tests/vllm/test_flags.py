"""The flags we tell people to start vLLM with, held against vLLM's own parser."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.documents import ROOT

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

SCRIPT = Path(__file__).with_name("parse_flags.py")
WRONG = ["Qwen/Qwen3-VL-8B-Instruct-FP8", "--no-such-flag", "1"]
NO_JSON = ["Qwen/Qwen3-VL-8B-Instruct-FP8", "--limit-mm-per-prompt", "{image: 4"]


def commands() -> dict[str, list[str]]:
    """The command of every vLLM service in the compose files, by file and service."""
    found: dict[str, list[str]] = {}
    for file in sorted((ROOT / "compose").glob("*.y*ml")):
        services = yaml.safe_load(file.read_text("utf-8")).get("services") or {}
        for name, service in services.items():
            if "vllm" in str(service.get("image", "")) and "entrypoint" not in service:
                found[f"{file.name}:{name}"] = [str(part) for part in service["command"]]
    return found


@pytest.fixture(scope="module")
def verdicts(vllm_python: Path) -> dict[str, dict[str, Any]]:
    """What the parser says of each command: "parsed" or "error". One process: vLLM takes long to import."""
    asked = commands() | {"wrong": WRONG, "no json": NO_JSON}
    done = subprocess.run(
        [vllm_python, SCRIPT],
        input=json.dumps(list(asked.values())),
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    return dict(zip(asked, json.loads(done.stdout.splitlines()[-1]), strict=True))


def test_the_compose_files_flags_are_understood(verdicts: dict[str, dict[str, Any]]) -> None:
    assert commands(), "no vLLM service in the compose files"
    for place in commands():
        assert "parsed" in verdicts[place], verdicts[place]
        taken = verdicts[place]["parsed"]
        assert "Qwen3-VL" in str(taken["model_tag"] or taken["model"]), place
        assert taken["limit_mm_per_prompt"], place
        assert taken["enable_prompt_tokens_details"], f"{place}: without it pictures' tokens are not reported"


def test_flags_that_vllm_does_not_understand_are_caught(verdicts: dict[str, dict[str, Any]]) -> None:
    assert "unrecognized arguments: --no-such-flag" in verdicts["wrong"]["error"]
    assert "--limit-mm-per-prompt" in verdicts["no json"]["error"]
