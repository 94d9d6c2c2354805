"""What is kept in English has a Spanish form: held to the code that writes it and to real broken files."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright._impl._driver import compute_driver_executable

from assistant.core import errors
from assistant.core.errors import PeritoError
from assistant.core.settings import LimitSettings
from assistant.web.library.texts import LANGUAGES
from assistant.web.sentences import Sentences
from assistant.web.spanish import SPANISH_SENTENCES
from ingestion.sources import open_source
from tests.documents import ROOT, shared

TABLE = Sentences(SPANISH_SENTENCES)
SPANISH, ENGLISH = LANGUAGES["es"], LANGUAGES["en"]
PASSING = {"EndpointDown", "EndpointBusy", "DiskFull", "StoreBusy", "WorkerDied"}
KEPT = PASSING | {
    *("EmptyFile", "UnsupportedFile", "UnreadableFile", "EncryptedFile", "TooLarge", "BadRequest", "Misconfigured")
}
LIMITS = LimitSettings.model_validate({})
CORE = ("database", "blobs", "indexedge", "indexserver", "transcriber")
# What stands for these in a sentence; for anything else a 7 does.
VALUES = {
    "said": ": odd",
    "_in(folder)": " in /a",
    "LOCKED": "behind a password",
    "failure": "Page 7 of x cannot be read",
    "message": "The endpoint x serves no model y",
    "self._where": "the Qdrant server on x",
    "self._where[0].upper()": "T",
    "self._where[1:]": "he Qdrant server on x",
}
GARBLED = "broke off in the middle of its reply"
HOSTILE = sorted(path.name for path in shared("broken_or_hostile").iterdir() if path.is_file())


def literal(node: ast.expr) -> str | None:
    """A string as it would read with values filled in; None for anything else."""
    if isinstance(node, ast.JoinedStr):
        return "".join(literal(part) or "" for part in node.values)
    if isinstance(node, ast.FormattedValue):
        said = ast.unparse(node.value)
        return VALUES.get(said, "7")
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def written(file: Path, kinds: set[str]) -> Iterator[str]:
    """The messages and advice of errors that a module raises, and what it notes as lost, as sentences."""
    tree = ast.parse(file.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func).rpartition(".")[2]
            noted = ast.unparse(node.func).endswith(("problems.append", "left_out.append", "notes.append"))
            texts = [literal(each) for each in node.args] if called in kinds or noted else []
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("message", "advice", "self.damage"):
            texts = [literal(node.value)]
        else:
            continue
        yield from (f"{text.rstrip('.')}." for text in texts if text and " " in text)


def unknown(kept: str) -> list[str]:
    return [each.text for each in TABLE.each(kept) if not each.known]


def test_every_form_is_filled_with_the_same_in_both_languages_and_fits_its_own_sentence() -> None:
    for english, spanish in SPANISH_SENTENCES.items():
        fields = re.findall(r"\{(\w+)\}", english)
        assert sorted(fields) == sorted(re.findall(r"\{(\w+)\}", spanish)), english
        assert len(fields) == len(set(fields)), english
        if english.endswith("."):
            filled = re.sub(r"\{\w+\}", "7", english)
            assert TABLE.told(filled) != filled, english


def test_every_error_of_reading_has_its_spanish_form() -> None:
    missing = [
        (file.name, sentence, unknown(sentence))
        for file in (ROOT / "ingestion").rglob("*.py")
        for sentence in written(file, KEPT)
        if unknown(sentence)
    ]
    assert not missing


def test_every_error_that_may_pass_has_its_spanish_form() -> None:
    core = ROOT / "assistant" / "core"
    files = [(core / f"{name}.py", PASSING) for name in CORE] + [(core / "endpoints.py", KEPT)]
    sentences = [sentence for file, kinds in files for sentence in written(file, kinds)]
    sentences = [each.replace("The endpoint 7 7.", f"The endpoint 7 {GARBLED}.") for each in sentences]
    assert len(sentences) > 30
    assert not [sentence for sentence in sentences if unknown(sentence)]


@pytest.mark.parametrize("kind", [errors.EndpointDown, errors.EndpointBusy, errors.DiskFull, errors.TooLarge])
@pytest.mark.parametrize(
    "more", [errors.EmptyFile, errors.EncryptedFile, errors.UnreadableFile, errors.UnsupportedFile]
)
def test_what_every_kind_of_error_advises_is_told(kind: type[PeritoError], more: type[PeritoError]) -> None:
    assert not unknown(f"{kind.advice_default}. {more.advice_default}.")


def trouble(path: Path, name: str, limits: LimitSettings) -> str:
    """What would be kept of a file: its error, else its damage and what its first pages say."""
    try:
        with open_source(path, name=name, limits=limits) as source:
            said = [source.damage]
            for number in range(1, min(source.page_count, 3) + 1):
                try:
                    source.page(number)
                except PeritoError as error:
                    said.append(f"Not read: page {number}. {error}")
            return " ".join(filter(None, said))
    except PeritoError as error:
        return str(error)


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_kept_of_a_hostile_file_is_told_in_spanish(name: str) -> None:
    """Under a name that reads like the end of a sentence, and with limits that many of them break."""
    for limits in (LIMITS, LimitSettings.model_validate({"pages": 1, "image_megapixels": 1})):
        called = f"Sr. Pérez. {name}"
        kept = trouble(shared(f"broken_or_hostile/{name}"), called, limits)
        assert not [piece for piece in unknown(kept) if piece.removesuffix(".") not in called], kept
        assert SPANISH.tongue(kept) == "es" or not kept


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
@pytest.mark.parametrize(
    "name",
    [
        "broken_or_hostile/attachment.pdf",
        "broken_or_hostile/fake-power-point-malformed.pptx",
        "broken_or_hostile/password_protected.xlsx",
        "scan_clean/linn.png",
    ],
)
def test_what_is_kept_of_a_file_that_is_cut_off_is_told_in_spanish(name: str, share: float, tmp_path: Path) -> None:
    data = shared(name).read_bytes()
    path = tmp_path / Path(name).name
    path.write_bytes(data[: int(len(data) * share)])
    kept = trouble(path, "", LIMITS)
    assert not unknown(kept), kept


SAID = [
    ("Not read: page 3.", "No se leyó la página 3."),
    ("Not read: page 3, 5, 9, ….", "No se leyeron las páginas 3, 5, 9, …."),
    ("Sr. Pérez.pdf is protected by a password.", "Sr. Pérez.pdf está protegido con contraseña."),
    ("Not read: c.pdf is protected by a password.", "No leído: c.pdf está protegido con contraseña."),
    (
        "Not read: page 1 of c.pdf takes more than 9 MB of memory. X.",
        "No leído: la página 1 de c.pdf necesita más de 9 MB de memoria. X.",
    ),
    (
        "Left out: 3 files (behind a password); 1 file (cut off).",
        "Omitidos: 3 archivos (con contraseña); 1 archivo (incompleto).",
    ),
    (
        "The file is cut off: 1 page could be saved; how many are missing cannot be told.",
        "El archivo está incompleto: se pudo salvar 1 página; no se puede saber cuántas faltan.",
    ),
    (
        "The OCR process was ended by signal 9, twice on the same page. Look at that page; read it again later.",
        "El proceso de OCR falló dos veces en la misma página: la señal 9 lo interrumpió. "
        "Mira esa página y vuelve a leerla más tarde.",
    ),
    ("Cancelled by ana with 2 of 9 pages read.", "Cancelado por ana con 2 de 9 páginas leídas."),
    ("Nobody wrote this down. Nor this.", "Nobody wrote this down. Nor this."),
]


@pytest.mark.parametrize(("kept", "told"), SAID)
def test_what_was_kept_is_told_in_spanish_and_as_it_was_in_english(kept: str, told: str) -> None:
    assert (SPANISH.told(kept), ENGLISH.told(kept)) == (told, kept)
    assert SPANISH.tongue(kept) == ("en" if told == kept else "es")
    assert ENGLISH.tongue(kept) == "en"


def test_the_page_tells_the_same_by_the_same_table() -> None:
    """The element's own lines, run by Node."""
    element = (ROOT / "assistant" / "web" / "ui" / "public" / "elements" / "Documents.jsx").read_text("utf-8")
    lines = element[element.index("const MOST_PIECES") : element.index("const gone")]
    node, _ = compute_driver_executable()  # the one that comes with Playwright
    labels = json.dumps({"sentences": SPANISH_SENTENCES})
    kept = [
        *(kept for kept, _ in SAID),
        *(trouble(shared(f"broken_or_hostile/{name}"), "", LIMITS) for name in HOSTILE),
    ]
    script = f"const labels = {labels}\n{lines}\nconsole.log(JSON.stringify({json.dumps(kept)}.map(told)))"
    shown = subprocess.run([node, "-"], input=script, capture_output=True, text=True, check=True, timeout=60).stdout
    assert json.loads(shown) == [SPANISH.told(each) for each in kept]
