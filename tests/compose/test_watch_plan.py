"""What a watch sees in a real folder, and what it asks for: at rest or not, moved, swapped, gone, or out of sight."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from assistant.core.errors import BadRequest, DiskFull, NotFound, StoreBusy, UnreadableFile
from compose.watch.acting import numbered, plain_name
from compose.watch.folder import Ignored, Sight, Sign, checked_folder, look_into
from compose.watch.memory import KnownDocument, KnownFile, Memory, sole_watcher
from compose.watch.plan import Plan, Put, Remove, make_plan
from compose.watch.survey import Survey, Surveyor, Watched, opened

SETTLE = 2.0


class Looking:
    """A watch over a real folder with a clock of its own, whose plans are carried out on paper."""

    def __init__(self, root: Path, home: Path, **how: object) -> None:
        self.root = root
        self.now = 0.0
        self.files: dict[str, KnownFile] = {}
        self.documents: dict[str, KnownDocument] = {}
        self.watched = Watched(root, home, Ignored(how.pop("ignore", ())), SETTLE, **how)  # pyright: ignore
        self.surveyor = Surveyor(self.watched, clock=lambda: self.now)

    def look(self) -> Survey:
        return self.surveyor.survey(self.files)

    def rested(self) -> Survey:
        self.look()
        self.now += SETTLE
        return self.look()

    def plan(self) -> Plan:
        return make_plan(self.rested(), self.files, self.documents, "terms")

    def take_all(self) -> Plan:
        """Bring everything in that is new, as if a server had."""
        plan = self.plan()
        for put in plan.puts:
            document = f"doc of {put.path}"
            self.files[put.path] = KnownFile(put.found.sign, put.found.sha256, document, terms="terms")
            self.documents[document] = KnownDocument(document, put.path, put.path, put.found.sha256, True)
        return plan


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "papers"
    (root / "2031").mkdir(parents=True)
    (root / "a.txt").write_text("La fianza son dos mensualidades.")
    (root / "2031" / "b.txt").write_text("El contrato vence en mayo.")
    return root


@pytest.fixture
def looking(root: Path, tmp_path: Path) -> Looking:
    return Looking(root, tmp_path / "home")


def paths(puts: tuple[Put, ...]) -> list[str]:
    return [put.path for put in puts]


def test_a_file_counts_when_it_stayed_the_same_for_a_while(looking: Looking, root: Path) -> None:
    assert set(looking.look().restless) == {"a.txt", "2031/b.txt"}
    looking.now += SETTLE - 0.1
    with (root / "a.txt").open("a") as file:
        file.write(" Y un mes de aviso.")
    looking.now += 0.1
    survey = looking.look()
    assert (set(survey.present), set(survey.restless)) == ({"2031/b.txt"}, {"a.txt"})
    looking.now += SETTLE
    assert set(looking.look().present) == {"a.txt", "2031/b.txt"}


def test_a_file_that_grows_while_it_is_read_is_taken_again(
    looking: Looking, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from compose.watch import survey as module

    real = module.sign_of

    def grown(file: object) -> Sign:
        with (root / "a.txt").open("a") as more:
            more.write("x")
        return real(file)  # pyright: ignore

    monkeypatch.setattr(module, "sign_of", grown)
    looking.look()
    looking.now += SETTLE
    assert "a.txt" in looking.look().restless
    monkeypatch.undo()
    assert "a.txt" in looking.rested().present


def test_what_is_not_meant_is_ignored(root: Path, tmp_path: Path) -> None:
    for name in (".hidden", "~$a.docx", "x.tmp", "x.part", "Thumbs.db", "desktop.ini", "old.BAK"):
        (root / name).write_text("no")
    for folder in (".git", "drafts"):
        (root / folder).mkdir()
        (root / folder / "c.txt").write_text("no")
    (root / "link.txt").symlink_to("/etc/hostname")
    home = root / "perito"
    home.mkdir()
    (home / "perito.db").write_text("no")
    sight = look_into(root, Ignored(["*.bak", "drafts/"]), home)
    assert isinstance(sight, Sight)
    assert set(sight.files) == {"a.txt", "2031/b.txt"}
    assert Ignored(["2031/*"])("2031/b.txt")
    assert not Ignored(["b/*"])("2031/b.txt")
    with pytest.raises(BadRequest, match="empty pattern"):
        Ignored([""])


def test_no_link_is_followed_that_was_put_on_the_way_meanwhile(root: Path, tmp_path: Path) -> None:
    with opened(root, "2031/b.txt") as file:
        assert file.read() == b"El contrato vence en mayo."
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "b.txt").write_text("El contrato vence en mayo.")
    shutil.rmtree(root / "2031")
    (root / "2031").symlink_to(secret)
    (root / "c.txt").symlink_to(secret / "b.txt")
    for path in ("2031/b.txt", "c.txt", "none/d.txt", "2031"):
        with pytest.raises(OSError):
            opened(root, path)


def test_a_moved_file_is_a_rename_also_where_its_name_is_taken_by_a_new_one(looking: Looking, root: Path) -> None:
    assert paths(looking.take_all().puts) == ["2031/b.txt", "a.txt"]
    shutil.move(root / "a.txt", root / "2031" / "a-old.txt")
    (root / "a.txt").write_text("La fianza son tres mensualidades.")
    plan = looking.plan()
    assert [(one.document, one.former, one.path) for one in plan.renames] == [
        ("doc of a.txt", "a.txt", "2031/a-old.txt")
    ]
    assert [(put.path, put.replaces) for put in plan.puts] == [("a.txt", "")]
    assert plan.removes == ()


def test_two_files_that_change_places_are_two_renames(looking: Looking, root: Path) -> None:
    looking.take_all()
    (root / "a.txt").rename(root / "x")
    (root / "2031" / "b.txt").rename(root / "a.txt")
    (root / "x").rename(root / "2031" / "b.txt")
    plan = looking.plan()
    assert {(one.document, one.path) for one in plan.renames} == {
        ("doc of a.txt", "2031/b.txt"),
        ("doc of 2031/b.txt", "a.txt"),
    }
    assert (plan.puts, plan.removes) == ((), ())


def test_a_file_moved_over_another_removes_the_others_document(looking: Looking, root: Path) -> None:
    looking.take_all()
    (root / "a.txt").replace(root / "2031" / "b.txt")
    plan = looking.plan()
    assert [(one.document, one.path, one.gone) for one in plan.renames] == [("doc of a.txt", "2031/b.txt", ("a.txt",))]
    assert plan.removes == (Remove("doc of 2031/b.txt", ("2031/b.txt",)),)
    assert plan.puts == ()


def test_a_changed_file_is_a_new_version_and_a_touched_one_is_nothing(looking: Looking, root: Path) -> None:
    looking.take_all()
    (root / "a.txt").write_text("La fianza es de un mes.")
    os.utime(root / "2031" / "b.txt", (1, 1))
    plan = looking.plan()
    assert [(put.path, put.replaces) for put in plan.puts] == [("a.txt", "doc of a.txt")]
    assert set(plan.touched) == {"2031/b.txt"}
    assert (plan.renames, plan.removes) == ((), ())


def test_a_document_stays_while_a_copy_says_the_same(looking: Looking, root: Path) -> None:
    looking.take_all()
    shutil.copy(root / "a.txt", root / "copy.txt")
    plan = looking.plan()
    assert paths(plan.puts) == ["copy.txt"]
    looking.files["copy.txt"] = KnownFile(plan.puts[0].found.sign, plan.puts[0].found.sha256, "doc of a.txt")
    (root / "a.txt").unlink()
    plan = looking.plan()
    assert [(one.document, one.path, one.gone) for one in plan.renames] == [("doc of a.txt", "copy.txt", ("a.txt",))]
    assert (plan.puts, plan.removes) == ((), ())


def test_a_removed_file_goes_after_a_while_unless_one_of_its_size_is_being_written(
    looking: Looking, root: Path
) -> None:
    looking.take_all()
    (root / "a.txt").rename(root / "z.txt")
    looking.look()
    looking.now += SETTLE
    with (root / "z.txt").open("r+") as file:
        file.write("l")
    plan = make_plan(looking.look(), looking.files, looking.documents, "terms")
    assert plan.waits
    assert not plan.acts
    (root / "z.txt").unlink()
    assert looking.plan().removes == (Remove("doc of a.txt", ("a.txt",)),)


def test_only_what_the_watch_brought_in_is_removed(looking: Looking, root: Path) -> None:
    looking.take_all()
    document = looking.documents["doc of a.txt"]
    looking.documents[document.id] = KnownDocument(document.id, "a.txt", "a.txt", document.sha256, brought=False)
    (root / "a.txt").unlink()
    plan = looking.plan()
    assert not plan.acts
    assert plan.forgotten == ("a.txt",)


def test_a_folder_that_vanished_or_is_empty_has_lost_nothing(looking: Looking, root: Path, tmp_path: Path) -> None:
    looking.take_all()
    root.rename(tmp_path / "elsewhere")
    survey = looking.rested()
    assert "is not there" in survey.away
    assert (survey.missing, survey.present) == (frozenset(), {})
    root.mkdir()  # as a mount point is while its disk is away
    assert "is empty, where 2 files were: is its disk mounted?" in looking.rested().away
    meant = Looking(root, tmp_path / "home", may_be_empty=True)
    meant.files, meant.documents = looking.files, looking.documents
    assert {one.document for one in meant.plan().removes} == {"doc of a.txt", "doc of 2031/b.txt"}
    root.rmdir()
    (tmp_path / "elsewhere").rename(root)
    assert not looking.plan().acts


def test_files_of_a_disk_that_is_away_are_left_and_known_again_under_another_number(
    looking: Looking, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking.take_all()
    inner = looking.files["2031/b.txt"]
    on_a_disk = KnownFile(Sign(inner.sign.size, inner.sign.mtime_ns, device=424242), inner.sha256, inner.document)
    looking.files["2031/b.txt"] = on_a_disk
    looking.files["2031/c.txt"] = KnownFile(Sign(9, 9, device=424242), "c" * 64, "doc of c")
    looking.documents["doc of c"] = KnownDocument("doc of c", "c.txt", "2031/c.txt", "c" * 64, True)
    (root / "2031" / "b.txt").rename(root.parent / "b.txt")
    survey = looking.rested()
    assert survey.left == {"2031/b.txt", "2031/c.txt"}
    assert "not mounted" in survey.troubles["2031"]
    monkeypatch.setattr(Sight, "device_around", lambda *_: 424242)  # another is in its place
    assert looking.rested().left == {"2031/b.txt", "2031/c.txt"}
    monkeypatch.undo()
    (root.parent / "b.txt").rename(root / "2031" / "b.txt")  # it is back: what is gone from it now is gone
    assert [one.document for one in looking.plan().removes] == ["doc of c"]


def test_what_cannot_be_seen_is_not_gone(looking: Looking, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looking.take_all()
    from compose.watch import folder as module

    real = os.scandir

    def refusing(place: Path):
        if Path(place).name == "2031":
            raise PermissionError(13, "Permission denied")
        return real(place)

    monkeypatch.setattr(module.os, "scandir", refusing)
    survey = looking.rested()
    assert survey.left == {"2031/b.txt"}
    assert survey.troubles == {"2031": "Permission denied"}


def test_what_is_too_large_is_not_even_read_and_what_was_refused_is_tried_under_other_terms(
    root: Path, tmp_path: Path
) -> None:
    (root / "film.bin").write_bytes(b"x" * 1_000_001)
    looking = Looking(root, tmp_path / "home", upload_mb=1)
    (put,) = (put for put in looking.plan().puts if put.path == "film.bin")
    assert put.found.sha256 == ""
    looking.take_all()
    looking.files["film.bin"] = KnownFile(put.found.sign, "", "", refused="too large", terms="old terms")
    assert paths(looking.plan().puts) == ["film.bin"]
    looking.files["film.bin"] = KnownFile(put.found.sign, "", "", refused="too large", terms="terms")
    assert not looking.plan().acts


def test_a_folder_that_cannot_be_watched_is_told_why(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "blobs").mkdir(parents=True)
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotFound, match="There is no folder"):
        checked_folder(tmp_path / "none", home)
    with pytest.raises(BadRequest, match="is not a folder"):
        checked_folder(tmp_path / "file", home)
    with pytest.raises(BadRequest, match="Perito's own home"):
        checked_folder(home / "blobs", home)
    with pytest.raises(UnreadableFile, match="cannot be read"):
        checked_folder(Path("x" * 5000), home)


def test_names_are_the_paths_as_people_read_them_and_stay_apart() -> None:
    assert plain_name("2031/mayo/a.pdf") == "2031 › mayo › a.pdf"
    assert plain_name("cafe\u0301.txt") == "café.txt"
    assert plain_name(os.fsdecode(b"na\xffme.txt")) == "na\ufffdme.txt"
    long = plain_name("/".join(["x" * 90] * 4) + ".pdf")
    assert len(long) == 200
    assert long.endswith("x.pdf")
    assert numbered("2031 › a.pdf", 2) == "2031 › a (2).pdf"
    assert numbered("LICENSE", 3) == "LICENSE (3)"


def test_memory_survives_and_belongs_to_one_watcher_at_a_time(tmp_path: Path) -> None:
    home, odd = tmp_path, os.fsdecode(b"od\xff.txt")
    memory = Memory(home, Path("/papers"), "legal")
    file = KnownFile(Sign(3, 1_700_000_000_123_456_789, 2**64 - 1), "a" * 64, "doc")
    since = memory.intend("a" * 64)
    memory.took(odd, file, KnownDocument("doc", "odd.txt", odd, "a" * 64, True))
    memory.close()
    again = Memory(home, Path("/papers"), "legal")
    assert again.files() == {odd: file}
    assert again.files()[odd].sign.device == 2**64 - 1
    assert again.documents() == {"doc": KnownDocument("doc", "odd.txt", odd, "a" * 64, True)}
    assert again.intended("a" * 64) is None
    assert again.intend("b" * 64) >= since
    other = Memory(home, Path("/others"), "legal")
    assert other.files() == {}
    assert other.names_elsewhere() == {"odd.txt"}
    assert other.held_elsewhere("doc")
    with ExitStack() as watchers:
        for one in (again, other):
            watchers.enter_context(sole_watcher(home, one.watch))
        with pytest.raises(StoreBusy, match="already being watched"):
            watchers.enter_context(sole_watcher(home, again.watch))
    again.forget([odd], ["doc"])
    assert (again.files(), again.documents()) == ({}, {})
    for memory in (again, other):
        memory.close()


def known(memory: Memory) -> tuple[object, ...]:
    """Everything a watch knows of the document "doc" and of three paths."""
    versions = {path: [one.id for one in memory.versions(path)] for path in ("old.txt", "new.txt", "copy.txt")}
    return memory.files(), memory.documents(), memory.holders("doc"), versions


def test_who_stands_for_whom_is_known_after_a_move_and_unchanged_by_a_write_that_failed(tmp_path: Path) -> None:
    memory, sign = Memory(tmp_path, Path("/papers"), "legal"), Sign(3, 1, 1)
    file, document = KnownFile(sign, "a" * 64, "doc"), KnownDocument("doc", "old.txt", "old.txt", "a" * 64, True)
    memory.took("old.txt", file, document)
    memory.took("copy.txt", file, document)
    memory.took(
        "old.txt", KnownFile(sign, "b" * 64, "next"), KnownDocument("next", "old.txt", "old.txt", "b" * 64, True)
    )
    assert memory.holders("doc") == {"copy.txt"} and memory.holders("next") == {"old.txt"}
    assert [one.id for one in memory.versions("old.txt")] == ["doc", "next"]
    moved = KnownDocument("doc", "new.txt", "new.txt", "a" * 64, True)
    memory.moved("new.txt", file, ["copy.txt"], moved)
    assert memory.holders("doc") == {"new.txt"}
    assert memory.versions("new.txt") == [moved] and [one.id for one in memory.versions("old.txt")] == ["next"]
    before = known(memory)

    memory._connection.execute("PRAGMA max_page_count = 1")  # pyright: ignore[reportPrivateUsage] - no smaller than it is
    long = KnownDocument("doc", "x" * 100_000, "copy.txt", "a" * 64, True)
    with pytest.raises(DiskFull):
        memory.moved("copy.txt", file, ["new.txt"], long)
    with pytest.raises(DiskFull):
        memory.took("copy.txt", KnownFile(sign, "c" * 64, "doc"), long)
    assert known(memory) == before
    memory.close()
    again = Memory(tmp_path, Path("/papers"), "legal")
    assert known(again) == before
    again.forget(["new.txt"], ["doc", "gone before"])
    assert not again.holders("doc") and not again.versions("new.txt")
    again.close()
