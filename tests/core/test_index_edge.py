"""The embedded store: one owner, crash-safe, its graphs built without stopping searches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from assistant.core import indexedge
from assistant.core.domain import Access
from assistant.core.edgegraphs import BUILD_AFTER, GraphBuilder
from assistant.core.errors import DiskFull, StoreBusy, StoreMismatch
from assistant.core.index import HybridIndex
from assistant.core.indexedge import EdgeStore
from assistant.core.points import IndexSpec
from assistant.core.ports import SearchQuery
from tests.core.indexing import ALL, SPEC, chunk, opened, vectors
from tests.documents import ROOT


def test_what_was_written_is_there_after_reopening(tmp_path: Path):
    chunks = [chunk(f"cláusula {number}", number) for number in range(30)]
    index = opened(tmp_path)
    index.upsert(chunks[:20], vectors(20).tolist())
    index.upsert(chunks[20:], None)
    index.close()
    index = opened(tmp_path)
    assert (index.count("lease"), index.count("lease", embedded=True)) == (30, 20)
    assert index.unembedded(50) == chunks[20:]
    index.close()


def test_another_model_or_length_is_refused_with_advice(tmp_path: Path):
    opened(tmp_path).close()
    for spec in (IndexSpec("another model", 8), IndexSpec("a model", 16), IndexSpec("a model", 8, terms="other")):
        with pytest.raises(StoreMismatch, match="perito documents reread") as caught:
            opened(tmp_path, spec)
        assert str(tmp_path) in caught.value.message
    opened(tmp_path).close()  # and the right one still opens


def test_an_index_that_does_not_say_what_made_it_is_refused(tmp_path: Path):
    opened(tmp_path).close()
    (tmp_path / "index.json").write_text("{")
    with pytest.raises(StoreMismatch, match="does not say what it was made with"):
        opened(tmp_path)


def test_a_start_that_was_cut_off_is_made_good(tmp_path: Path):
    (tmp_path / "index.json").write_text(json.dumps(SPEC.as_metadata() | {"shard": "shard-0"}))
    (tmp_path / "shard-0" / "wal").mkdir(parents=True)
    (tmp_path / "shard-half-a-copy").mkdir()
    index = opened(tmp_path)
    index.upsert([chunk("texto")], None)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["index.json", "shard-0"]
    index.close()


def test_a_second_process_is_told_who_has_it(tmp_path: Path):
    index = opened(tmp_path)
    child = run_child(tmp_path, "opened(folder)")
    assert child.returncode == 1
    assert "StoreBusy: Another process has the index" in child.stderr
    index.close()
    opened(tmp_path).close()


@pytest.mark.parametrize("closed", ["index", "index/shard-0"], ids=["the folder", "the shard in it"])
def test_a_folder_that_may_not_be_used_is_said_as_such(tmp_path: Path, closed: str):
    """Edge itself meets the second, and raises what knows no errno."""
    opened(tmp_path / "index").close()
    for path in (tmp_path, *tmp_path.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)
    (tmp_path / closed).chmod(0)
    code = """
import os
from pathlib import Path
from assistant.core.errors import Misconfigured
from assistant.core.indexedge import EdgeStore
from tests.core.indexing import SPEC
if os.getuid() == 0:  # rights mean nothing to root
    os.setuid(65534)
try:
    EdgeStore.open(Path("index"), SPEC)
except Misconfigured as error:
    print(error)
"""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    (tmp_path / closed).chmod(0o777)
    assert "The index in index cannot be used (" in done.stdout, done.stderr
    assert "Permission denied" in done.stdout


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path):
    body = """
index = opened(folder)
for number in range(10_000):
    index.upsert([chunk(f"cláusula {number}", number)], vectors(1, seed=number).tolist())
    print(number, flush=True)
"""
    with subprocess.Popen(child_command(tmp_path, body), stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        assert child.stdout is not None
        acknowledged = next(int(line) for line in child.stdout if int(line) >= 60)
        child.kill()
        acknowledged = max([acknowledged, *(int(line) for line in child.stdout if line.endswith("\n"))])
    index = opened(tmp_path)
    try:
        assert index.count("lease", embedded=True) in (acknowledged + 1, acknowledged + 2)  # one may be in flight
        hits = index.search(SearchQuery(f"cláusula {acknowledged}", None, ALL))
        assert hits[0].chunk == chunk(f"cláusula {acknowledged}", acknowledged)
    finally:
        index.close()


def child_command(folder: Path, body: str) -> list[str]:
    lines = ["import pathlib", "from tests.core.indexing import opened, vectors, chunk"]
    return [sys.executable, "-c", "\n".join([*lines, f"folder = pathlib.Path({str(folder)!r})", body])]


def run_child(folder: Path, body: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(child_command(folder, body), capture_output=True, text=True, cwd=ROOT, check=False)


def test_a_closed_index_says_so(tmp_path: Path):
    index = opened(tmp_path)
    index.close()
    with pytest.raises(StoreBusy, match="closed"):
        index.count("lease")
    with pytest.raises(StoreBusy, match="closed"):
        index.upsert([chunk("texto")], None)


def test_no_room_is_said_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(DiskFull):
        opened(tmp_path)


def test_a_disk_that_fills_up_stops_writes_but_not_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Edge would be ended by the kernel: a write must be refused while there still is some room."""
    free = indexedge.ROOM

    def usage(_: Path) -> SimpleNamespace:
        return SimpleNamespace(free=free)

    monkeypatch.setattr(indexedge.shutil, "disk_usage", usage)
    store = EdgeStore.open(tmp_path, SPEC)
    index = HybridIndex(store, SPEC)
    index.upsert([chunk("la primera"), chunk("la segunda", 1)], vectors(2).tolist())
    free -= 1
    with pytest.raises(DiskFull, match="64 MB of free disk, and 63 MB are left"):
        index.upsert([chunk("la tercera", 2)], None)
    with pytest.raises(DiskFull):
        index.add_vectors([chunk("la segunda", 1)], vectors(1).tolist())
    store.build_graphs()  # gives it up
    assert len(list(tmp_path.glob("shard-*"))) == 1
    assert [hit.chunk.text for hit in index.search(SearchQuery("primera", None, ALL))] == ["la primera"]
    index.delete("lease", keep=frozenset({chunk("la primera").id}))
    free = indexedge.ROOM_TO_DELETE - 1
    with pytest.raises(DiskFull):
        index.delete("lease")
    index.close()
    with pytest.raises(DiskFull):
        opened(tmp_path)
    free = indexedge.ROOM  # there is room again
    index = opened(tmp_path)
    index.upsert([chunk("la tercera", 2)], None)
    assert index.count("lease") == 2
    index.close()


def test_all_goes_on_while_graphs_are_built_and_nothing_is_lost(tmp_path: Path):
    """Graphs are built from 20 MB of vectors on. Meanwhile there are questions, new, changed and deleted chunks."""
    spec = IndexSpec("a model", 8192)
    store = EdgeStore.open(tmp_path, spec)
    index = HybridIndex(store, spec)
    made = vectors(700, 8192)
    chunks = [chunk(f"nota {number}", number, collection=f"c{number % 5}") for number in range(len(made))]
    for start in range(0, len(made), 100):
        index.upsert(chunks[start : start + 100], made[start : start + 100].tolist())
    worker = threading.Thread(target=store.build_graphs)
    worker.start()
    rounds = 0
    while worker.is_alive():
        wanted = rounds * 37 % 600
        access = Access("anna", frozenset({f"c{wanted % 5}", "c4"}))
        hits = index.search(SearchQuery("", made[wanted].tolist(), access, limit=3))
        assert hits[0].chunk.ordinal == wanted
        index.upsert([chunk("escrito mientras", rounds, document="meanwhile")], vectors(1, 8192, rounds).tolist())
        if rounds == 3:
            index.upsert([replace(chunks[650], text="corregida mientras")], None)
            index.delete("lease", keep=frozenset(chunk.id for chunk in chunks[:699]))
        rounds += 1
        time.sleep(0.02)  # leaves the cores to the building process, which has low priority
    assert rounds > 10  # nothing waited for the end of it
    assert len(list(tmp_path.glob("shard-*"))) == 1  # and the copy took the place
    index.close()
    index = opened(tmp_path, spec)
    assert (index.count("meanwhile"), index.count("lease")) == (rounds, 699)
    assert [chunk.text for chunk in index.unembedded(5)] == ["corregida mientras"]
    (best, *_) = index.search(SearchQuery("", made[77].tolist(), ALL))
    assert (best.chunk, best.dense) == (chunks[77], pytest.approx(1.0, abs=1e-4))
    index.close()


def test_a_build_is_given_up_when_the_index_closes(tmp_path: Path):
    index = opened(tmp_path)
    index.upsert([chunk(f"nota {number}", number) for number in range(50)], vectors(50).tolist())
    index.close()
    store = EdgeStore.open(tmp_path, SPEC)
    started, go_on = threading.Event(), threading.Event()

    def slow(_: Path) -> bool:
        started.set()
        return not go_on.wait(10)

    rebuild = threading.Thread(target=store._rebuild, args=(slow,))  # pyright: ignore[reportPrivateUsage]
    rebuild.start()
    assert started.wait(10)
    assert len(list(tmp_path.glob("shard-*"))) == 2
    go_on.set()
    rebuild.join()
    store.close()
    assert len(list(tmp_path.glob("shard-*"))) == 1
    index = opened(tmp_path)
    assert index.count("lease") == 50
    index.close()


def test_graphs_are_built_once_enough_is_new_and_never_twice_at_once():
    running, release, runs = threading.Event(), threading.Event(), list[int]()

    def rebuild(_: object) -> None:
        runs.append(1)
        running.set()
        release.wait(10)

    builder = GraphBuilder(rebuild, points=0, without_graph=BUILD_AFTER - 1)
    assert not running.is_set()
    builder.wrote(1)
    assert running.wait(10)
    builder.wrote(10 * BUILD_AFTER)  # while it runs
    release.set()
    builder.stop()
    builder.wrote(10 * BUILD_AFTER)
    assert runs == [1]


def test_a_failed_build_leaves_the_index_as_it_was(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    store = EdgeStore.open(tmp_path, SPEC)
    index = HybridIndex(store, SPEC)
    index.upsert([chunk("nota")], None)
    broken = GraphBuilder(lambda build: build(tmp_path / "no such folder") and None, points=0, without_graph=1)
    broken.build_now()
    assert "could not be built" in caplog.text
    assert index.count("lease") == 1
    index.close()
