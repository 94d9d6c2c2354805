"""Settings from file and environment: the environment wins, typos do not pass, and messages name the culprit."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from assistant.core.errors import Misconfigured
from assistant.core.settings import Section, Settings, load_settings


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def toml(home: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        file = home / "perito.toml"
        file.write_text(text, "utf-8")
        return file

    return write


def refused(**overrides: Any) -> str:
    with pytest.raises(Misconfigured) as error:
        load_settings(**overrides)
    return str(error.value)


def test_without_file_and_variables_the_defaults_stand(home: Path) -> None:
    settings = load_settings()
    assert settings.home == home
    assert (settings.server.host, settings.server.port) == ("127.0.0.1", 8000)
    assert not settings.llm.configured
    assert not settings.vlm.configured
    assert settings.index.kind == "edge"


def test_the_environment_wins_over_the_file_key_by_key(
    toml: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    toml('[llm]\nbase_url = "http://file/v1"\nmodel = "file"\ntimeout = 7\n[server]\nport = 81\n')
    monkeypatch.setenv("PERITO_LLM__MODEL", "environment")
    settings = load_settings()
    assert settings.llm.base_url == "http://file/v1"
    assert settings.llm.model == "environment"
    assert settings.llm.timeout == 7
    assert settings.server.port == 81


def test_a_section_may_come_as_json(toml: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    toml("[llm]\ntimeout = 7\n")
    monkeypatch.setenv("PERITO_LLM", '{"base_url": "http://host/v1", "model": "m"}')
    monkeypatch.setenv("PERITO_AUTH__USERS", '[{"name": "ana", "password_hash": "h", "collections": [" legal "]}]')
    settings = load_settings()
    assert (settings.llm.base_url, settings.llm.timeout) == ("http://host/v1", 7)
    assert [(user.name, user.collections) for user in settings.auth.users] == [("ana", ["legal"])]


def test_overrides_stand_in_for_the_file_key_by_key(
    toml: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    toml("[server]\nport = 81\n[ocr]\ndpi = 150\n")
    settings = load_settings(server={"host": "::1"}, ocr={"dpi": 300})
    assert (settings.server.host, settings.server.port, settings.ocr.dpi) == ("::1", 81, 300)
    monkeypatch.setenv("PERITO_OCR__DPI", "96")
    assert load_settings(ocr={"dpi": 300}).ocr.dpi == 96


@pytest.mark.parametrize("name", ["PERITO_SERVER__PORT", "perito_server__port", "Perito_Server__Port"])
def test_a_variable_may_be_written_in_any_case(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "81")
    assert load_settings().server.port == 81


def test_an_empty_variable_counts_as_unset(toml: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    toml("[server]\nport = 81\n")
    for variable in ("PERITO_SERVER__PORT", "PERITO_LLM__BASE_URL", "PERITO_CONFIG"):
        monkeypatch.setenv(variable, "")
    assert load_settings().server.port == 81


# -- the home and the file --------------------------------------------------------------------


def test_the_home_is_an_absolute_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PERITO_HOME", "~/perito")
    assert load_settings().home == tmp_path / "perito"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERITO_HOME", "here")
    assert load_settings().home == tmp_path / "here"


def test_an_empty_home_is_the_usual_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.setenv("PERITO_HOME", "")
    assert load_settings().home.name == "perito"
    assert load_settings().home != Path.cwd()


def test_the_file_may_lie_elsewhere_and_name_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "etc.toml"
    file.write_text(f'home = "{tmp_path / "state"}"\n[server]\nport = 81\n')
    monkeypatch.setenv("PERITO_CONFIG", str(file))
    assert load_settings().home == tmp_path / "home"  # PERITO_HOME is set, too, and wins
    monkeypatch.delenv("PERITO_HOME")
    settings = load_settings()
    assert (settings.home, settings.server.port) == (tmp_path / "state", 81)


def test_a_file_from_windows_is_read(home: Path) -> None:
    (home / "perito.toml").write_bytes("[server]\r\nport = 81\r\n# año\r\n".encode("utf-8-sig"))
    assert load_settings().server.port == 81


def test_a_named_file_must_be_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PERITO_CONFIG", str(tmp_path / "none.toml"))
    assert "none.toml, which is not there" in refused()


def test_a_broken_file_is_named_with_its_line(toml: Callable[[str], Path]) -> None:
    file = toml("[server]\nport = = 81\n")
    assert f"{file} is not valid TOML" in refused()
    assert "line 2" in refused()


def test_a_home_that_is_no_path_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERITO_HOME", "~nobody-of-that-name/x")
    assert "no usable path" in refused()


# -- mistakes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[serverr]\nport = 81", "serverr (in {file}) is no setting; did you mean server?"),
        ("[server]\nprot = 81", "server.prot (in {file}) is no setting; did you mean port?"),
        ("[server]\nxyzzy = 81", "server.xyzzy (in {file}) is no setting. "),
        ("server = 81", "server (in {file}): Input should be a valid dictionary"),
        ("[server]\nport = 99999", "server.port (in {file}): Input should be less than or equal to 65535"),
        ('[llm]\nbase_url = "http://host"', "llm (in {file}): base_url is set, so model must be set too"),
        ('[vlm]\nbase_url = "host:8000"\nmodel = "m"', "base_url must begin with http"),
        ('[[auth.users]]\nname = "a"\npassword_hash = "h"\n' * 2, "two users have the same name"),
        ('[[auth.users]]\nname = "a"\npasword_hash = "h"', "auth.users.0.password_hash (in {file}): Field required"),
    ],
)
def test_a_mistake_in_the_file_is_named(toml: Callable[[str], Path], text: str, message: str) -> None:
    file = toml(text)
    assert message.format(file=file) in refused()


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("PERITO_SERVER__PORT", "many", "server.port (in PERITO_SERVER__PORT): Input should be a valid integer"),
        ("PERITO_LLM__BASE_ULR", "x", "llm.base_ulr (in PERITO_LLM__BASE_ULR) is no setting; did you mean base_url?"),
        ("PERITO_SERVER__PORT__X", "1", "server.port (in PERITO_SERVER__PORT__X)"),
        ("PERITO_SEVER__PORT", "1", "PERITO_SEVER__PORT is no setting of Perito. Did you mean PERITO_SERVER?"),
        ("perito_lmm__model", "m", "PERITO_LMM__MODEL is no setting of Perito"),
        ("PERITO_XYZZY", "1", "See `perito doctor`"),
        ("PERITO_LLM", "gpt", "PERITO_LLM holds more than one value and is not valid JSON"),
        ("PERITO_AUTH__USERS", "[{", "PERITO_AUTH__USERS holds more than one value and is not valid JSON"),
        ("PERITO_LOG_LEVEL", "LOUD", "log_level (in PERITO_LOG_LEVEL)"),
        ("PERITO_TRIAGE__OCR_MIN_CONFIDENCE", "85", "less than or equal to 1"),
        ("PERITO_LLM__TIMEOUT", "nan", "llm.timeout (in PERITO_LLM__TIMEOUT)"),
    ],
)
def test_a_mistake_in_the_environment_is_named(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert message in refused()


def test_all_mistakes_are_named_at_once(toml: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    toml("[ocr]\ndpi = 1\n")
    monkeypatch.setenv("PERITO_SERVER__PORT", "0")
    message = refused()
    assert "ocr.dpi" in message
    assert "server.port" in message


def test_no_value_is_repeated_in_a_message(monkeypatch: pytest.MonkeyPatch, toml: Callable[[str], Path]) -> None:
    toml('[llm]\napi_key = "hunter2"\nmodel = 3\n')
    monkeypatch.setenv("PERITO_VLM__API_KEY", "hunter2")
    monkeypatch.setenv("PERITO_VLM__TIMEOUT", "hunter2")
    assert "hunter2" not in refused()


def test_secrets_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("PERITO_LLM__API_KEY", "PERITO_AUTH__SECRET", "PERITO_INDEX__API_KEY"):
        monkeypatch.setenv(variable, "hunter2")
    settings = load_settings()
    assert "hunter2" not in repr(settings)
    assert "hunter2" not in str(settings.model_dump())
    assert settings.llm.api_key.get_secret_value() == "hunter2"


# -- the tree itself --------------------------------------------------------------------------


def every_field() -> list[tuple[str, Any]]:
    fields: list[tuple[str, Any]] = []

    def walk(path: str, section: type[BaseModel]) -> None:
        for name, field in section.model_fields.items():
            kind = field.annotation
            if isinstance(kind, type) and issubclass(kind, Section):
                walk(f"{path}{name}.", kind)
            else:
                fields.append((f"{path}{name}", field))

    walk("", Settings)
    return fields


@pytest.mark.parametrize(("path", "field"), every_field(), ids=[path for path, _ in every_field()])
def test_each_setting_has_a_sentence_and_each_number_bounds(path: str, field: Any) -> None:
    assert field.description, path
    assert field.description.endswith("."), path
    if field.annotation in (int, float):
        bounds = {type(constraint).__name__ for constraint in field.metadata}
        assert bounds & {"Ge", "Gt"}, path
        assert bounds & {"Le", "Lt"}, path


def test_settings_cannot_be_changed_afterwards() -> None:
    settings = load_settings()
    with pytest.raises(ValidationError):
        settings.log_level = "DEBUG"
    with pytest.raises(ValidationError):
        settings.server.port = 81  # type: ignore[misc]


def test_the_environment_itself_is_left_alone() -> None:
    before = dict(os.environ)
    load_settings()
    assert dict(os.environ) == before
