"""A person with a browser: drops a scan, watches it being read, asks, and sees where the answer was read."""

from __future__ import annotations

import base64
import io
import mimetypes
import re
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import docx
import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from PIL import Image, ImageChops
from playwright.sync_api import Locator, Page, Route, expect

from tests.documents import shared
from tests.web.conftest import OpenPage, Server

SCAN = "scan_clean/es_modelo721_p1_300dpi.png"  # its text: gt/text_layer/es_modelo721_p1_300dpi.png.txt
QUESTION = "¿Qué orden aprueba el modelo 721?"
ANSWER = re.compile(r"HFP/886/2023")


def drop(page: Page, *files: Path) -> None:
    """Drop files onto the conversation, as from a file manager, once the page is connected."""
    expect(page.locator("#upload-button")).to_be_enabled()
    page.locator(".command-button").wait_for()
    contents = [[file.name, base64.b64encode(file.read_bytes()).decode(), _media_type(file)] for file in files]
    transfer = page.evaluate_handle(
        """files => {
            const transfer = new DataTransfer()
            for (const [name, data, type] of files) {
                const bytes = Uint8Array.from(atob(data), character => character.charCodeAt(0))
                transfer.items.add(new File([bytes], name, { type }))
            }
            return transfer
        }""",
        contents,
    )
    for event in ("dragenter", "dragover", "drop"):
        page.dispatch_event("#message-composer", event, {"dataTransfer": transfer})


def _media_type(file: Path) -> str:
    return mimetypes.guess_type(file.name)[0] or ""


def send(page: Page, text: str = "") -> None:
    """Type into the composer, wait until what was attached has arrived, and send."""
    composer = page.locator("#chat-input")
    for _ in range(20):  # the composer moves when a conversation begins, and loses what was typed into the old one
        composer.fill(text)
        page.wait_for_timeout(150)
        if composer.input_value() == text:
            break
    button = page.locator("#chat-submit")
    expect(button).to_be_enabled()
    button.click()


def is_loaded(image: Locator) -> bool:
    return image.evaluate("async image => { await image.decode(); return image.naturalWidth > 100 }")


def has_no_sideways_scroll(page: Page) -> bool:
    return page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def open_conversation(page: Page, width: int = 1300) -> None:
    page.locator("#chat-input").wait_for()
    if width < 768:
        page.locator("#sidebar-trigger-button").click()
    page.locator('a[href^="/thread/"]').first.click()
    page.locator(".perito-source").first.wait_for()
    if width < 768:
        page.keyboard.press("Escape")


@pytest.fixture
def asked(perito: Server, open_page: OpenPage) -> Server:
    """The server with a scan that was read and one question about it, whichever test comes first."""
    if httpx.get(f"{perito.url}/api/documents", trust_env=False).json()["documents"]:
        return perito
    page, _ = open_page(perito)
    page.locator("#chat-input").wait_for()
    drop(page, shared(SCAN))
    send(page, QUESTION)  # together: it waits until the scan is read
    page.locator("a.citation").first.wait_for()
    return perito


def faults(page: Page, where: str = "") -> list[str]:
    """What axe calls serious or critical, in our own parts of the page or in all of it."""
    context: Any = where or None
    found = Axe().run(page, context=context).response["violations"]
    return [
        f"{one['id']}: {node['html'][:160]}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


def test_a_scan_is_dropped_read_asked_about_and_shown(perito: Server, open_page: OpenPage) -> None:
    page, seen = open_page(perito, locale="es-ES")
    expect(page.locator("#chat-input")).to_be_visible()
    page.wait_for_function(
        """() => { const empty = document.querySelector('#welcome-screen')
            return empty && getComputedStyle(empty, '::before').content.startsWith('"Suelta aquí') }"""
    )
    expect(page.get_by_role("button", name="¿Cómo funciona esto?")).to_be_visible()

    drop(page, shared(SCAN))
    send(page)
    card = page.locator(".perito-document")
    expect(card).to_contain_text("es_modelo721_p1_300dpi.png")
    expect(card.get_by_role("status")).to_have_text("leído")
    expect(card).to_contain_text("1 página · OCR 1")
    card.get_by_role("button", name="Páginas").click()
    expect(card.locator(".perito-pages li")).to_contain_text("OCR · ")

    send(page, QUESTION)
    expect(page.locator(".ai-message").last).to_contain_text(ANSWER)
    number = page.locator("a.citation").first
    expect(number).to_have_text("[1]")
    expect(number).to_have_attribute("aria-label", re.compile(r"^Fuente 1: es_modelo721_p1_300dpi.png · página 1"))
    number.click()
    view = page.locator("#side-view-content")
    expect(view).to_contain_text("es_modelo721_p1_300dpi.png")
    expect(view).to_contain_text("página 1")
    expect(view).to_contain_text("OCR")
    expect(view).to_contain_text(re.compile(r"\d+ % de seguridad"))
    picture = view.locator("img")
    assert is_loaded(picture)
    assert_boxes_are_drawn(page, picture.get_attribute("src") or "")
    assert has_no_sideways_scroll(page)
    assert faults(page, ".perito-card") == []
    page.get_by_role("button", name="Acerca de").click()
    expect(page.get_by_role("dialog")).to_contain_text("Perito responde preguntas")
    assert seen.outside == []
    assert seen.errors == []


def assert_boxes_are_drawn(page: Page, source: str) -> None:
    """Where the link's boxes say, the picture is marked, and nowhere else."""
    plain_url, _, boxes = source.partition("?boxes=")
    assert boxes
    boxed, plain = (
        Image.open(io.BytesIO(page.request.get(new_url(page, url)).body())).convert("RGB")
        for url in (source, plain_url)
    )
    changed = ImageChops.difference(boxed, plain).point(lambda value: 255 if value > 40 else 0).getbbox()
    assert changed is not None
    sides = [[float(side) for side in box.split(",")] for box in boxes.split(";")]
    expected = [min(s[0] for s in sides), min(s[1] for s in sides), max(s[2] for s in sides), max(s[3] for s in sides)]
    found = [value / size for value, size in zip(changed, boxed.size * 2, strict=True)]
    assert all(abs(a - b) < 0.02 for a, b in zip(found, expected, strict=True)), (found, expected)


def new_url(page: Page, path: str) -> str:
    return page.evaluate("path => new URL(path, location.href).href", path)


def test_after_a_restart_conversation_picture_and_citation_are_still_there(perito: Server, open_page: OpenPage) -> None:
    perito.restart()
    page, seen = open_page(perito, scheme="dark", locale="es-ES")
    open_conversation(page)
    assert page.locator("#side-view-content").count() == 0  # nothing opens by itself
    sent = page.locator('[data-step-type="user_message"] img').first
    assert "/api/attachments/" in (sent.get_attribute("src") or "")
    assert is_loaded(sent)
    expect(page.locator(".perito-document").get_by_role("status")).to_have_text("leído")
    page.locator("a.citation").first.click()
    assert is_loaded(page.locator("#side-view-content img"))
    send(page, "¿De qué fecha es la orden?")
    expect(page.locator(".ai-message").last).to_contain_text(re.compile(r"26 de julio"))
    assert seen.outside == []


def test_a_picture_is_asked_about_and_then_kept(perito: Server, open_page: OpenPage) -> None:
    page, _ = open_page(perito)
    page.locator("#chat-input").wait_for()
    receipt = shared("scan_clean/linn.png")
    drop(page, receipt)
    send(page, "What does it say?")
    answer = page.locator(".ai-message").last
    expect(answer).to_contain_text("No model that sees pictures is configured")
    keep = page.get_by_role("button", name="Add to documents")
    keep.click()
    expect(page.get_by_role("button", name="Added to documents")).to_be_disabled()
    expect(page.locator(".perito-document").last).to_contain_text("linn.png")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone(asked: Server, open_page: OpenPage, scheme: str) -> None:
    page, _ = open_page(asked, width=390, scheme=scheme)
    page.locator("#chat-input").wait_for()
    assert has_no_sideways_scroll(page)
    page.locator("#sidebar-trigger-button").click()
    link = page.locator('a[href^="/thread/"]').filter(has_text=re.compile("modelo ?721")).last
    page.goto(f"{asked.url}{link.get_attribute('href')}")  # not clicked: the list may be drawn anew just then
    page.locator(".perito-source").first.wait_for()
    assert has_no_sideways_scroll(page)
    page.locator("a.citation").first.click()
    view = page.locator("#side-view-content")
    assert is_loaded(view.locator("img"))
    box = view.bounding_box()
    assert box is not None and box["width"] > 340
    assert has_no_sideways_scroll(page)
    assert faults(page, ".perito-card") == []


def test_a_conversation_opens_by_its_address_however_its_connections_are_answered(
    asked: Server, open_page: OpenPage
) -> None:
    """Chainlit connects twice then, and the connection that is answered last stays."""
    page, _ = open_page(asked)
    address = page.locator('a[href^="/thread/"]').filter(has_text=re.compile("modelo ?721")).last.get_attribute("href")
    held: list[Route] = []

    def let_the_second_pass(route: Route) -> None:
        if not held:
            return held.append(route)
        route.fulfill(response=route.fetch())
        if len(held) == 1:
            held[0].continue_()
        held.append(route)

    page.route("**/set-session-cookie", let_the_second_pass)
    page.goto(f"{asked.url}{address}")
    page.wait_for_timeout(2000)
    if len(held) == 1:  # the second waits for the first
        held.append(held[0])
        held[0].continue_()
    expect(page.locator(".perito-source").first).to_be_visible(timeout=20_000)


def test_everything_can_be_reached_by_keyboard(asked: Server, open_page: OpenPage) -> None:
    page, _ = open_page(asked)
    open_conversation(page)
    page.locator("a.citation").first.focus()
    page.keyboard.press("Enter")
    view = page.locator("#side-view-content")
    assert is_loaded(view.locator("img"))
    reached: set[str] = set()
    for _ in range(6):  # the page has the focus when it opens
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.textContent")
        )
    assert {"Enlarge", "Open in a new tab", "The page, with the passage marked"} <= reached
    unnamed = page.evaluate(
        """[...document.querySelectorAll('button')].filter(button => button.offsetParent
            && !button.textContent.trim() && !button.getAttribute('aria-label')).map(button => button.outerHTML)"""
    )
    assert unnamed == []


def test_whatever_is_dropped_its_content_decides(perito: Server, open_page: OpenPage, tmp_path: Path) -> None:
    letter = docx.Document()
    letter.add_paragraph("El faro de Peñas Blancas se apagó en 1931.")
    letter.save(str(tmp_path / "faro.docx"))
    note = EmailMessage()
    note["From"], note["To"], note["Subject"] = "a@example.org", "b@example.org", "El faro"
    note.set_content("El farero era Anselmo Quiroga.")
    note.add_attachment("La linterna pesa 300 kilos.", filename="linterna.txt")
    (tmp_path / "nota.eml").write_bytes(note.as_bytes())
    (tmp_path / "tool").write_bytes(b"\x7fELF\x02\x01\x01\x00" + bytes(200))
    page, seen = open_page(perito)
    drop(page, tmp_path / "faro.docx", tmp_path / "nota.eml", tmp_path / "tool")
    send(page)
    cards = page.locator(".perito-document")
    for name in (r"^faro\.docx", r"^nota\.eml(?! ›)", r"^nota\.eml › linterna\.txt"):
        expect(cards.filter(has_text=re.compile(name)).get_by_role("status")).to_have_text("read")
    expect(cards.filter(has_text="tool")).to_contain_text("a program")
    send(page, "Who was the keeper of the lighthouse, el farero?")
    expect(page.locator(".ai-message").last).to_contain_text("Anselmo Quiroga")
    note.replace_header("Subject", "El faro, otra vez")
    (tmp_path / "eco.eml").write_bytes(note.as_bytes())
    drop(page, tmp_path / "eco.eml", tmp_path / "eco.eml")  # the same file twice is one document
    send(page)
    echo = cards.filter(has_text=re.compile(r"^eco\.eml"))
    expect(echo).to_have_count(1)
    again = echo.locator("xpath=following-sibling::li")
    expect(again).to_contain_text("nota.eml › linterna.txt")  # which came with the other mail before
    expect(again).to_have_attribute("data-part", "true")
    assert seen.errors == []
