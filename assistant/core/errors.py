"""Everything that goes wrong, as one tree.

PeritoError
+ PermanentError            trying again will not help
  + BadInput                what was given cannot be used (CLI exit 1, HTTP 4xx)
    · EmptyFile             nothing in it
    · UnsupportedFile       not a format we read
    · UnreadableFile        damaged beyond reading
    · EncryptedFile         needs a password, or another one
    · TooLarge              over a limit that protects the machine
    · BadRequest            a parameter makes no sense
  · NotFound                no such document, page or collection (or not for this person)
  · AccessDenied            not allowed
  · SignInNeeded            nobody is signed in, or the password is wrong
  · Misconfigured           a setting is missing or contradicts another
  · LeaseLost               another process reads the document now; what was read here does not count
  · StoreMismatch           the stored data was made by another model or version
+ TransientError            may work later
  · TooManyAttempts         too many wrong passwords in a row
  · EndpointDown            a model endpoint did not answer
  · EndpointBusy            it answered: later (429, 503)
  · DiskFull                no room left; nothing accepted is lost
  · StoreBusy               another process owns the store
  · WorkerDied              an OCR process crashed or ran out of time

Each has a stable ``code`` (its class name in snake_case), a ``message`` that says what happened to
what, and ``advice`` that says what to do. ``str(error)`` is both. Interfaces print them, never a traceback.
"""

from __future__ import annotations

import re


class PeritoError(Exception):
    """What happened, to what, and what to do about it."""

    advice_default = ""

    def __init__(self, message: str, advice: str = "") -> None:
        self.message = message.strip().rstrip(".")
        self.advice = (advice or self.advice_default).strip().rstrip(".")
        super().__init__(" ".join(_sentence(part) for part in (self.message, self.advice) if part))

    def __reduce__(self) -> tuple[type[PeritoError], tuple[str, str]]:
        return (type(self), (self.message, self.advice))  # so that it survives a process boundary

    @property
    def code(self) -> str:
        return re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()


def _sentence(text: str) -> str:
    return text if text.endswith(("!", "?", "…")) else f"{text}."


class PermanentError(PeritoError):
    """Trying the same again will not help."""


class BadInput(PermanentError):
    """What was given cannot be used."""


class EmptyFile(BadInput):
    advice_default = "Check the file at its source and send it again"


class UnsupportedFile(BadInput):
    advice_default = "Convert it to PDF or to an image and send it again"


class UnreadableFile(BadInput):
    advice_default = "Open it in the program that made it, save it again, and send the new copy"


class EncryptedFile(BadInput):
    advice_default = "Give the password with --password, or send a copy without one"


class TooLarge(BadInput):
    advice_default = "Split it into smaller parts"


class BadRequest(BadInput):
    pass


class NotFound(PermanentError):
    pass


class AccessDenied(PermanentError):
    advice_default = "Ask whoever runs this Perito for access"


class SignInNeeded(PermanentError):
    advice_default = "Sign in, or send a name and password with the request"


class Misconfigured(PermanentError):
    pass


class StoreMismatch(PermanentError):
    pass


class TransientError(PeritoError):
    """The same may work later."""


class TooManyAttempts(TransientError):
    advice_default = "Wait a minute and try again"


class EndpointDown(TransientError):
    advice_default = "Check that the endpoint is running and reachable"


class EndpointBusy(TransientError):
    advice_default = "Try again in a moment"


class DiskFull(TransientError):
    advice_default = "Free some space; reading goes on by itself where it stopped"


class StoreBusy(TransientError):
    pass


class WorkerDied(TransientError):
    pass


class LeaseLost(PermanentError):
    """Another process reads the document now, or nobody is to; what was read here does not count."""
