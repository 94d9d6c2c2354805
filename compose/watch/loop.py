"""Going round: look, plan, act, and again when something changed; once, or until told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass
from pathlib import Path

from assistant.core.domain import collection_name
from assistant.core.errors import NotFound, PeritoError, TransientError
from assistant.core.settings import Settings
from assistant.core.shapes import DocumentShape
from compose.backends import Backend, open_backend
from compose.standalone import make_home
from compose.watch.acting import Actor, Done
from compose.watch.events import wake_on_changes
from compose.watch.folder import Ignored, checked_folder
from compose.watch.memory import Memory, sole_watcher
from compose.watch.plan import Plan, make_plan
from compose.watch.survey import Survey, Surveyor, Watched

SETTLE_SECONDS = 2.0
RESCAN_SECONDS = 30.0  # what no notice was given of is found then
RETRY_SECONDS = (5.0, 15.0, 60.0, 300.0)
FOLLOWED_AT_ONCE = 8
ROUNDS = 20  # of `--once`, at most: a rename may have to wait until its document was read


@dataclass(frozen=True, slots=True)
class Told:
    """One thing a watch has to say: what it did, how a document was read, or a sentence."""

    done: Done | None = None
    read: DocumentShape | None = None
    sentence: str = ""
    trouble: bool = False

    @property
    def is_bad(self) -> bool:
        """Whether a file was not read, or not wholly."""
        refused = self.done is not None and self.done.deed == "refused"
        return refused or (self.read is not None and self.read.status != "complete")


@dataclass(frozen=True, slots=True)
class Options:
    """``settle`` in seconds."""

    ignore: tuple[str, ...] = ()
    settle: float = SETTLE_SECONDS
    may_be_empty: bool = False


@dataclass(frozen=True, slots=True)
class Parts:
    """Of an open watch."""

    watched: Watched
    memory: Memory
    surveyor: Surveyor
    terms: str


@contextlib.asynccontextmanager
async def open_watch(
    settings: Settings, folder: Path, collection: str, options: Options, stop: threading.Event
) -> AsyncGenerator[Parts]:
    """What a watch works with. NotFound, BadRequest or UnreadableFile where the folder cannot be watched."""
    home, collection = settings.home, collection_name(collection)
    root = await asyncio.to_thread(checked_folder, folder, home)
    ignored = Ignored(options.ignore)
    watched = Watched(root, home, ignored, options.settle, options.may_be_empty, settings.limits.upload_mb)
    await asyncio.to_thread(make_home, home)
    memory = await asyncio.to_thread(Memory, home, root, collection)
    try:
        yield Parts(watched, memory, Surveyor(watched, should_stop=stop.is_set), terms_of(settings))
    finally:
        await asyncio.to_thread(memory.close)


def terms_of(settings: Settings) -> str:
    """A mark of what decides whether a file is accepted: what was refused under another is tried again."""
    hears = settings.transcription.max_mb if settings.transcription.configured else 0
    terms = json.dumps([settings.limits.model_dump(mode="json"), hears], sort_keys=True)
    return hashlib.sha256(terms.encode()).hexdigest()[:16]


class Watch:
    """One folder and one collection. ``tell`` hears of everything."""

    def __init__(
        self,
        settings: Settings,
        folder: Path,
        collection: str,
        options: Options,
        tell: Callable[[Told], None],
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._collection = collection_name(collection)
        self._options = options
        self._tell = tell
        self._stopped = threading.Event()
        self._wake = asyncio.Event()
        self._followed: dict[str, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(FOLLOWED_AT_ONCE)
        self._said: dict[str, str] = {}
        self._troubles = 0  # in a row
        self._lost = False  # how a document was read is not known: the server ended, e.g.
        self._task: asyncio.Task[object] | None = None

    def stop(self) -> None:
        """End in order, at once; what was accepted is read on later. From the event loop's thread."""
        if self._stopped.is_set():  # an impatient second Ctrl+C: a task cancelled twice would end in a traceback
            return
        self._stopped.set()
        if self._task is not None:
            self._task.cancel()

    async def once(self) -> None:
        """Bring the collection up to the folder, and wait until everything is read. What is still being written is
        left for the next time. TransientError where something stood in the way, or the folder is away."""
        with self._until_stopped():
            async with self._opened() as (parts, actor):
                survey = await self.rested(parts)
                if survey.away:
                    raise TransientError(survey.away)
                await self._until_done(parts, actor, survey)

    async def rested(self, parts: Parts) -> Survey:
        """What lies there, after as many looks as it takes to see what is at rest."""
        survey = await self._survey(parts)
        if not survey.settled and not survey.away:
            await asyncio.sleep(self._options.settle)
            survey = await self._survey(parts)
        return survey

    async def _until_done(self, parts: Parts, actor: Actor, survey: Survey) -> None:
        async with contextlib.AsyncExitStack() as session:
            backend: Backend | None = None
            for _ in range(ROUNDS):
                plan = await self._planned(parts, actor, survey)
                if not plan.acts:
                    break
                backend = backend or await self._backend(session)
                await self._act(actor, backend, plan)
                while self._followed:
                    await asyncio.wait(list(self._followed.values()))
                if self._lost:
                    raise TransientError("It is not known how some documents were read", "See `perito documents list`")
                if not actor.later:
                    break
                survey = await self._survey(parts)
            if backend is not None:
                await backend.finish()
            elif not survey.restless:
                self._tell(Told(sentence=self._unchanged(parts)))
        if survey.restless:
            names = ", ".join(sorted(survey.restless)[:5]) + (", …" if len(survey.restless) > 5 else "")
            self._say("restless", f"Still being written, and left for the next time: {names}")

    def _unchanged(self, parts: Parts) -> str:
        known = parts.memory.files().values()
        read, refused = sum(bool(file.document) for file in known), sum(bool(file.refused) for file in known)
        files = f"{read} file{'s' * (read != 1)}" + (f", and {refused} that cannot be read" if refused else "")
        return f"Nothing to do: the collection {self._collection} is as {parts.watched.root} is ({files})"

    async def forever(self) -> None:
        """Until ``stop``. Trouble that may pass is told, and everything tried again."""
        with self._until_stopped():
            async with self._opened() as (parts, actor):
                root = parts.watched.root
                events = wake_on_changes(root, parts.watched.ignored, self._wake, self._trouble)
                waking = asyncio.create_task(events)
                self._tell(Told(sentence=f"Watching {root} for the collection {self._collection}"))
                try:
                    while True:
                        pause = await self._session(parts, actor)
                        await asyncio.sleep(pause)
                finally:
                    waking.cancel()
                    await asyncio.gather(waking, return_exceptions=True)

    async def _session(self, parts: Parts, actor: Actor) -> float:
        """Go round until nothing is being read any more, or trouble came up: then others may have this home. How many
        seconds to leave it to them."""
        async with contextlib.AsyncExitStack() as session:
            backend: Backend | None = None
            while True:
                self._wake.clear()
                try:
                    survey = await self._survey(parts)
                    plan = await self._planned(parts, actor, survey)
                    if plan.acts:
                        backend = backend or await self._backend(session)
                        await self._act(actor, backend, plan)
                        self._troubles = 0
                except TransientError as error:
                    self._trouble(str(error))
                    self._troubles += 1  # what it leads to may be gone: it is looked for anew
                    return RETRY_SECONDS[min(self._troubles, len(RETRY_SECONDS)) - 1]
                if backend is not None and not self._followed:
                    await backend.finish()
                    return 0.0
                at_rest = survey.settled and not plan.waits and not (plan.acts and actor.later)
                await self._wait(RESCAN_SECONDS if at_rest else self._options.settle)

    async def _backend(self, session: contextlib.AsyncExitStack) -> Backend:
        """Open until the session ends; before that nothing is followed any more."""
        backend = await session.enter_async_context(open_backend(self._settings))
        session.push_async_callback(self._follow_no_more)
        return backend

    # -- one round ----------------------------------------------------------------------------

    async def _survey(self, parts: Parts) -> Survey:
        survey = await asyncio.to_thread(parts.surveyor.survey, parts.memory.files())
        for path, why in survey.troubles.items():
            self._say(f"trouble {path}", f"{path}: {why}")
        for key in [key for key in self._said if key.startswith("trouble ") and key[8:] not in survey.troubles]:
            del self._said[key]
        return survey

    async def _planned(self, parts: Parts, actor: Actor, survey: Survey) -> Plan:
        """What to do; what changes nothing in the collection is noted at once."""
        self._say("away", survey.away)
        if survey.away:
            return Plan()
        plan = make_plan(survey, parts.memory.files(), parts.memory.documents(), parts.terms)
        await actor.note(plan)
        return plan

    async def _act(self, actor: Actor, backend: Backend, plan: Plan) -> None:
        async with contextlib.aclosing(actor.act(backend, plan)) as entered:
            async for document_id in entered:
                if document_id not in self._followed:
                    task = asyncio.create_task(self._follow(actor, backend, document_id))
                    self._followed[document_id] = task
                    task.add_done_callback(lambda _, which=document_id: self._let_go(which))

    async def _follow(self, actor: Actor, backend: Backend, document_id: str) -> None:
        """Tell how a document was read, when it was."""
        async with self._slots:
            try:
                document = await backend.follow(document_id, lambda _: None)
                await actor.was_read(document)
            except NotFound:  # somebody deleted it, or a newer version has replaced it
                return
            except PeritoError as error:
                self._lost = True
                self._trouble(str(error))
                return
        self._tell(Told(read=document))

    def _let_go(self, document_id: str) -> None:
        del self._followed[document_id]
        if not self._followed:
            self._wake.set()

    async def _follow_no_more(self) -> None:
        tasks = list(self._followed.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- waiting and telling ------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _opened(self) -> AsyncGenerator[tuple[Parts, Actor]]:
        opened = open_watch(self._settings, self._folder, self._collection, self._options, self._stopped)
        async with opened as parts:
            with sole_watcher(self._settings.home, parts.memory.watch):
                actor = Actor(
                    parts.watched, self._collection, parts.memory, self._settings.limits, parts.terms,
                    lambda done: self._tell(Told(done=done)),
                )  # fmt: skip
                await asyncio.to_thread(actor.tidy)
                try:
                    yield parts, actor
                finally:
                    await asyncio.to_thread(actor.tidy)

    @contextlib.contextmanager
    def _until_stopped(self) -> Generator[None]:
        """``stop`` ends what is done within; nobody else's cancelling is swallowed."""
        self._task = asyncio.current_task()
        try:
            yield
        except asyncio.CancelledError:
            if not self._stopped.is_set() or self._task is None or self._task.uncancel():
                raise
        finally:
            self._task = None

    async def _wait(self, seconds: float) -> None:
        """So long, or until something changed; a file that is written to all the time does not keep us busy."""
        begun = time.monotonic()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        await asyncio.sleep(max(0.0, min(seconds, self._options.settle / 2) - (time.monotonic() - begun)))

    def _say(self, key: str, sentence: str) -> None:
        """Tell it, but not again and again."""
        if sentence and self._said.get(key) != sentence:
            self._tell(Told(sentence=sentence, trouble=True))
        self._said[key] = sentence

    def _trouble(self, sentence: str) -> None:
        self._tell(Told(sentence=sentence, trouble=True))
