"""Files found in files, through the real worker and stores: each a document of its own that knows where it lay."""

from __future__ import annotations

import asyncio
import io
import zipfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path

import pytest
import pytest_asyncio
from PIL import Image

from assistant.core.domain import Access, Answer, Document, DocumentStatus
from assistant.core.ports import Upload
from assistant.core.settings import load_settings
from compose.standalone import Perito, open_perito
from ingestion.parts import LONGEST_NAME, not_read, part_name
from tests.documents import shared

EVERYONE = Access("ana", None)
pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class House:
    """A running Perito, seen by one test: a collection and a folder of its own."""

    perito: Perito
    collection: str
    folder: Path

    async def take(self, name: str, data: bytes) -> Document:
        path = self.folder / name
        path.write_bytes(data)
        submission = await self.perito.worker.submit(Upload(path, name, self.collection), EVERYONE)
        await self.perito.worker.drain()
        return self.document(submission.document.id)

    def document(self, document_id: str) -> Document:
        return self.perito.catalogue.document(document_id, EVERYONE)

    def found(self) -> dict[str, Document]:
        return {document.name: document for document in self.perito.catalogue.documents(self.access)}

    async def answer(self, question: str) -> Answer:
        async for event in self.perito.assistant.answer(question, self.access):
            if isinstance(event, Answer):
                return event
        raise AssertionError("no answer came")

    @property
    def access(self) -> Access:
        return EVERYONE.narrowed(self.collection)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def perito(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Perito]:
    home = str(tmp_path_factory.mktemp("home"))
    async with open_perito(load_settings(home=home, limits={"parts": 20, "part_depth": 2})) as perito:
        yield perito


@pytest.fixture
def house(perito: Perito, request: pytest.FixtureRequest, tmp_path: Path) -> House:
    return House(perito, request.node.name, tmp_path)


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def zipped(*files: tuple[str, bytes]) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files:
            archive.writestr(name, data)
    return held.getvalue()


def mail(subject: str, *files: tuple[str, bytes]) -> bytes:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "ana@example.org", "leo@example.org", subject
    message.set_content("Le adjunto lo que pidió.")
    for name, data in files:
        message.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)
    return message.as_bytes()


async def test_a_sentence_deep_within_is_found_and_its_page_shown(house: House) -> None:
    """Archive, mail, attachment: the sentence is cited from the attachment itself, with the page it stands on."""
    form = shared("broken_or_hostile/attachment.pdf").read_bytes()
    letter = mail("Instrucciones", ("guide.pdf", form), ("nota.md", b"# Nota\n\nEl faro se apaga a las seis."))
    data = zipped(("correo/mensaje.eml", letter), ("leeme.txt", b"Hola."))
    archive = await house.take("2026.zip", data)
    assert (archive.status, archive.error, archive.parent) == (DocumentStatus.COMPLETE, "", None)
    found = house.found()
    assert found.keys() == {
        "2026.zip",
        "2026.zip › leeme.txt",
        "2026.zip › correo › mensaje.eml",
        "2026.zip › correo › mensaje.eml › guide.pdf",
        "2026.zip › correo › mensaje.eml › nota.md",
    }
    message, note = found["2026.zip › correo › mensaje.eml"], found["2026.zip › correo › mensaje.eml › nota.md"]
    assert (message.parent, note.parent, note.owner) == (archive.id, message.id, "ana")
    assert all(document.status is DocumentStatus.COMPLETE for document in found.values())

    answer = await house.answer("¿A qué hora se apaga el faro?")
    assert "seis" in answer.text
    citation = answer.citations[0]
    assert (citation.document_id, citation.page) == (note.id, 1)
    picture = await asyncio.to_thread(
        house.perito.page_images.page_image, citation.document_id, citation.page, EVERYONE, citation.boxes
    )
    with Image.open(io.BytesIO(picture)) as shown:
        assert shown.format == "JPEG" and min(shown.size) > 500

    again = await house.take("otra vez.zip", data)
    assert again == archive
    assert house.found() == found
    await house.perito.worker.reread(archive.id, EVERYONE)
    await house.perito.worker.drain()
    assert house.found().keys() == found.keys()
    assert {document.id for document in house.found().values()} == {document.id for document in found.values()}

    await house.perito.worker.delete(archive.id, EVERYONE)
    assert house.found() == {}
    assert all(house.perito.catalogue.rows_left(document.id) == 0 for document in found.values())
    assert all(house.perito.index.count(document.id) == 0 for document in found.values())
    assert list(house.perito.blobs.keys()) == []


async def test_a_part_that_cannot_be_read_is_told_and_harms_nobody(house: House) -> None:
    sealed = shared("broken_or_hostile/password-example.pdf").read_bytes()
    data = mail(
        "Varios",
        ("bien.txt", b"Esto se lee."),
        ("raro.xyz", bytes(range(256)) * 9),
        ("vacio.txt", b""),
        ("c.pdf", sealed),
    )
    message = await house.take("varios.eml", data)
    assert message.status is DocumentStatus.COMPLETE
    assert "Not read: raro.xyz is neither a PDF" in message.error
    assert "Not read: vacio.txt is empty (0 bytes)." in message.error
    assert "Not read: c.pdf is protected by a password." in message.error
    assert "varios.eml" not in message.error  # the reader knows whose part it is
    assert house.found().keys() == {"varios.eml", "varios.eml › bien.txt"}


async def test_the_same_file_on_two_mails_stays_while_one_of_them_does(house: House) -> None:
    plan = ("plano.txt", b"La casa mide 90 metros.")
    first = await house.take("uno.eml", mail("Uno", plan))
    second = await house.take("dos.eml", mail("Dos", plan))
    (part,) = house.perito.catalogue.parts(second.id, EVERYONE)
    assert part.parent == first.id
    await house.perito.worker.delete(first.id, EVERYONE)
    assert house.perito.catalogue.document(part.id, EVERYONE).parent == second.id
    await house.take(*plan)
    await house.perito.worker.delete(second.id, EVERYONE)
    assert house.perito.catalogue.document(part.id, EVERYONE).parent is None


async def test_attachments_of_one_name_do_not_replace_each_other(house: House) -> None:
    for number in range(2):
        await house.take(f"{number}.eml", mail("Factura", ("factura.txt", f"Total {number} euros.".encode())))
    assert {"0.eml › factura.txt", "1.eml › factura.txt"} < house.found().keys()


async def test_a_new_version_takes_the_parts_of_the_old_one_along(house: House) -> None:
    old = await house.take("a.zip", zipped(("fijo.txt", b"Igual."), ("x.txt", b"Antes."), ("y.txt", b"Fuera.")))
    fixed = house.found()["a.zip › fijo.txt"]
    new = await house.take("a.zip", zipped(("fijo.txt", b"Igual."), ("x.txt", b"Ahora.")))
    assert (new.version, new.id != old.id) == (2, True)
    found = house.found()
    assert found.keys() == {"a.zip", "a.zip › fijo.txt", "a.zip › x.txt"}
    assert (found["a.zip › fijo.txt"].id, found["a.zip › fijo.txt"].parent) == (fixed.id, new.id)
    assert found["a.zip › x.txt"].version == 2


async def test_depth_and_number_are_limited_over_the_whole(house: House) -> None:
    inner = zipped(("hondo.txt", b"Abajo del todo."))
    for level in range(3):
        inner = zipped((f"nivel{level}.zip", inner))
    await house.take("matrioska.zip", inner)
    found = house.found()
    assert len(found) == 3
    lowest = max(found.values(), key=lambda document: len(document.name))
    assert lowest.status is DocumentStatus.PARTIAL
    assert "lie deeper than 2 archives" in lowest.error
    await house.perito.worker.delete(found["matrioska.zip"].id, EVERYONE)

    notes = [zipped(*((f"{box}-{n}.txt", f"Nota {box}-{n}.".encode()) for n in range(12))) for box in range(2)]
    await house.take("muchos.zip", zipped(("a.zip", notes[0]), ("b.zip", notes[1])))
    found = house.found()
    assert len(found) == 1 + 20
    assert sum("more than 20 files are not taken" in document.error for document in found.values()) == 1


async def test_hostile_archives_end_and_write_nothing_outside(house: House) -> None:
    for name in ("nested_zip_bomb.zip", "zip_slip.zip"):
        document = await house.take(name, shared(f"broken_or_hostile/{name}").read_bytes())
        assert document.status.is_final
    assert len(house.found()) <= 2 + 2 * 20
    assert all(document.status.is_final for document in house.found().values())
    assert names_in(house.folder) <= {"nested_zip_bomb.zip", "zip_slip.zip"}


async def test_names_say_where_a_part_lay_and_stay_apart_when_cut() -> None:
    assert part_name("a.zip", "b/c.pdf") == "a.zip › b › c.pdf"
    long = [part_name("a" * 150 + ".zip", f"{'b' * 90}/{x}{'c' * 90}.pdf") for x in "12"]
    assert long[0] != long[1]
    assert all(len(name) <= LONGEST_NAME and name.endswith(".pdf") for name in long)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("m.eml › a › b.pdf is a damaged PDF", "Not read: a/b.pdf is a damaged PDF."),
        ("Page 1 of m.eml › a › b.pdf cannot be read (odd)", "Not read: page 1 of a/b.pdf cannot be read (odd)."),
        ("a/b.pdf cannot be unpacked (odd)", "Not read: a/b.pdf cannot be unpacked (odd)."),
        ("It cannot be unpacked (odd)", "Not read: a/b.pdf. It cannot be unpacked (odd)."),
    ],
)
async def test_a_part_that_was_not_read_is_named_once(message: str, told: str) -> None:
    assert not_read("a/b.pdf", part_name("m.eml", "a/b.pdf"), message) == told
