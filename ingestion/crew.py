"""What reads in this process: it takes documents from the queue, a few at a time, and shows that it lives.

Places are kept free for the more urgent, and one of them for long documents, so that neither a bulk import nor many
small files starve anyone. A long document gives its place up after a while, between two pages, where others wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import socket
import threading
import time
from dataclasses import replace

import psutil

from assistant.core.domain import Urgency
from assistant.core.errors import LeaseLost, NotFound, PeritoError, TransientError
from assistant.core.machine import usable_cores
from assistant.core.ports import Progress
from assistant.core.queue import Claim, Lease, SqlQueue, Wanted
from assistant.core.settings import WorkerSettings
from ingestion.followers import Followers
from ingestion.gates import Turn
from ingestion.publish import Publisher
from ingestion.runs import Run, Runner
from ingestion.threads import to_its_end

log = logging.getLogger(__name__)

PLACES = 3  # documents at once at least, else one a core; each has a file process of its own
MORE_PLACES = {Urgency.BULK: 0, Urgency.PROGRAM: 1, Urgency.PERSON: 3}
SLICE_SECONDS = 10.0  # a long document keeps its place that long where others wait
RETRY_SECONDS = (1.0, 5.0, 15.0, 60.0)  # then every minute: nothing accepted is dropped
LOOK_SECONDS = 0.5  # for what another process put in the queue
QUIET_SECONDS = 30.0
BEATS = 5  # in the time after which a silent worker is taken for dead


class Crew:
    """For one event loop: ``start`` it there."""

    def __init__(
        self,
        queue: SqlQueue,
        runner: Runner,
        publisher: Publisher,
        followers: Followers,
        settings: WorkerSettings,
        *,
        alone: bool,
    ) -> None:
        """``alone``: no other process works on this catalogue, so a former one is dead."""
        self._queue = queue
        self._runner = runner
        self._publisher = publisher
        self._followers = followers
        self._settings = settings
        self._alone = alone
        self._places = max(PLACES, usable_cores())
        self._running: dict[str, tuple[Run, asyncio.Task[None]]] = {}
        self._worker = ""
        self._shown = _clocks()  # when this worker last showed itself
        self._nobodys = frozenset[Lease]()  # leases that no reading stood behind at the last beat
        self._wanted = asyncio.Event()
        self._taking = asyncio.Lock()
        self._work: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped = threading.Event()
        self._heart = threading.Thread(target=self._beat_on, name="heartbeat", daemon=True)

    # -- life ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Hand on what dead processes left, and take documents from now on."""
        self._loop = asyncio.get_running_loop()
        await asyncio.to_thread(self._enrol)
        self._heart.start()
        self._work = asyncio.create_task(self._work_on(), name="take documents")

    async def aclose(self) -> None:
        """Stop; what is unfinished is free for others at once, or goes on at the next start."""
        self._stopped.set()
        tasks = [task for _, task in self._running.values()] + ([self._work] if self._work else [])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._heart.is_alive():
            await asyncio.to_thread(self._heart.join)
        if self._worker:
            try:
                await asyncio.to_thread(self._queue.dismiss, self._worker)
            except PeritoError as error:  # the others see it by its silence
                log.warning("what is being read is not handed over: %s", error)

    def wake(self) -> None:
        """There may be something to take."""
        self._wanted.set()

    async def drain(self) -> None:
        """Wait until nothing is being read here and nothing waits, unless nobody is to read."""
        while True:
            async with self._taking:
                tasks = [task for _, task in self._running.values()]
                wait = None if tasks else await asyncio.to_thread(self._to_next)
            if tasks:
                await asyncio.wait(tasks)
            elif wait is None:
                return
            self.wake()
            await asyncio.sleep(min(max(wait or 0.0, 0.005), LOOK_SECONDS))

    async def stop(self, document_id: str) -> None:
        """Stop reading a document here, in the middle of a page."""
        found = self._running.get(document_id)
        if found is not None:
            found[1].cancel()
            await asyncio.gather(found[1], return_exceptions=True)

    async def give_back(self, document_id: str) -> None:
        """Let a document that was stopped here go on, if it is still this worker's: whatever it was stopped for."""
        with contextlib.suppress(PeritoError):  # then the heart sees to it
            await asyncio.to_thread(self._queue.give_back, document_id, self._worker)
        self.wake()

    def step_back(self) -> None:
        """Let everything that is being read here come to the end of the pages at hand, and give it back."""
        for run, _ in self._running.values():
            run.steps_back = True

    # -- taking -------------------------------------------------------------------------------

    async def _work_on(self) -> None:
        while True:
            self._wanted.clear()  # before looking: what is accepted meanwhile sets it again
            wait = 1.0
            if not self._is_shown():  # what it takes, it gives back before the first page
                await asyncio.sleep(LOOK_SECONDS)
            try:
                async with self._taking:
                    wait = await self._take()
                await self._tidy()
            except LeaseLost as error:
                log.warning("%s", error)
                await self._start_anew()
                continue
            except TransientError as error:  # e.g. PostgreSQL is being restarted
                log.warning("the queue cannot be looked at: %s", error)
            except Exception:  # nothing may end the taking for good
                log.exception("the queue cannot be looked at")
            with contextlib.suppress(TimeoutError):  # no wait_for: Python 3.11's may swallow a cancellation
                async with asyncio.timeout(wait):
                    await self._wanted.wait()

    async def _take(self) -> float:
        """Take what there are places for; how long to wait before looking again."""
        while (wanted := self._next_wanted()) is not None:
            claim = await to_its_end(self._queue.claim, self._worker, wanted)
            if claim is None:
                break
            await self.stop(claim.document.id)  # begun under a lease that this one ended
            self._begin(claim)
        due = await asyncio.to_thread(self._queue.due, Wanted(a_collection=self._settings.documents_a_collection))
        if due is not None:
            self._make_room(due)
            return LOOK_SECONDS
        wait = await asyncio.to_thread(self._to_next)
        longest = LOOK_SECONDS if wait == 0 or not self._alone else QUIET_SECONDS
        return min(longest, wait or longest)

    def _to_next(self) -> float | None:
        return None if self._queue.is_paused() else self._queue.seconds_to_next()

    def _next_wanted(self) -> Wanted | None:
        """What there is a place for."""
        free = self._places - len(self._running)
        urgencies = [urgency for urgency, more in MORE_PLACES.items() if free + more > 0]
        if not urgencies:
            return None
        long_first = free <= 1 and not any(run.claim.is_long for run, _ in self._running.values())
        return Wanted(max(urgencies), self._settings.documents_a_collection, long_first)

    def _make_room(self, due: Urgency) -> None:
        """Something waits for a place: let one document step back that is less urgent, or long and had its time."""
        runs = [run for run, _ in self._running.values() if not run.leaves]
        if any(run.steps_back for run in runs):
            return
        willing = [
            run
            for run in runs
            if run.seconds >= SLICE_SECONDS
            and (run.claim.urgency > due or (run.claim.urgency == due and run.claim.is_long))
        ]
        if willing:
            max(willing, key=lambda run: (run.claim.urgency, run.seconds)).steps_back = True

    def _begin(self, claim: Claim) -> None:
        log.info("%s is read from page %d on", claim.document.name, claim.document.pages_done + 1)
        run = Run(claim, Turn(claim.urgency), self._is_shown)
        task = asyncio.create_task(self._run(run), name=f"read {claim.document.name}")
        self._running[claim.document.id] = run, task
        task.add_done_callback(lambda _: self._let_go(claim.document.id, run))

    def _let_go(self, document_id: str, run: Run) -> None:
        if self._running.get(document_id, (None,))[0] is run:
            del self._running[document_id]
        self.wake()

    # -- reading ------------------------------------------------------------------------------

    async def _run(self, run: Run) -> None:
        """Read one document. Trouble that may pass puts it off."""
        name = run.claim.document.name
        try:
            await self._read_or_clear(run)
        except LeaseLost as error:
            log.info("%s is left to others: %s", name, error)
        except Exception as error:
            if not isinstance(error, TransientError):
                log.exception("%s could not be ended", name)
            await self._put_off(run, error)

    async def _read_or_clear(self, run: Run) -> None:
        """Read it. When it is deleted meanwhile, maybe by another process, nothing published since stays."""
        try:
            await self._runner.run(run)
        except NotFound:
            await to_its_end(self._publisher.withdraw, run.claim.document.id)

    async def _put_off(self, run: Run, error: Exception) -> None:
        """Let it wait, and say why: to its followers also where that cannot be written down. Then it waits here."""
        document, attempt = run.claim.document, run.claim.attempts
        while True:
            delay = RETRY_SECONDS[min(attempt, len(RETRY_SECONDS) - 1)] * random.uniform(0.75, 1.25)
            log.warning("%s waits %.1f s: %s", document.name, delay, error)
            self._followers.tell(document.id, Progress(replace(document, error=str(error))))
            try:
                run.leaves = True
                await to_its_end(self._queue.put_off, run.claim.lease, str(error), delay)
                return
            except (LeaseLost, NotFound):
                return
            except PeritoError:
                run.leaves = False
                await asyncio.sleep(delay)
                attempt += 1

    async def _tidy(self) -> None:
        for document, doubts in await asyncio.to_thread(self._queue.doubted):
            log.info("the index of %s is looked through", document.name)
            await self._runner.tidy(document)
            await asyncio.to_thread(self._queue.dispel, document.id, doubts)

    # -- the heart ----------------------------------------------------------------------------

    def _enrol(self) -> None:
        """Be one of the workers, and bury those of which it is certain that they are dead."""
        me, self._shown = psutil.Process(os.getpid()), _clocks()
        self._worker = self._queue.enrol(socket.gethostname(), me.pid, me.create_time())
        self._bury()

    def _beat_on(self) -> None:
        """In a thread of its own: a busy event loop is no dead worker."""
        while not self._stopped.wait(self._settings.lease_seconds / BEATS):
            try:
                self._beat()
            except PeritoError as error:
                log.warning("nobody is told that this worker lives: %s", error)
            except Exception:
                log.exception("nobody is told that this worker lives")

    def _beat(self) -> None:
        assert self._loop is not None
        here = {run.claim.lease for run, _ in tuple(self._running.values()) if not run.leaves}
        now = _clocks()
        try:
            held, self._shown = self._queue.beat(self._worker), now
        except LeaseLost:
            held = frozenset[Lease]()
        nobodys = held - {run.claim.lease for run, _ in tuple(self._running.values())}
        for lease in nobodys & self._nobodys:  # its reading was stopped for something that then failed
            self._queue.step_back(lease, 0.0)
        self._nobodys = nobodys
        if here - held:
            self._loop.call_soon_threadsafe(self._drop, here - held)
        if self._bury():
            self._loop.call_soon_threadsafe(self.wake)
        if self._queue.is_paused():
            self._loop.call_soon_threadsafe(self.step_back)

    def _is_shown(self) -> bool:
        """Whether nobody can take this worker for dead: it was not asleep, nor cut off from the catalogue."""
        silent = max(now - then for now, then in zip(_clocks(), self._shown, strict=True))
        return silent < self._settings.lease_seconds

    def _bury(self) -> int:
        """Hand on what dead workers had begun: those that were silent too long, or whose process is gone."""
        signs = [sign for sign in self._queue.workers() if sign.id != self._worker]
        silent = {sign.id for sign in signs if self._alone or sign.silent > self._settings.lease_seconds}
        gone = {name for name, host, pid, since in self._queue.processes() if _is_gone(host, pid, since)}
        dead = sorted((silent | gone) - {self._worker})
        if not dead:
            return 0
        freed = self._queue.bury(dead)
        level = logging.WARNING if freed else logging.INFO  # who held nothing is missed by nobody
        log.log(level, "workers that are gone: %d; documents they had begun, which go on: %d", len(dead), freed)
        return freed

    def _drop(self, lost: set[Lease]) -> None:
        """Stop what is another's by now."""
        for run, task in self._running.values():
            if run.claim.lease in lost and not run.leaves:
                task.cancel()

    async def _start_anew(self) -> None:
        """Begin again after being taken for dead: whatever is read here is another's."""
        tasks = [task for _, task in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(self._enrol)


def _clocks() -> tuple[float, float]:
    """The steady one stands still while the machine is suspended, the wall's does not; a wall's clock set back tells
    nothing. So the longer of both silences counts."""
    return time.monotonic(), time.time()


def _is_gone(host: str, pid: int, started: float) -> bool:
    """Whether a process of this machine is certainly no more."""
    if host != socket.gethostname():
        return False
    try:
        return abs(psutil.Process(pid).create_time() - started) > 2
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False
