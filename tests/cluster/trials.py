"""Trials: a life that is struck, the life after it, and whether all is as if nothing had happened."""

from __future__ import annotations

import random
import shutil
import signal
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from PIL import Image

from tests.cluster.boundaries import Boundary
from tests.cluster.life import Life
from tests.cluster.notes import begun_though_kept
from tests.cluster.state import State, difference
from tests.documents import DATA
from tests.ingestion.pdfs import PdfPage, text_at, write_pdf

AT_ONCE = 3  # lives; each waits now and then for a process that opens files
LIFETIME = 400  # seconds; a second where the machine is quiet
CHANCE = 20261129
WRITTEN = (
    *(("acta.pdf", 4, "Acta"), ("acta2.pdf", 4, "Acta nueva")),
    *(("largo.pdf", 8, "Largo"), ("tomo.pdf", 80, "Tomo")),
)


@dataclass
class Trial:
    """What came of one."""

    blow: object  # a boundary, or the write that found the disk full
    struck: bool = False
    wrong: str = ""  # "" where the final state is as undisturbed
    again: int = 0  # pages that were begun once more: they were in flight, or asked for again
    twice: int = 0  # pages that were begun though the catalogue held them
    refused: int = 0  # requests that were told to come again
    log: str = ""


@dataclass
class Act:
    """An act as it went undisturbed, and the stores it began from."""

    name: str
    life: Life
    before: Path | None
    state: State
    passed: list[tuple[Boundary, int]]
    writes: int


@dataclass
class Row:
    """An act's trials in sum."""

    act: str
    boundaries: int
    trials: list[Trial] = field(default_factory=list[Trial])

    @property
    def told(self) -> tuple[str, int, int, int, int, int, int, int]:
        struck = [trial for trial in self.trials if trial.struck]
        equal = sum(not trial.wrong for trial in self.trials)
        sums = (sum(getattr(trial, name) for trial in self.trials) for name in ("again", "twice", "refused"))
        return (self.act, self.boundaries, len(self.trials), len(struck), equal, *sums)


def papers(folder: Path) -> Path:
    """The files that are handed in: pages of text with little on them, letters in an archive, a real scan."""
    folder.mkdir(parents=True)
    for name, pages, title in WRITTEN:
        write_pdf(folder / name, [_page(title, number) for number in range(1, pages + 1)])
    with zipfile.ZipFile(folder / "cartas.zip", "w") as archive:
        archive.writestr("una.txt", "Querida Ana: llego el martes a las nueve.")
        archive.writestr("otras/dos.txt", "Querido Luis: el miércoles no puedo.")
    receipt = Image.open(DATA / "scan_hard/sroie_004.jpg").convert("L")
    receipt.save(folder / "recibo.tiff", save_all=True, append_images=[receipt] * 2)
    return folder


def _page(title: str, number: int) -> PdfPage:
    says = f"La hoja {number} de {title} dice lo suyo: se acuerda el punto {7 * number}."
    return PdfPage(text_at(72, 760, f"{title} {number}", 20) + text_at(72, 700, says))


def undisturbed(life: Life, before: Path | None = None) -> Act:
    """Play an act to its end and see where it comes by."""
    life = replace(life, census=True)
    played(life)
    (said,) = [note for note in life.notes if "passed" in note]
    state = [note["state"] for note in life.notes if "state" in note][-1]
    passed = [(Boundary(*boundary), stage) for boundary, stage in said["passed"]]
    return Act(life.act, replace(life, census=False), before, state, passed, said["writes"])


def played(life: Life) -> int:
    """Play it to its end; the id of its process."""
    process = life.begin()
    process.join(LIFETIME)
    ended = process.exitcode
    process.kill()
    assert ended == 0, f"it ended with {ended}\n{life.log[-5000:]}"
    return process.pid or 0


def acts_in_turn(root: Path, names: Iterable[str], variables: Mapping[str, str]) -> list[Act]:
    """Each undisturbed, from where the one before it ended; every home is kept as it was."""
    played: list[Act] = []
    home: Path | None = None
    sheets = papers(root / "papers")
    for name in names:
        folder = root / name
        folder.mkdir()
        if home is not None:
            shutil.copytree(home, folder / "home")
        life = Life(folder, sheets, {**variables, "PERITO_HOME": str(folder / "home")}, name)
        played.append(undisturbed(life, home))
        home = folder / "home"
    return played


def chosen(acts: Sequence[Act], all_steps: bool = True) -> dict[str, list[Boundary]]:
    """Where to strike: in each act once between any two changes of its stores, wherever possible at a step that was not
    tried before, and then, with ``all_steps``, at every step that is still left."""
    chance = random.Random(CHANCE)
    places: dict[str, list[Boundary]] = {act.name: [] for act in acts}
    tried = set[str]()
    for act in acts:
        for stage in sorted({stage for _, stage in act.passed}):
            here = [boundary for boundary, at in act.passed if at == stage]
            boundary = chance.choice([boundary for boundary in here if boundary.step not in tried] or here)
            places[act.name].append(boundary)
            tried.add(boundary.step)
    for act in acts if all_steps else ():
        for boundary, _ in chance.sample(act.passed, len(act.passed)):
            if boundary.step not in tried:
                places[act.name].append(boundary)
                tried.add(boundary.step)
    return places


def struck(act: Act, life: Life, check: Callable[[Life], str] = lambda _: "") -> Trial:
    """Play ``life`` until it is struck; ``check`` what it left; let the next go on, and compare."""
    trial = Trial(life.blow or life.full_at)
    first = life.begin()
    first.join(LIFETIME)
    ended = first.exitcode
    first.kill()
    notes = life.notes
    trial.struck = any("struck" in note or "full" in note for note in notes)
    expected = -signal.SIGKILL if life.signal == signal.SIGKILL and life.blow and trial.struck else 0
    if ended != expected and not life.full_at:
        trial.wrong = f"it ended with {ended}, not {expected}"
    trial.wrong = trial.wrong or check(life)
    after = replace(life, blow=None, full_at=0)
    if ended or not any("state" in note for note in notes):  # it did not come to its end
        second = after.begin()
        second.join(LIFETIME)
        if second.exitcode != 0:
            trial.wrong = trial.wrong or f"the life after it ended with {second.exitcode}"
        second.kill()
    _judge(trial, act.state, after.notes)
    if trial.wrong:
        trial.log = after.log
    return trial


def trials_of(act: Act, lives: Sequence[Life], check: Callable[[Life], str] = lambda _: "") -> list[Trial]:
    """A few at a time, each in a folder and a home of its own."""

    def one(life: Life) -> Trial:
        home = Path(life.variables["PERITO_HOME"])
        if act.before is not None:
            shutil.copytree(act.before, home)
        trial = struck(act, life, check)
        if not trial.wrong:
            shutil.rmtree(life.folder)
        return trial

    with ThreadPoolExecutor(AT_ONCE) as few:
        return list(few.map(one, lives))


def life_in(act: Act, folder: Path, **how: Any) -> Life:
    """The act once more, in a folder of its own."""
    variables = {**act.life.variables, "PERITO_HOME": str(folder / "home")}
    return replace(act.life, folder=folder, variables=variables, **how)


def _judge(trial: Trial, state: State, notes: Sequence[Mapping[str, Any]]) -> None:
    states = [note["state"] for note in notes if "state" in note]
    if not trial.wrong:
        trial.wrong = difference(state, states[-1]) if states else "it never came to its end"
    count_pages(trial, notes)
    trial.refused = sum("refused" in note for note in notes)


def count_pages(trial: Trial, notes: Sequence[Mapping[str, Any]]) -> None:
    """How many pages were begun more than once, and how many of them though they were kept."""
    begun = Counter((note["of"], note["begins"]) for note in notes if "begins" in note)
    trial.twice = len(begun_though_kept(notes))
    trial.again = sum(times - 1 for times in begun.values()) - trial.twice
