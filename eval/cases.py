"""Evaluation cases: questions with what is known about their answers, from YAML or JSONL files.

A case is `question` and any of: `file` (a document's name; folders before it are ignored), `page`, `evidence`
(verbatim text), `answer`, `unanswerable: true`, `lang`, `collection`, `id`. Other keys are kept out of it, so
the public sets can be read as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from assistant.core.errors import BadRequest, NotFound

ADVICE = "See eval/cases.py for the keys of a case"


class Case(BaseModel):
    """One question; what is not known about it is empty, and metrics that need it leave the case out."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    question: str = Field(min_length=1)
    id: str = ""
    file: str = ""
    page: int | None = Field(None, ge=1)
    evidence: str = ""
    answer: str = ""
    unanswerable: bool = False
    lang: str = ""
    answer_kind: str = ""

    @model_validator(mode="before")
    @classmethod
    def _tidy(cls, values: Any) -> Any:
        """Nulls are as good as absent; the public set marks what has no answer by its kind."""
        if not isinstance(values, dict):
            return values
        given = {key: value for key, value in cast("dict[str, Any]", values).items() if value is not None}
        kind = str(given.get("answer_kind", "")).lower()
        if kind in ("unanswerable", "none", "no answer") or given.get("answerable") is False:
            given["unanswerable"] = True
        for key in ("id", "answer", "evidence"):
            if key in given:
                given[key] = str(given[key])
        return given

    @property
    def document(self) -> str:
        """The document's name without its folders, as a citation gives it."""
        return PurePosixPath(self.file.replace("\\", "/")).name


def load_cases(path: Path) -> list[Case]:
    """The cases of a file, or of all files of a folder. NotFound; BadRequest names the case that is wrong."""
    if not path.exists():
        raise NotFound(f"There are no cases at {path}", "Check the path")
    files = sorted(f for f in path.rglob("*") if f.suffix in (".jsonl", ".yaml", ".yml")) if path.is_dir() else [path]
    cases = [case for file in files for case in _cases(file)]
    if not cases:
        raise BadRequest(f"{path} holds no cases", ADVICE)
    return [case if case.id else case.model_copy(update={"id": f"case-{n}"}) for n, case in enumerate(cases, start=1)]


def _cases(file: Path) -> Iterator[Case]:
    for number, values in enumerate(_records(file), start=1):
        try:
            yield Case.model_validate(values)
        except ValidationError as error:
            problems = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'case'}: {e['msg']}" for e in error.errors())
            raise BadRequest(f"Case {number} of {file} is not usable: {problems}", ADVICE) from None


def _records(file: Path) -> list[Any]:
    text = file.read_text("utf-8")
    try:
        if file.suffix in (".yaml", ".yml"):
            loaded = yaml.safe_load(text) or []
            records = cast("dict[str, Any]", loaded).get("cases", []) if isinstance(loaded, dict) else loaded
        else:
            records = [json.loads(line) for line in text.splitlines() if line.strip()]
    except (yaml.YAMLError, json.JSONDecodeError) as error:
        raise BadRequest(f"{file} cannot be read: {error}", "Give JSON Lines, or YAML with a list of cases") from None
    if not isinstance(records, list):
        raise BadRequest(f"{file} holds no list of cases", ADVICE)
    return cast("list[Any]", records)
