"""The commands as a person or a machine uses them, each in a real process over a real home."""

from __future__ import annotations

import shutil
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import pytest
from pypdfium2 import PdfDocument

from assistant.core.catalogue import SqlCatalogue
from assistant.core.domain import Usage
from tests.compose.commands import Commands
from tests.documents import shared

MODELO_190 = "digital_text/es_aeat_modelo190_instrucciones.pdf"


@pytest.fixture(scope="module")
def perito(tmp_path_factory: pytest.TempPathFactory) -> Commands:
    return Commands(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as people have them: a report, a receipt, a note, a broken file, a hidden one."""
    folder = tmp_path_factory.mktemp("documents")
    with PdfDocument(shared(MODELO_190)) as whole, PdfDocument.new() as part:
        part.import_pages(whole, [3, 4])
        part.save(folder / "modelo 190.pdf")
    shutil.copy(shared("scan_hard/sroie_004.jpg"), folder / "receipt.jpg")
    (folder / "sub").mkdir()
    (folder / "sub" / "note.md").write_text(
        "# Vacaciones\n\nLa oficina cierra del 4 al 22 de agosto de 2031.\n", "utf-8"
    )
    (folder / "sub" / "empty.pdf").write_bytes(b"")
    (folder / ".hidden").write_text("never read")
    return folder


@pytest.fixture(scope="module")
def ingested(perito: Commands, folder: Path) -> dict[str, dict[str, object]]:
    outcome = perito("ingest", folder, "--json")
    assert outcome.code == 3, outcome.err  # one of the files is empty
    return {document["name"]: document for document in outcome.json["documents"]}


def test_a_folder_is_ingested_file_by_file(ingested: dict[str, dict[str, object]]) -> None:
    assert set(ingested) == {"modelo 190.pdf", "receipt.jpg", "note.md", "empty.pdf"}
    assert ingested["modelo 190.pdf"]["readers"] == {"text": 2, "ocr": 0, "vlm": 0}
    assert ingested["receipt.jpg"]["readers"]["ocr"] == 1  # pyright: ignore[reportIndexIssue]
    assert ingested["empty.pdf"]["status"] == "failed"
    assert "empty" in str(ingested["empty.pdf"]["error"])
    for name in ("modelo 190.pdf", "receipt.jpg", "note.md"):
        assert ingested[name]["status"] == "complete"
        assert ingested[name]["error"] is None


def test_the_same_bytes_again_are_a_no_op_that_says_so(
    perito: Commands, folder: Path, ingested: dict[str, dict[str, object]]
) -> None:
    again = perito("ingest", folder / "sub" / "note.md")
    assert again.code == 0
    assert "already there" in again.out
    same = perito("ingest", folder / "sub" / "note.md", "--json").json["documents"][0]
    assert same["id"] == ingested["note.md"]["id"]
    assert same["duplicate"] is True


def test_an_answer_cites_the_page_and_the_passage(perito: Commands, ingested: dict[str, dict[str, object]]) -> None:
    outcome = perito("ask", "¿Cuánto tiempo de validez tiene el PIN de Cl@ve desde que se solicita?", "--json")
    assert outcome.code == 0, outcome.err
    answer = outcome.json
    assert answer["refused"] is False
    cited = answer["citations"][0]
    assert (cited["document"], cited["page"], cited["reader"]) == ("modelo 190.pdf", 1, "text")
    assert any(
        "10 minutos posteriores a la solicitud" in " ".join(citation["text"].split())
        for citation in answer["citations"]
    )
    assert all(0 <= x0 < x1 <= 1 and 0 <= y0 < y1 <= 1 for x0, y0, x1, y1 in cited["boxes"])
    numbers = {citation["number"] for citation in answer["citations"]}
    assert all(number in numbers for sentence in answer["sentences"] for number in sentence["citations"])


def test_people_see_the_answer_and_where_it_stands(perito: Commands, ingested: dict[str, dict[str, object]]) -> None:
    outcome = perito("ask", "¿Cuándo cierra la oficina en agosto?")
    assert outcome.code == 0, outcome.err
    assert "4 al 22 de agosto de 2031" in outcome.out
    assert "[1] note.md, page 1" in outcome.out


def test_nothing_relevant_is_said_in_the_questions_language(
    perito: Commands, ingested: dict[str, dict[str, object]]
) -> None:
    outcome = perito("ask", "¿Quién ganó la Vuelta a España de 1974?", "--json")
    assert outcome.code == 0
    assert outcome.json["refused"] is True
    assert outcome.json["language"] == "es"


def test_documents_are_listed_shown_and_deleted(perito: Commands, folder: Path) -> None:
    extra = folder.parent / "extra.txt"
    extra.write_text("El contrato 88-B vence el 3 de mayo de 2033.", "utf-8")
    added = perito("ingest", extra, "--collection", "legal", "--json").json["documents"][0]
    listed = perito("documents", "list", "--collection", "legal", "--json").json["documents"]
    assert [document["name"] for document in listed] == ["extra.txt"]
    shown = perito("documents", "show", added["id"][:10], "--json").json
    assert shown["document"]["collection"] == "legal"
    assert [page["status"] for page in shown["pages"]] == ["read"]
    assert shown["pages"][0]["receipt"]["reason"]
    assert perito("documents", "delete", added["id"][:10]).code == 0
    assert perito("documents", "list", "--collection", "legal", "--json").json["documents"] == []
    assert perito("ask", "¿Cuándo vence el contrato 88-B?", "--collection", "legal", "--json").json["refused"] is True
    gone = perito("documents", "show", added["id"])
    assert gone.code == 1
    assert "no document" in gone.err


def test_read_shows_blocks_boxes_and_the_receipt(perito: Commands) -> None:
    outcome = perito("read", shared("scan_hard/sroie_004.jpg"), "--json")
    assert outcome.code == 0, outcome.err
    (page,) = outcome.json["pages"]
    assert page["reader"] == "ocr"
    assert page["receipt"]["reason"]
    assert page["blocks"]
    for block in page["blocks"]:
        x0, y0, x1, y1 = block["bbox"]
        assert 0 <= x0 < x1 <= 1
        assert 0 <= y0 < y1 <= 1
        assert 0 <= block["confidence"] <= 1


@pytest.mark.parametrize(
    "words", [("ingest",), ("ask",), ("ask", " "), ("nonsense",), ("serve", "--port", "abc"), ("ask", "x", "--no")]
)
def test_wrong_use_is_exit_code_2(perito: Commands, words: tuple[str, ...]) -> None:
    outcome = perito(*words)
    assert outcome.code == 2
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("ingest", "/no/such/file"), "is not there"),
        (("read", "/no/such/file"), "is not a file that is there"),
        (("documents", "delete", "feedbeef"), "There is no document feedbeef"),
        (("serve", "--host", "0.0.0.0"), "auth.users"),
    ],
)
def test_failures_are_sentences_with_exit_code_1(perito: Commands, words: tuple[str, ...], sentence: str) -> None:
    outcome = perito(*words)
    assert outcome.code == 1
    assert sentence in outcome.err
    assert "Traceback" not in outcome.err


def test_brackets_in_a_name_are_shown_as_they_are(perito: Commands, tmp_path: Path) -> None:
    name = "acta [borrador] :smile:.txt"
    (tmp_path / name).write_text("Se aprueba el acta.")
    told = perito("ingest", tmp_path / name, "--dry-run", COLUMNS="400")
    assert (told.code, name in told.out) == (0, True), told.err or told.out


def test_a_mistyped_setting_is_named(perito: Commands) -> None:
    outcome = perito("documents", "list", PERITO_LLMM__URL="http://x")
    assert outcome.code == 1
    assert "PERITO_LLMM__URL is no setting of Perito" in outcome.err


def test_a_locked_pdf_asks_for_its_password_and_opens_with_it(perito: Commands) -> None:
    locked = shared("broken_or_hostile/password-example.pdf")
    refused = perito("ingest", locked)
    assert refused.code == 1
    assert "--password" in refused.out
    told = perito("ingest", locked, "--password", "test", "--dry-run", "--json")
    assert told.json["counts"] == {"add": 1}, told.out
    opened = perito("ingest", locked, "--password", "test", "--json")
    assert opened.code == 0, opened.out
    assert opened.json["documents"][0]["status"] == "complete"


@pytest.mark.parametrize(("given", "said"), [("\n", "No password was given"), ("short\n", "at least 8 characters")])
def test_a_password_that_protects_nothing_is_refused(perito: Commands, given: str, said: str) -> None:
    outcome = perito("password", stdin=given)
    assert outcome.code == 2 and said in outcome.err


def test_the_version_is_told(perito: Commands) -> None:
    outcome = perito("--version")
    assert outcome.code == 0 and outcome.out == f"perito {version('perito')}\n"


def test_doctor_finds_a_healthy_home(perito: Commands) -> None:
    outcome = perito("doctor", "--json")
    assert outcome.code == 0, outcome.out
    assert outcome.json["healthy"] is True
    assert {check["name"] for check in outcome.json["checks"]} >= {"home", "embedder", "ocr", "index"}


def test_an_empty_selection_is_not_called_an_empty_home(tmp_path: Path) -> None:
    perito = Commands(tmp_path / "home")
    assert "There are no documents yet" in perito("documents", "list").out
    for option in (("--collection", "nowhere"), ("--status", "failed"), ("--name", "nothing")):
        assert "There are no such documents" in perito("documents", "list", *option).out


@pytest.mark.parametrize("words", [(), ("documents",)])
def test_a_group_without_a_command_shows_its_help_once(perito: Commands, words: tuple[str, ...]) -> None:
    outcome = perito(*words)
    assert outcome.code == 2
    assert outcome.err.count("Usage:") == 1
    assert "Commands:" in outcome.err
    assert "..." not in outcome.err.split("Commands:")[1]  # no sentence is cut off


def test_usage_is_told(perito: Commands) -> None:
    assert "No model has been used yet" in perito("usage").out
    with closing(SqlCatalogue.open(f"sqlite:///{perito.home / 'perito.db'}")) as catalogue:
        catalogue.record(Usage("answer", "llama", 1200, 34, seconds=2.0, price=0.25, collection="default"))
    (line,) = perito("usage", "--days", "1", "--json").json["usage"]
    assert (line["model"], line["calls"], line["prompt_tokens"], line["price"]) == ("llama", 1, 1200, 0.25)
    assert "1,200" in perito("usage").out
