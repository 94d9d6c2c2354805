"""The chat with people who sign in, and what happens when answers are stopped, fail, or files are locked."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.assistant.webparts import CONTRACT, PASSWORDS
from tests.web.conftest import OpenPage, Server
from tests.web.test_chromium import drop, send


def sign_in(page: Page, name: str, password: str | None = None) -> None:
    page.locator("#email").fill(name)
    page.locator("#password").fill(password or PASSWORDS[name])
    page.locator("form button[type=submit]").click()


def as_user(page: Page, server: Server, path: str, method: str = "GET") -> httpx.Response:
    """The same request that the page's session would make."""
    cookies = {cookie["name"]: cookie["value"] for cookie in page.context.cookies()}  # pyright: ignore[reportTypedDictNotRequiredAccess]
    return httpx.request(method, server.url + path, cookies=cookies, trust_env=False)


@pytest.fixture
def signed_in(team: Server, open_page: OpenPage) -> OpenPage:
    """Opens a page as a person: ``signed_in("ana")``."""

    def opened(name: str, locale: str = "en-US") -> Page:
        page, _ = open_page(team, locale=locale)
        sign_in(page, name)
        page.locator(".command-button").wait_for()
        return page

    return opened  # pyright: ignore[reportReturnType]


def file_with(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_wrong_password_is_said_in_plain_words(team: Server, open_page: OpenPage) -> None:
    page, seen = open_page(team, locale="es-ES")
    sign_in(page, "bea", "wrong")
    expect(page.get_by_text("El nombre o la contraseña no son correctos")).to_be_visible()
    assert page.locator("#chat-input").count() == 0
    assert seen.outside == []


def test_one_persons_conversation_files_and_documents_are_hidden_from_another(
    team: Server, signed_in: OpenPage, tmp_path: Path
) -> None:
    ana = signed_in("ana")
    drop(ana, file_with(tmp_path, "arrendamiento.txt", CONTRACT))
    send(ana, "¿Cuándo vence el contrato?")
    ana.locator("a.citation").first.wait_for()
    expect(ana.locator(".ai-message").last).to_contain_text("31 de diciembre de 2027")
    thread = ana.url.rsplit("/", 1)[-1] if "/thread/" in ana.url else thread_of(ana)
    sent = ana.locator('[data-step-type="user_message"] a').first.get_attribute("href") or ""
    page_image = ana.locator("a.citation").first.get_attribute("href") or ""
    ana.reload()
    ana.goto(f"{team.url}/thread/{thread}")
    ana.locator(".perito-source").first.wait_for()
    kept = ana.locator('[data-step-type="user_message"] a').first.get_attribute("href") or ""
    assert "/api/attachments/" in kept
    assert as_user(ana, team, kept.removeprefix(team.url)).text == CONTRACT
    assert as_user(ana, team, page_image).status_code == 200

    carl = signed_in("carl")
    assert as_user(carl, team, page_image).status_code == 404
    assert as_user(carl, team, kept.removeprefix(team.url)).status_code == 404
    assert as_user(carl, team, f"/project/thread/{thread}").status_code == 401
    assert as_user(carl, team, f"/project/share/{thread}").status_code == 404
    assert as_user(carl, team, sent.removeprefix(team.url)).status_code in (401, 404)
    carl.goto(f"{team.url}/thread/{thread}")
    carl.wait_for_timeout(1500)
    assert "2027" not in carl.content()
    carl.goto(team.url)
    carl.get_by_role("button", name="Show my documents").click()
    expect(carl.locator(".ai-message")).to_contain_text("There are no documents yet")
    send(carl, "¿Cuándo vence el contrato?")
    expect(carl.locator(".ai-message").last).to_contain_text("No he encontrado nada")
    assert "2027" not in carl.content()


def thread_of(page: Page) -> str:
    link = page.locator('a[href^="/thread/"]').first
    link.wait_for()
    return (link.get_attribute("href") or "").rsplit("/", 1)[-1]


def test_a_session_that_was_forged_opens_nothing(team: Server) -> None:
    name = f"perito_session_{team.port}"
    for path in ("/api/documents", "/user", "/project/settings"):
        reply = httpx.get(team.url + path, cookies={name: "a.b.c"}, trust_env=False)
        assert reply.status_code == 401


def test_stopping_ends_the_answer_on_both_sides(team: Server, signed_in: OpenPage) -> None:
    page = signed_in("bea")
    send(page, "Count for ever")
    answer = page.locator(".ai-message").last
    expect(answer).to_contain_text("3 4 5")
    page.locator("#stop-button").click()
    expect(answer).to_contain_text("Stopped.")
    expect(page.locator("#stop-button")).to_have_count(0)
    assert "manually" not in page.content()
    note, end = team.home / "stopped.txt", time.monotonic() + 20
    while not note.exists() and time.monotonic() < end:
        time.sleep(0.1)
    assert note.exists()
    page.goto(f"{team.url}/thread/{thread_of(page)}")
    expect(page.locator(".ai-message").last).to_contain_text("Stopped.")


def test_a_failing_model_is_one_clear_sentence(signed_in: OpenPage) -> None:
    page = signed_in("bea", locale="es-ES")
    send(page, "Fail")
    answer = page.locator(".ai-message").last
    expect(answer).to_contain_text("El modelo de lenguaje no responde. Comprueba que está en marcha")
    assert "It begins" not in page.content()
    assert "Traceback" not in page.content()


def give_password(page: Page, password: str) -> None:
    """Type it and send it; a card that is drawn anew meanwhile forgets what was typed into the old one."""
    card = page.locator(".perito-document")
    button = card.get_by_role("button", name="Open")
    for _ in range(40):
        card.get_by_label("Password of locked.txt").fill(password)
        page.wait_for_timeout(250)
        if button.is_enabled():
            break
    button.click()


def test_a_locked_file_asks_for_its_password_and_keeps_it_out_of_the_history(
    team: Server, signed_in: OpenPage, tmp_path: Path
) -> None:
    page = signed_in("bea")
    drop(page, file_with(tmp_path, "locked.txt", "LOCKED but readable: the fee is 300 euros."))
    send(page)
    card = page.locator(".perito-document")
    expect(card).to_contain_text("locked.txt is locked")
    give_password(page, "wrong")
    expect(card.get_by_role("alert")).to_contain_text("locked.txt is locked")
    give_password(page, "sesame")
    expect(page.locator(".perito-document").get_by_role("status")).to_have_text("read")
    send(page, "How much is the fee?")
    expect(page.locator(".ai-message").last).to_contain_text("300 euros")
    assert b"sesame" not in b"".join(file.read_bytes() for file in team.home.glob("perito.db*"))


def test_documents_are_listed_and_deleted_from_the_chat(signed_in: OpenPage, tmp_path: Path) -> None:
    page = signed_in("bea")
    drop(page, file_with(tmp_path, "to delete.txt", "This text is deleted soon."))
    send(page)
    expect(page.locator(".perito-document").get_by_role("status")).to_have_text("read")
    page.get_by_role("button", name="Documents").first.click()
    page.locator("#chat-submit").click()
    card = page.locator(".ai-message").last.locator(".perito-document", has_text="to delete.txt")
    card.get_by_role("button", name="Delete").click()
    card.get_by_role("button", name="Delete for good").click()
    expect(card).to_have_count(0)
    send(page, "Which text is deleted soon?")
    expect(page.locator(".ai-message").last).not_to_contain_text("deleted soon.”")


def test_a_chosen_collection_is_where_files_go_and_answers_come_from(
    team: Server, signed_in: OpenPage, tmp_path: Path
) -> None:
    ana = signed_in("ana")
    drop(ana, file_with(tmp_path, "tariff.txt", "The tariff for storage is 77 euros."))
    send(ana)
    expect(ana.locator(".perito-document").get_by_role("status")).to_have_text("read")
    bea = signed_in("bea")
    drop(bea, file_with(tmp_path, "rules.txt", "The rules of the house."))
    send(bea)
    expect(bea.locator(".perito-document").get_by_role("status")).to_have_text("read")
    bea.goto(team.url)
    bea.locator("#chat-settings-open-modal").click()
    bea.get_by_role("combobox").click()
    bea.get_by_role("option", name="default").click()
    bea.get_by_role("button", name="Confirm").click()
    send(bea, "How much is the tariff for storage?")
    expect(bea.locator(".ai-message").last).to_contain_text("found nothing")
    bea.locator("#chat-settings-open-modal").click()
    bea.get_by_role("combobox").click()
    bea.get_by_role("option", name="contracts").click()
    bea.get_by_role("button", name="Confirm").click()
    send(bea, "How much is the tariff for storage?")
    expect(bea.locator(".ai-message").last).to_contain_text("77 euros")
