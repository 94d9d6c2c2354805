"""The compose files and the settings example say only what their readers understand: the compose specification's
schema, the settings, the Dockerfile and vLLM's client side. Docker itself does not run here."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

import jsonschema
import pytest
import yaml

from assistant.core.settings import Settings, load_settings
from tests.documents import DATA, ROOT

COMPOSE = ROOT / "compose"
FILES = sorted(COMPOSE.glob("compose*.yaml"))


def parsed(name: str) -> dict[str, Any]:
    return yaml.safe_load((COMPOSE / name).read_text("utf-8"))


def flags(service: dict[str, Any]) -> dict[str, str]:
    """--name=value arguments of a service's command; a bare flag has the value ''."""
    return dict((*argument.removeprefix("--").split("=", 1), "")[:2] for argument in service["command"][1:])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_keeps_to_the_compose_specification(file):
    schema = json.loads((DATA / "compose-spec.json").read_text("utf-8"))
    validator = jsonschema.Draft7Validator(schema)
    assert [error.message for error in validator.iter_errors(parsed(file.name))] == []


def test_the_schema_finds_a_misspelt_key():
    schema = json.loads((DATA / "compose-spec.json").read_text("utf-8"))
    broken = parsed("compose.yaml")
    broken["services"]["perito"]["helthcheck"] = {}
    assert not jsonschema.Draft7Validator(schema).is_valid(broken)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_names_only_what_it_defines(file):
    compose = parsed(file.name)
    for name, service in compose["services"].items():
        assert set(service.get("networks", [])) <= set(compose.get("networks", {})), name
        assert set(service.get("depends_on", {})) <= set(compose["services"]), name
        mounted = {volume.split(":")[0] for volume in service.get("volumes", [])}
        assert mounted <= set(compose["volumes"]), name
        assert {config["source"] for config in service.get("configs", [])} <= set(compose["configs"]), name


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_pins_every_image_and_publishes_to_this_machine_only(file):
    for name, service in parsed(file.name)["services"].items():
        tag = service["image"].rpartition(":")[2]
        assert re.match(r"v?\d", tag), f"{name}: {service['image']} is not pinned"
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_service_that_stays_is_watched_bounded_and_restarted(file):
    dockerfile = (COMPOSE / "perito.Dockerfile").read_text("utf-8")
    for name, service in parsed(file.name)["services"].items():
        if service.get("profiles"):
            continue
        assert service["restart"] == "unless-stopped", name
        assert "max-size" in service["logging"]["options"], name
        assert "healthcheck" in service or ("build" in service and "HEALTHCHECK" in dockerfile), name
        assert "limits" in service["deploy"]["resources"] or "devices" in service["deploy"]["resources"]["reservations"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_what_is_built_exists(file):
    for service in parsed(file.name)["services"].values():
        if build := service.get("build"):
            context = (COMPOSE / build["context"]).resolve()
            assert (context / build["dockerfile"]).is_file()
            assert (context / build.get("args", {}).get("LOCK", "requirements.txt")).is_file()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_perito_understands_the_environment_it_is_given(file, monkeypatch, tmp_path):
    secrets = {"DATABASE_PASSWORD": "dbpass", "INDEX_KEY": "indexkey", "INFERENCE_KEY": "inferencekey"}
    (tmp_path / "perito.toml").write_bytes((COMPOSE / "perito.example.toml").read_bytes())
    for service in parsed(file.name)["services"].values():
        if not service["image"].startswith("perito:"):
            continue
        for name, value in service["environment"].items():
            filled = re.sub(r"\$\{(\w+)[^}]*\}", lambda match: secrets[match[1]], value)
            monkeypatch.setenv(name, filled)
        monkeypatch.setenv("PERITO_CONFIG", str(tmp_path / "perito.toml"))
        settings = load_settings()
        assert settings.server.host == "0.0.0.0"
        assert settings.auth.users, "or it would refuse to listen there"


def test_every_secret_is_asked_for_and_none_is_written_down():
    text = (COMPOSE / "compose.gpu.yaml").read_text("utf-8")
    asked = set(re.findall(r"\$\{(\w+):\?", text))
    example = dict(
        line.split("=", 1) for line in (COMPOSE / "gpu.env.example").read_text().splitlines() if "=" in line[:40]
    )
    assert set(re.findall(r"\$\{(\w+)", text)) == asked == set(example)
    assert not any(example.values())


def test_the_model_server_allows_what_the_settings_count_on(monkeypatch):
    services = parsed("compose.gpu.yaml")["services"]
    vllm = flags(services["vllm"])
    environment = services["assistant"]["environment"]
    assert json.loads(vllm["limit-mm-per-prompt"])["image"] == int(environment["PERITO_VLM__IMAGES_PER_PROMPT"])
    assert vllm["served-model-name"] == environment["PERITO_VLM__MODEL"] == environment["PERITO_LLM__MODEL"]
    settings = load_settings().vlm
    largest = json.loads(vllm["mm-processor-kwargs"])["size"]["longest_edge"]
    assert largest >= settings.max_visual_tokens * 32 * 32  # Qwen3-VL: 1,024 pixels a token
    page = settings.max_visual_tokens + settings.max_tokens
    assert int(vllm["max-model-len"]) >= 2 * page
    cards = services["vllm"]["deploy"]["resources"]["reservations"]["devices"][0]["count"]
    assert int(vllm["data-parallel-size"]) * int(vllm["tensor-parallel-size"]) == cards
    wanted = int(environment["PERITO_VLM__CONCURRENCY"]) + int(environment["PERITO_LLM__CONCURRENCY"])
    assert wanted <= int(vllm["max-num-seqs"]) * int(vllm["data-parallel-size"])


def test_the_qdrant_server_is_of_the_locked_clients_minor_version():
    image = parsed("compose.gpu.yaml")["services"]["qdrant"]["image"]
    locked = re.search(r"^qdrant-client==(\d+\.\d+)", (ROOT / "requirements-cluster.txt").read_text(), re.M)
    assert locked and image.startswith(f"qdrant/qdrant:v{locked[1]}.")


def test_the_settings_example_is_loadable_and_names_every_key_rightly(monkeypatch):
    file = COMPOSE / "perito.example.toml"
    monkeypatch.setenv("PERITO_CONFIG", str(file))
    assert [user.name for user in load_settings().auth.users] == ["ana"]

    uncommented = re.sub(r"^# (\w+ = )", r"\1", file.read_text("utf-8"), flags=re.M)
    defaults = Settings.model_fields
    for section, values in tomllib.loads(uncommented).items():
        assert section in defaults
        if not isinstance(values, dict) or section == "auth":
            continue
        model = type(defaults[section].default)
        for key in values:
            assert key in model.model_fields, f"[{section}] {key} is no setting"


def test_the_settings_example_shows_the_defaults(monkeypatch):
    uncommented = re.sub(r"^# (\w+ = )", r"\1", (COMPOSE / "perito.example.toml").read_text("utf-8"), flags=re.M)
    suggestions = {(section, key) for section in ("llm", "vlm", "transcription") for key in ("base_url", "model")}
    for section, values in tomllib.loads(uncommented).items():
        if not isinstance(values, dict) or section == "auth":
            continue
        default = Settings.model_fields[section].default.model_dump()
        for key, value in values.items():
            shown = default[key].get_secret_value() if hasattr(default[key], "get_secret_value") else default[key]
            assert (section, key) in suggestions or value == shown, f"[{section}] {key}: {value} is not {shown}"
