"""The library in a real browser: files dropped and followed, a list worked with by keyboard, a page corrected."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Route, expect

from tests.documents import shared
from tests.web.conftest import OpenPage, Server
from tests.web.test_chromium import send

LEASE = "La renta mensual es de 1.250 eur0s.\n\nEl contrato vence el 31 de diciembre de 2027.\n"


def drop(page: Page, *named: tuple[str, bytes]) -> None:
    """Drop files onto the page, as from a file manager."""
    contents = [[name, base64.b64encode(content).decode()] for name, content in named]
    transfer = page.evaluate_handle(
        """files => {
            const transfer = new DataTransfer()
            for (const [name, data] of files) {
                transfer.items.add(new File([Uint8Array.from(atob(data), c => c.charCodeAt(0))], name))
            }
            return transfer
        }""",
        contents,
    )
    page.dispatch_event("body", "dragenter", {"dataTransfer": transfer})
    expect(page.locator("#drop")).to_be_visible()
    page.dispatch_event("body", "drop", {"dataTransfer": transfer})
    expect(page.locator("#drop")).to_be_hidden()


def violations(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {node['html'][:160]}" for one in found for node in one["nodes"]]


def row(page: Page, name: str) -> Any:
    return page.locator("#results tr[data-id]").filter(has_text=name)


@pytest.fixture(scope="module")
def filled(perito: Server) -> Server:
    """The server with what the other tests look at: a lease, a form, a file with a nasty name."""
    files = [
        ("files", ("renta.txt", LEASE.encode())),
        ("files", ("fw8ben_1.pdf", shared("forms/fw8ben_1.pdf").read_bytes())),
        ("files", ("<img src=x onerror=alert(1)>.txt", b"Nada.")),
    ]
    reply = httpx.post(f"{perito.url}/api/documents?wait=true", files=files, timeout=90, trust_env=False)
    assert [one["status"] for one in reply.json()["documents"]] == ["complete"] * 3
    return perito


def test_dropped_files_are_sent_read_and_shown_without_a_reload(perito: Server, open_page: OpenPage) -> None:
    page, seen = open_page(perito, "/library")
    broken: list[str] = []

    def cut_once(route: Route) -> None:
        """The connection is lost while the first piece is sent."""
        if broken:
            route.continue_()
        else:
            broken.append(route.request.url)
            route.abort("connectionreset")

    page.route("**/library/sending/*offset=0*", cut_once)
    drop(page, ("acta.txt", b"El acta se firma el lunes."), ("noise.bin", bytes(range(256)) * 8))
    lines = page.locator("#lines li")
    expect(row(page, "acta.txt")).to_contain_text("read")
    expect(row(page, "acta.txt")).to_contain_text("1 of 1 page read")
    expect(lines.filter(has_text="noise.bin")).to_contain_text("not added")
    expect(lines.filter(has_text="noise.bin").get_by_role("button", name="Try again")).to_be_visible()
    assert broken
    page.get_by_role("button", name="Clear finished").click()
    drop(page, ("copy.txt", b"El acta se firma el lunes."))
    expect(lines.filter(has_text="copy.txt")).to_contain_text("already here, unchanged")
    expect(page.locator("#results tr[data-id]")).to_have_count(1)
    assert seen.errors == []
    assert seen.outside == []


def test_files_of_a_folder_keep_their_way_in_their_names(perito: Server, open_page: OpenPage, tmp_path: Path) -> None:
    for name in ("2025", "2026"):
        (tmp_path / "actas" / name).mkdir(parents=True)
        (tmp_path / "actas" / name / "acta.txt").write_text(f"Acta de {name}.")
    page, seen = open_page(perito, "/library", width=390)
    page.locator("#folder").set_input_files(tmp_path / "actas")
    for name in ("2025", "2026"):
        expect(row(page, f"actas › {name} › acta.txt")).to_contain_text("1 of 1 page read")
    assert seen.errors == []


def test_our_own_hash_is_the_browsers(perito: Server, open_page: OpenPage) -> None:
    page, _ = open_page(perito, "/library")
    for size in (0, 1, 55, 56, 63, 64, 65, 1024 * 1024 + 3):
        content = bytes(number * 7 % 251 for number in range(size))
        made = page.evaluate(
            """size => {
                const bytes = Uint8Array.from({ length: size }, (_, number) => number * 7 % 251)
                return peritoHashByPieces(new File([bytes], "x"), () => false)
            }""",
            size,
        )
        assert made == hashlib.sha256(content).hexdigest(), size


def test_the_list_is_worked_with_by_keyboard(filled: Server, open_page: OpenPage) -> None:
    page, seen = open_page(filled, "/library")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.locator("#name").fill("renta")
    expect(page.locator("#results tr[data-id]")).to_have_count(1)
    expect(page).to_have_url(re.compile(r"name=renta"))
    page.locator("#name").fill("")
    expect(row(page, "fw8ben_1.pdf")).to_be_visible()
    page.get_by_role("link", name="Name").press("Enter")
    expect(page.get_by_role("columnheader", name="Name")).to_have_attribute("aria-sort", "ascending")

    page.get_by_role("checkbox", name="Select renta.txt").press("Space")
    expect(page.locator("#selected")).to_have_text("1 selected")
    bulk = page.locator("#bulk")
    bulk.get_by_placeholder("Move to").fill("archive")
    bulk.get_by_role("button", name="Move").press("Enter")
    expect(page.locator("#notice")).to_have_text("1 document moved to archive.")
    expect(row(page, "renta.txt")).to_contain_text("archive")
    expect(row(page, "renta.txt")).to_contain_text("1 of 1 page read")

    page.get_by_role("checkbox", name="Select <img src=x onerror=alert(1)>.txt").check()
    bulk.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("button", name="Keep")).to_be_focused()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator("#notice")).to_have_text("1 document deleted.")
    expect(row(page, "onerror")).to_have_count(0)
    assert seen.errors == []


def test_a_misread_block_is_corrected_on_its_page_and_found_in_the_chat(filled: Server, open_page: OpenPage) -> None:
    page, seen = open_page(filled, "/library?name=renta", locale="es-ES")
    page.get_by_role("link", name="renta.txt", exact=True).click()
    block = page.locator(".block").filter(has_text="eur0s")
    block.get_by_text("¿Mal leído?").press("Enter")
    block.get_by_label("Lo que pone en realidad").fill("La renta mensual es de 1.250 euros.")
    block.get_by_role("button", name="Guardar el texto correcto").click()
    corrected = page.locator(".block").filter(has_text="Corregido por local")
    expect(corrected).to_contain_text("1.250 euros.")
    expect(corrected).to_contain_text("Desde ahora se encuentra")
    expect(corrected.locator("time")).to_have_text(re.compile(r"^\d{1,2} \w{3} \d{4}, \d{1,2}:\d\d$"))
    expect(page.locator(".badge").first).to_have_text("leído")
    question = {"question": "¿Cuál es la renta mensual?"}
    answer = httpx.post(f"{filled.url}/api/ask", json=question, timeout=90, trust_env=False).json()
    assert "1.250 euros" in answer["answer"]
    page.goto(filled.url)
    send(page, question["question"])
    badges = page.locator(".perito-source").filter(has_text="renta.txt").locator(".perito-badge")
    expect(badges.last).to_have_text("corregido")
    expect(badges.last).to_have_attribute("title", "Corregido por local")
    badges.last.click()
    expect(page.locator(".perito-page .perito-badge").last).to_have_text("Corregido por local")
    assert seen.errors == []


def test_a_pages_places_and_blocks_light_up_together(filled: Server, open_page: OpenPage) -> None:
    page, seen = open_page(filled, "/library?name=fw8ben")
    page.get_by_role("link", name="fw8ben_1.pdf", exact=True).click()
    page.mouse.move(2, 2)  # what lies under the pointer lights up as well
    page.wait_for_url("**/library/documents/*", wait_until="domcontentloaded")  # its script has run then
    place = page.locator(".boxes a").nth(2)
    number = place.get_attribute("data-block")
    place.focus()
    expect(page.locator(".tip")).to_have_text(re.compile(r", own text, \d+ % sure"))
    expect(page.locator(".block.lit")).to_have_attribute("data-block", number or "")
    place.press("Enter")
    expect(page.locator(f"#b{number} summary").first).to_be_focused()
    assert (
        page.locator(".paper img").evaluate("async image => { await image.decode(); return image.naturalWidth }") > 500
    )
    assert seen.errors == []
    assert seen.outside == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1300, 390])
def test_everyone_can_use_it(filled: Server, open_page: OpenPage, scheme: str, width: int) -> None:
    page, _ = open_page(filled, "/library", width=width, scheme=scheme)
    row(page, "fw8ben_1.pdf").get_by_role("checkbox").check()  # with the bar for what is selected
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.get_by_role("link", name="fw8ben_1.pdf", exact=True).click()
    page.locator(".misread summary").first.click()
    page.locator(".receipt summary").first.click()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
