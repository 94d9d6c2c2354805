"""Who asks: passwords, sessions, and the Access that every route and the chat go through.

Without configured users there is one, the local user, who may see everything and is trusted because
Perito then listens on loopback only (``check_binding``; the gate checks the rest). With users, a request
proves itself by the session cookie that signing in gave, by HTTP Basic, or by a bearer token: a session's,
or the local command line's.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hashlib
import hmac
import ipaddress
import os
import secrets
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt

from assistant.core.domain import Access
from assistant.core.errors import Misconfigured, SignInNeeded, TooManyAttempts
from assistant.core.settings import Settings, User

LOCAL_USER = "local"
SCRYPT = {"n": 2**14, "r": 8, "p": 1}  # 16 MB and about 50 ms: OWASP's floor for scrypt
FREE_ATTEMPTS = 5
LONGEST_WAIT = 60.0
REMEMBERED_SECONDS = 300.0  # a Basic password that was right is not stretched again at every request


def hash_password(password: str) -> str:
    """``scrypt$n$r$p$salt$key``, for ``auth.users``. ValueError for an empty password."""
    if not password:
        raise ValueError("an empty password")
    salt = secrets.token_bytes(16)
    key = _stretch(password, salt, **SCRYPT)
    fields = [str(SCRYPT["n"]), str(SCRYPT["r"]), str(SCRYPT["p"]), _encode(salt), _encode(key)]
    return "$".join(["scrypt", *fields])


def verify_password(password: str, password_hash: str) -> bool:
    """Whether ``password`` made ``password_hash``; False for a hash that is none."""
    try:
        kind, n, r, p, salt, key = password_hash.split("$")
        expected = base64.b64decode(key, validate=True)
        found = _stretch(password, base64.b64decode(salt, validate=True), int(n), int(r), int(p))
    except (ValueError, binascii.Error, MemoryError):
        return False
    return kind == "scrypt" and hmac.compare_digest(found, expected)


def _stretch(password: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=n, r=r, p=p, maxmem=256 * n * r, dklen=32)


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def is_loopback(host: str) -> bool:
    """Whether ``host``, a name or address without port, can only mean this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_binding(settings: Settings) -> None:
    """Misconfigured when Perito would be reachable from elsewhere without anybody having to sign in."""
    if settings.auth.users or is_loopback(settings.server.host):
        return
    raise Misconfigured(
        f"Perito would listen on {settings.server.host} and let everybody in, since no users are configured",
        "Set auth.users (perito password makes the hash), or listen on 127.0.0.1",
    )


def session_secret(settings: Settings) -> str:
    """What signs sessions: ``auth.secret``, or one made at the first start and kept in the home."""
    given = settings.auth.secret.get_secret_value()
    return hashlib.sha256((given or _kept_secret(settings.home / "session.secret")).encode()).hexdigest()


def _kept_secret(file: Path) -> str:
    file.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as stream:
            stream.write(secrets.token_hex(32))
    return file.read_text("ascii")


class Attempts:
    """Slows down guessing: after five wrong passwords each further one doubles the wait, up to a minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: dict[str, tuple[int, float]] = {}  # by name: how many, and when the next may come

    def check(self, name: str) -> None:
        """TooManyAttempts while ``name`` has to wait."""
        wait = self._failures.get(name, (0, 0.0))[1] - self._clock()
        if wait > 0:
            raise TooManyAttempts(f"Too many wrong passwords for {name}", f"Wait {wait:.0f} seconds and try again")

    def failed(self, name: str) -> None:
        count = self._failures.get(name, (0, 0.0))[0] + 1
        wait = min(LONGEST_WAIT, 2.0 ** (count - FREE_ATTEMPTS)) if count >= FREE_ATTEMPTS else 0.0
        if len(self._failures) > 10_000:  # made-up names must not fill the memory
            self._failures.clear()
        self._failures[name] = (count, self._clock() + wait)

    def succeeded(self, name: str) -> None:
        self._failures.pop(name, None)


class Door:
    """Turns what a request brings into an Access, or refuses it."""

    def __init__(self, settings: Settings, local_token: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._users = {user.name: user for user in settings.auth.users}
        self._secret = session_secret(settings)
        self._local_token = local_token
        self._clock = clock
        self._attempts = Attempts(clock)
        self._remembered: dict[bytes, float] = {}
        self.cookie = f"perito_session_{settings.server.port}"  # cookies know no ports; two Peritos must not mix
        # Spent on names that do not exist as well, so that time does not tell which do.
        self._nobody = hash_password(secrets.token_hex(8)) if self._users else ""

    @property
    def has_users(self) -> bool:
        return bool(self._users)

    @property
    def secret(self) -> str:
        return self._secret

    def access_of(self, name: str) -> Access:
        """What the person called ``name`` may see. SignInNeeded when there is no such person (any more)."""
        if not self._users and name == LOCAL_USER:
            return Access(LOCAL_USER, None)
        user = self._users.get(name)
        if user is None:
            raise SignInNeeded("This session belongs to nobody who may sign in here")
        return Access(name, None if "*" in user.collections else frozenset(user.collections))

    def session_key(self, name: str) -> str:
        """Ties a session to the person's present password: changing it ends the session."""
        user = self._users.get(name)
        return hmac.new(self._secret.encode(), (user.password_hash if user else name).encode(), "sha256").hexdigest()

    async def sign_in(self, name: str, password: str) -> Access:
        """SignInNeeded for a wrong name or password, TooManyAttempts after several."""
        self._attempts.check(name)
        user = self._users.get(name)
        if not await self._is_right(user, name, password):
            self._attempts.failed(name)
            raise SignInNeeded("The name or the password is wrong", "Check both and try again")
        self._attempts.succeeded(name)
        return self.access_of(name)

    async def _is_right(self, user: User | None, name: str, password: str) -> bool:
        password_hash = user.password_hash if user else self._nobody
        proof = hmac.new(self._secret.encode(), f"{name}\0{password}\0{password_hash}".encode(), "sha256").digest()
        if self._remembered.get(proof, 0.0) > self._clock():
            return True
        if not await asyncio.to_thread(verify_password, password, password_hash) or user is None:
            return False
        if len(self._remembered) > 1000:
            self._remembered.clear()
        self._remembered[proof] = self._clock() + REMEMBERED_SECONDS
        return True

    async def access(self, authorization: str, cookies: Mapping[str, str]) -> Access:
        """The Access of a request by its Authorization header (may be empty) and cookies.

        SignInNeeded, TooManyAttempts.
        """
        scheme, _, value = authorization.partition(" ")
        if scheme.lower() == "bearer":
            return self._access_by_token(value.strip())
        if not self._users:
            return Access(LOCAL_USER, None)
        if scheme.lower() == "basic":
            return await self.sign_in(*_basic(value))
        if session := cookies.get(self.cookie):
            return self.access_of(self.session_name(session))
        raise SignInNeeded("Nobody is signed in")

    def _access_by_token(self, token: str) -> Access:
        if self._local_token and hmac.compare_digest(token.encode(), self._local_token.encode()):
            return Access(LOCAL_USER, None)
        return self.access_of(self.session_name(token))

    def open_session(self, name: str, seconds: float) -> str:
        """A session token in Chainlit's form, for ``name``."""
        now = datetime.now(UTC)
        claims = {"identifier": name, "display_name": name, "metadata": {"key": self.session_key(name)}}
        times = {"iat": now, "exp": now + timedelta(seconds=seconds)}
        return jwt.encode({**claims, **times}, self._secret, algorithm="HS256")

    def session_name(self, token: str) -> str:
        """Whose session ``token`` is. SignInNeeded when it is forged, too old, or from before a change of password."""
        try:
            claims: dict[str, Any] = jwt.decode(token, self._secret, algorithms=["HS256"])
            name, key = str(claims["identifier"]), str(claims["metadata"]["key"])
        except (jwt.InvalidTokenError, KeyError, TypeError):
            raise SignInNeeded("The session has ended", "Sign in again") from None
        if not hmac.compare_digest(key.encode(), self.session_key(name).encode()):
            raise SignInNeeded("The session has ended", "Sign in again")
        return name


def _basic(value: str) -> tuple[str, str]:
    try:
        name, separator, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        name = separator = password = ""
    if not separator:
        raise SignInNeeded("The Authorization header is not Basic authentication")
    return name, password
