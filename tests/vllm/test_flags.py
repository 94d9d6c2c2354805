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


def parse(python: Path, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([python, SCRIPT, *arguments], capture_output=True, text=True, timeout=600)


def parsed(python: Path, arguments: list[str]) -> dict[str, Any]:
    done = parse(python, arguments)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def commands() -> dict[str, list[str]]:
    """The command of every vLLM service in the compose files, by file and service."""
    found: dict[str, list[str]] = {}
    for file in sorted((ROOT / "compose").glob("*.y*ml")):
        services = yaml.safe_load(file.read_text("utf-8")).get("services") or {}
        for name, service in services.items():
            if "vllm" in str(service.get("image", "")) and "entrypoint" not in service:
                found[f"{file.name}:{name}"] = [str(part) for part in service["command"]]
    return found


def test_the_gpu_compose_files_flags_are_understood(vllm_python: Path) -> None:
    assert commands(), "no vLLM service in the compose files"
    for place, command in commands().items():
        taken = parsed(vllm_python, command)
        assert "Qwen3-VL" in str(taken["model_tag"] or taken["model"]), place
        assert taken["limit_mm_per_prompt"], place
        assert taken["enable_prompt_tokens_details"], f"{place}: without it pictures' tokens are not reported"


def test_a_flag_that_vllm_does_not_know_is_caught(vllm_python: Path) -> None:
    done = parse(vllm_python, ["Qwen/Qwen3-VL-8B-Instruct-FP8", "--no-such-flag", "1"])
    assert done.returncode == 2
    assert "unrecognized arguments: --no-such-flag" in done.stderr
