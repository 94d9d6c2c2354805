"""What a look at the folder asks for, given what is known: documents to bring in, to rename, to remove. Pure.

What counts is what files say: a file that says what another one said a moment ago has been moved, and its document
takes its new name. A document goes only when no file says it any more and none that is still being written may.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from compose.watch.memory import KnownDocument, KnownFile
from compose.watch.survey import Found, Survey


@dataclass(frozen=True, slots=True)
class Put:
    """Bring a file in. ``replaces``: the document that stood for what it said before, "" where none did."""

    path: str
    found: Found
    replaces: str = ""


@dataclass(frozen=True, slots=True)
class Rename:
    """A document is called after ``path`` from now on, no longer after ``former``; ``gone`` are no longer there."""

    document: str
    former: str
    path: str
    found: Found
    gone: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Remove:
    """No file says any more what the document does."""

    document: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """In this order. ``touched`` files look different and say the same; ``forgotten`` are gone, and nothing is done."""

    removes: tuple[Remove, ...] = ()
    renames: tuple[Rename, ...] = ()
    puts: tuple[Put, ...] = ()
    touched: Mapping[str, Found] = field(default_factory=dict[str, Found])
    forgotten: tuple[str, ...] = ()
    waits: bool = False  # with a removal, for a file of the same size that is still being written

    @property
    def acts(self) -> bool:
        """Whether anything in the collection would change."""
        return bool(self.renames or self.puts or self.removes)


def make_plan(
    survey: Survey, files: Mapping[str, KnownFile], documents: Mapping[str, KnownDocument], terms: str
) -> Plan:
    """``terms`` under which files are accepted now: what was refused under others is tried again."""
    planner = _Planner(survey, files, documents, terms)
    for document_id, paths in _holders(files).items():
        planner.settle(document_id, paths)
    return planner.plan()


class _Planner:
    def __init__(
        self, survey: Survey, files: Mapping[str, KnownFile], documents: Mapping[str, KnownDocument], terms: str
    ) -> None:
        self._survey = survey
        self._files = files
        self._documents = documents
        self._wanted = {
            path: found for path, found in survey.present.items() if _is_wanted(found, files.get(path), terms)
        }
        self._by_content: dict[str, list[str]] = defaultdict(list)
        for path, found in sorted(self._wanted.items()):
            self._by_content[found.sha256].append(path)
        self._sizes = {sign.size for path, sign in survey.restless.items() if path not in files}
        self._replaces: dict[str, str] = {}
        self._renames: list[Rename] = []
        self._removes: list[Remove] = []
        self._forgotten = [path for path in survey.missing if not files[path].document]
        self._waits = False

    def settle(self, document_id: str, paths: Sequence[str]) -> None:
        """What becomes of a document that stood for the files ``paths``."""
        document = self._documents.get(document_id)
        gone = [path for path in paths if path in self._survey.missing]
        staying = [path for path in paths if path not in gone and path not in self._changed(paths)]
        if document is None:
            self._forgotten += gone
        elif staying:
            self._keep(document, staying, gone)
        elif target := self._same_content(document):
            self._renames.append(Rename(document.id, document.path, target, self._wanted.pop(target), tuple(gone)))
        elif changed := self._changed(paths):
            self._replaces[changed[0]] = document.id
            self._forgotten += gone
        elif any(self._files[path].sign.size in self._sizes for path in gone):
            self._waits = True
        elif document.brought:
            self._removes.append(Remove(document.id, tuple(gone)))
        else:
            self._forgotten += gone

    def _keep(self, document: KnownDocument, staying: Sequence[str], gone: Sequence[str]) -> None:
        """Files still say it. Where the one it was called after does not, it is called after another."""
        at_rest = [path for path in staying if path in self._survey.present]
        if document.path in staying or not at_rest or not document.brought:
            self._forgotten += gone
            return
        path = min(at_rest)
        self._renames.append(Rename(document.id, document.path, path, self._survey.present[path], tuple(gone)))

    def _changed(self, paths: Sequence[str]) -> list[str]:
        """Those that say something else now."""
        present = self._survey.present
        return [path for path in paths if path in present and present[path].sha256 != self._files[path].sha256]

    def _same_content(self, document: KnownDocument) -> str | None:
        """The file the document's has been moved to: best one of the same name."""
        candidates = [path for path in self._by_content.get(document.sha256, ()) if path in self._wanted]
        name = document.path.rpartition("/")[2]
        return min(candidates, key=lambda path: (path.rpartition("/")[2] != name, path), default=None)

    def plan(self) -> Plan:
        touched = {
            path: found
            for path, found in self._survey.present.items()
            if path in self._files
            and found.sha256 == self._files[path].sha256
            and (found.sign != self._files[path].sign or found.sign.device != self._files[path].sign.device)
        }
        for path, document_id in self._replaces.items():
            if path not in self._wanted and self._documents[document_id].brought:  # another document stands there now
                self._removes.append(Remove(document_id, (path,)))
        puts = (Put(path, found, self._replaces.get(path, "")) for path, found in sorted(self._wanted.items()))
        return Plan(
            tuple(self._removes), tuple(self._renames), tuple(puts), touched, tuple(self._forgotten), self._waits
        )


def _holders(files: Mapping[str, KnownFile]) -> Mapping[str, Sequence[str]]:
    """The files each document stands for."""
    found: dict[str, list[str]] = defaultdict(list)
    for path, file in sorted(files.items()):
        if file.document:
            found[file.document].append(path)
    return found


def _is_wanted(found: Found, known: KnownFile | None, terms: str) -> bool:
    if known is None or known.sha256 != found.sha256:
        return True
    return bool(known.refused) and known.terms != terms
