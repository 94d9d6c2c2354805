"""Who may do what: passwords, sessions, the gate, and that nobody sees another's collection by any way."""

from __future__ import annotations

import json
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import PlainTextResponse

from assistant.core.domain import Access
from assistant.core.errors import Misconfigured, SignInNeeded, TooManyAttempts
from assistant.core.settings import Settings
from assistant.web.auth import (
    Attempts,
    Door,
    check_binding,
    hash_password,
    session_secret,
    verify_password,
)
from assistant.web.gate import Gate
from tests.assistant.webparts import CONTRACT, PASSWORDS, Web, build_web, files, settings_for


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def web(tmp_path: Path) -> Web:
    return build_web(settings_for(tmp_path / "home", users=True), tmp_path)


@pytest.fixture
def local(tmp_path: Path) -> Web:
    return build_web(settings_for(tmp_path / "home"), tmp_path)


# -- passwords ------------------------------------------------------------------------------------


def test_a_password_is_known_again_and_another_is_not() -> None:
    kept = hash_password("contraseña ñ 🦤")
    assert verify_password("contraseña ñ 🦤", kept)
    assert not verify_password("contrasena n", kept)
    assert "contrase" not in kept
    assert hash_password("same") != hash_password("same")  # salted


@pytest.mark.parametrize("broken", ["", "plain", "scrypt$1$2$3", "scrypt$x$8$1$AA==$AA==", "md5$16384$8$1$AA==$AA=="])
def test_a_hash_that_is_none_lets_nobody_in(broken: str) -> None:
    assert not verify_password("", broken)


def test_an_empty_password_is_not_hashed() -> None:
    with pytest.raises(ValueError, match="empty"):
        hash_password("")


# -- where it may listen ----------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1", "[::1]", "localhost"])
def test_loopback_needs_no_users(tmp_path: Path, host: str) -> None:
    check_binding(settings_for(tmp_path, server={"host": host}))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "perito.example", "localhost.example"])
def test_any_other_address_needs_users_and_says_what_to_set(tmp_path: Path, host: str) -> None:
    with pytest.raises(Misconfigured, match=r"auth\.users"):
        check_binding(settings_for(tmp_path, server={"host": host}))
    check_binding(settings_for(tmp_path, server={"host": host}, users=True))


# -- sessions ---------------------------------------------------------------------------------------


def test_the_secret_is_made_once_and_kept_to_its_owner(tmp_path: Path) -> None:
    settings = settings_for(tmp_path)
    first = session_secret(settings)
    assert session_secret(settings) == first
    assert stat.S_IMODE((tmp_path / "session.secret").stat().st_mode) == 0o600
    assert session_secret(settings_for(tmp_path, auth={"secret": "given"})) != first
    assert session_secret(settings_for(tmp_path / "other")) != first


def test_a_session_ends_with_its_password_and_its_person(tmp_path: Path) -> None:
    before = settings_for(tmp_path, users=True)
    token = Door(before, "").open_session("ana", 60)
    assert Door(before, "").session_name(token) == "ana"
    ana = before.auth.users[0]
    changed = _with_users(before, [ana.model_copy(update={"password_hash": hash_password("new")})])
    with pytest.raises(SignInNeeded):
        Door(changed, "").session_name(token)
    without = Door(_with_users(before, before.auth.users[1:]), "")
    with pytest.raises(SignInNeeded):
        without.access_of(without.session_name(token))


def _with_users(settings: Settings, users: list[Any]) -> Settings:
    return settings.model_copy(update={"auth": settings.auth.model_copy(update={"users": users})})


@pytest.mark.parametrize("token", ["", "x", "a.b.c"])
def test_a_forged_session_is_none(tmp_path: Path, token: str) -> None:
    settings = settings_for(tmp_path, users=True)
    other = Door(settings_for(tmp_path / "other", users=True), "").open_session("ana", 60)
    old = Door(settings, "").open_session("ana", -1)
    for forged in (token, other, old):
        with pytest.raises(SignInNeeded):
            Door(settings, "").session_name(forged)


def test_wrong_passwords_make_one_wait_longer_and_longer() -> None:
    clock = Clock()
    attempts = Attempts(clock)
    for _ in range(5):
        attempts.check("ana")
        attempts.failed("ana")
    with pytest.raises(TooManyAttempts):
        attempts.check("ana")
    attempts.check("bea")
    clock.now += 1.5
    attempts.check("ana")
    attempts.failed("ana")
    clock.now += 1.5
    with pytest.raises(TooManyAttempts):
        attempts.check("ana")
    clock.now += 60
    attempts.check("ana")
    attempts.succeeded("ana")
    attempts.failed("ana")
    attempts.check("ana")


async def test_a_right_password_is_remembered_only_for_a_while(tmp_path: Path) -> None:
    clock = Clock()
    door = Door(settings_for(tmp_path, users=True), "", clock)
    assert await door.sign_in("ana", PASSWORDS["ana"]) == Access("ana", frozenset({"contracts"}))
    assert await door.sign_in("bea", PASSWORDS["bea"]) == Access("bea", None)
    with pytest.raises(SignInNeeded):
        await door.sign_in("ana", PASSWORDS["bea"])
    with pytest.raises(SignInNeeded):
        await door.sign_in("nobody", PASSWORDS["bea"])


# -- the local user -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8000", "127.0.0.1.evil.example", "10.0.0.4:8000", ""),
        *("[::1].evil.example", "[::1]evil.example:8000", "127.0.0.1:8000:evil.example", "127.0.0.1@evil.example"),
    ],
)
async def test_without_users_only_this_machines_names_open(local: Web, host: str) -> None:
    async with local.client() as client:
        for path in ("/api/documents", "/healthz", "/"):
            reply = await client.get(path, headers={"Host": host})
            assert (reply.status_code, reply.json()["error"]["code"]) == (403, "access_denied")


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:9000", "[::1]:8000", "LOCALHOST"])
async def test_this_machines_names_do_open(local: Web, host: str) -> None:
    async with local.client() as client:
        assert (await client.get("/api/documents", headers={"Host": host})).status_code == 200


FOREIGN = [
    {"Origin": "https://evil.example"},
    {"Origin": "http://127.0.0.1:9999"},
    {"Origin": "null"},
    {"Origin": ""},
    {"Sec-Fetch-Site": "cross-site"},
]


@pytest.mark.parametrize("headers", FOREIGN)
async def test_another_web_page_cannot_change_anything(local: Web, headers: dict[str, str]) -> None:
    async with local.client(headers=headers) as client:
        assert (await client.post("/api/documents", files=files(("a.txt", b"text")))).status_code == 403
        assert (await client.post("/api/ask", json={"question": "What?"})).status_code == 403
        assert (await client.delete("/api/documents/x")).status_code == 403
    assert local.services.catalogue.documents(Access("x", None)) == []


async def test_our_own_page_and_no_page_at_all_can(local: Web) -> None:
    async with local.client() as client:
        for headers in ({}, {"Origin": "http://127.0.0.1:8000"}, {"Sec-Fetch-Site": "same-origin"}):
            reply = await client.post("/api/ask", json={"question": "What?"}, headers=headers)
            assert reply.status_code == 200


async def test_an_origin_can_be_allowed(tmp_path: Path) -> None:
    settings = settings_for(tmp_path / "home", server={"origins": ["https://perito.example"]})
    async with build_web(settings, tmp_path).client(headers={"Origin": "https://perito.example"}) as client:
        assert (await client.post("/api/ask", json={"question": "What?"})).status_code == 200


@pytest.mark.parametrize("headers", [[(b"host", b"evil.example")], [(b"host", b"127.0.0.1"), (b"origin", b"http://x")]])
async def test_a_foreign_web_socket_is_closed_before_it_opens(local: Web, headers: list[tuple[bytes, bytes]]) -> None:
    sent: list[Any] = []

    async def receive() -> dict[str, str]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": "/ws/socket.io", "headers": headers, "query_string": b"", "scheme": "ws"}
    await local.app(scope, receive, send)
    assert [(message["type"], message["code"]) for message in sent] == [("websocket.close", 1008)]


@pytest.mark.parametrize(
    "path",
    [
        *("/project/share/x", "/project/thread/share", "/mcp", "/auth/oauth/x", "/copilot/i.js"),
        *("/docs", "/docs/oauth2-redirect", "/redoc", "/openapi.json"),
        *("/public/%00", "/project/file/a%00b"),  # its file routes would fail on it
    ],
)
async def test_what_chainlit_has_and_perito_does_not_use_is_closed(local: Web, path: str) -> None:
    gate = Gate(PlainTextResponse("Chainlit answers every path"), local.app.state.door)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(gate), base_url="http://127.0.0.1") as client:
        assert (await client.get("/public/theme.json")).status_code == 200
        assert (await client.get(path)).status_code == 404


async def test_bodies_are_bounded_before_anybody_signed_in(web: Web) -> None:
    """Frameworks read a body whole before they ask who sends it."""
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        for _ in range(200):
            taken += 1
            yield b" " * 1_000_000

    json_type = {"Content-Type": "application/json"}
    async with web.client() as client:
        said = await client.post("/api/ask", content=b" " * 33_000_000, headers=json_type)
        assert (said.status_code, said.json()["error"]["code"]) == (413, "too_large")
        unsaid = await client.post("/api/ask", content=endless(), headers=json_type)
        assert unsaid.status_code == 400
        assert taken < 40
        assert (await client.post("/api/ask", content=b" " * 9_000_000, headers=json_type)).status_code != 413
        chat_file = await client.post("/project/file", content=b"", headers={"Content-Length": "502000000"})
        assert chat_file.status_code == 413


async def test_a_browser_may_load_nothing_from_elsewhere(local: Web) -> None:
    async with local.client() as client:
        policy = (await client.get("/healthz")).headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "http" not in policy.replace("wss:", "")


# -- people -------------------------------------------------------------------------------------------


async def test_without_credentials_nothing_of_the_api_opens(web: Web) -> None:
    async with web.client() as client:
        for method, path in (
            ("GET", "/api/documents"),
            ("POST", "/api/documents"),
            ("GET", "/api/documents/x"),
            ("GET", "/api/documents/x/pages/1/image"),
            ("GET", "/api/collections"),
            ("GET", "/api/usage"),
            ("POST", "/api/ask"),
            ("DELETE", "/api/documents/x"),
        ):
            body = {"question": "What?"} if path == "/api/ask" else None
            reply = await client.request(method, path, json=body)
            assert (reply.status_code, reply.json()["error"]["code"]) == (401, "sign_in_needed"), path
            assert reply.headers["www-authenticate"].startswith("Basic")
        assert (await client.get("/healthz")).status_code == 200
        page = await client.get("/api/documents", headers={"Sec-Fetch-Mode": "cors"})
    assert not page.headers["www-authenticate"].startswith("Basic")  # no password box of the browser's own


async def test_each_way_of_signing_in_opens(web: Web) -> None:
    door = web.app.state.door
    session = door.open_session("ana", 60)
    ways: list[dict[str, Any]] = [
        {"auth": httpx.BasicAuth(b"ana", PASSWORDS["ana"].encode())},
        {"cookies": {door.cookie: session}},
        {"headers": {"Authorization": f"Bearer {session}"}},
        {"headers": {"Authorization": "Bearer local-token"}},
    ]
    for way in ways:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(web.app), base_url="http://h", **way) as client:
            assert (await client.get("/api/documents")).status_code == 200


async def test_no_wrong_way_of_signing_in_opens(web: Web) -> None:
    door = web.app.state.door
    other = Door(settings_for(web.services.settings.home / "o", users=True), "").open_session("bea", 60)
    ways: list[dict[str, Any]] = [
        {"auth": httpx.BasicAuth("ana", PASSWORDS["bea"])},
        {"auth": httpx.BasicAuth("nobody", "")},
        {"cookies": {door.cookie: other}},
        {"headers": {"Authorization": "Bearer local-toke"}},
        {"headers": {"Authorization": "Bearer "}},
        {"headers": {"Authorization": "Basic !!!"}},
        {"headers": {"Authorization": "Digest x"}},
    ]
    for way in ways:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(web.app), base_url="http://h", **way) as client:
            assert (await client.get("/api/documents")).status_code == 401, way


async def test_guessing_is_slowed_down(web: Web) -> None:
    async with web.client() as client:
        wrong = [(await client.get("/api/documents", auth=("ana", f"{n}"))).status_code for n in range(6)]
        right = await client.get("/api/documents", auth=("ana", PASSWORDS["ana"]))
    assert wrong == [401] * 5 + [429]
    assert (right.status_code, right.json()["error"]["code"]) == (429, "too_many_attempts")


Try = Callable[[httpx.AsyncClient, str], Any]
WAYS_IN: dict[str, Try] = {
    "show": lambda client, it: client.get(f"/api/documents/{it}"),
    "page": lambda client, it: client.get(f"/api/documents/{it}/pages/1"),
    "image": lambda client, it: client.get(f"/api/documents/{it}/pages/1/image"),
    "boxed image": lambda client, it: client.get(f"/api/documents/{it}/pages/1/image?boxes=0,0,1,1"),
    "file": lambda client, it: client.get(f"/api/documents/{it}/file"),
    "progress": lambda client, it: client.get(f"/api/documents/{it}/progress"),
    "reread": lambda client, it: client.post(f"/api/documents/{it}/reread"),
    "delete": lambda client, it: client.delete(f"/api/documents/{it}"),
}


@pytest.mark.parametrize("way", list(WAYS_IN))
async def test_anothers_document_does_not_exist_for_me(web: Web, way: str) -> None:
    document_id = await _contract_of_ana(web)
    async with web.client("carl") as carl, web.client("ana") as ana, web.client("bea") as bea:
        theirs = await WAYS_IN[way](carl, document_id)
        missing = await WAYS_IN[way](carl, "no-such-document")
        assert theirs.status_code == missing.status_code == 404
        assert theirs.text.replace(document_id, "*") == missing.text.replace("no-such-document", "*")
        assert (await ana.get(f"/api/documents/{document_id}")).status_code == 200  # and it is still there
        assert (await WAYS_IN[way](bea, document_id)).status_code in (200, 202, 204)


async def test_anothers_document_is_in_no_list_and_no_answer_of_mine(web: Web) -> None:
    document_id = await _contract_of_ana(web)
    async with web.client("carl") as carl:
        seen = [
            await carl.get("/api/documents"),
            await carl.get("/api/documents", params={"collection": "contracts"}),
            await carl.get("/api/documents", params={"ids": document_id}),
            await carl.get("/api/documents", params={"name": "arrend"}),
            await carl.get("/api/collections"),
            await carl.post("/api/ask", json={"question": "¿Cuándo vence el contrato?"}),
            await carl.post("/api/ask", json={"question": "¿Cuándo vence el contrato?", "collection": "contracts"}),
        ]
    for reply in seen:
        assert reply.status_code == 200
        for secret in (document_id, "2027", "arrendamiento.txt", "Mayor"):
            assert secret not in json.dumps(reply.json(), ensure_ascii=False).replace("contracts", "")
    async with web.client("ana") as ana:
        answer = (await ana.post("/api/ask", json={"question": "¿Cuándo vence el contrato?"})).json()
    assert "2027" in answer["answer"]


async def test_nobody_adds_to_a_collection_they_may_not_see(web: Web) -> None:
    async with web.client("carl") as carl:
        reply = await carl.post("/api/documents", files=files(("a.txt", b"text")), data={"collection": "contracts"})
    assert (reply.status_code, reply.json()["error"]["code"]) == (403, "access_denied")


async def _contract_of_ana(web: Web) -> str:
    async with web.client("ana") as ana:
        body = files(("arrendamiento.txt", CONTRACT.encode()))
        reply = await ana.post("/api/documents", files=body, data={"collection": "contracts"})
    assert reply.status_code == 202, reply.text
    return reply.json()["documents"][0]["id"]
