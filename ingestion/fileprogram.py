"""A process that opens files: ``python -m ingestion.fileprogram SOCKET``, started by ``openfiles`` and by nobody else.

It holds one file at a time, and takes orders from the socket one by one. It may take so much memory and no more; when
the socket's other end is gone, the server is, and so it ends, also in the middle of a page.
"""

from __future__ import annotations

import contextlib
import importlib
import lzma
import pickle
import sys
import tarfile
import traceback
from collections import OrderedDict
from typing import Any, BinaryIO

import psutil

from assistant.core.errors import PeritoError, UnreadableFile
from assistant.core.settings import MEGABYTE
from ingestion.children import program
from ingestion.children.wire import Channel
from ingestion.firstlook import About, look_at
from ingestion.openfiles import PIECE, Answer, Copy, Drawing, Extract, Look, Opening, Order, Peeking, Terms
from ingestion.pages import Page
from ingestion.sources import Source, open_source, unlock
from ingestion.sources.enclosed import Container
from ingestion.sources.media.recording import RecordingSource
from ingestion.sources.pdf import PdfSource
from ingestion.sources.unpacking import DAMAGED

KEPT = 8  # pages in flight, which may be drawn after they were looked at


class Desk:
    """The file that is open."""

    def __init__(self, terms: Terms, channel: Channel) -> None:
        self._terms = terms
        self._channel = channel
        self._opening: Opening | None = None
        self._source: Source | None = None
        self._copy: BinaryIO | None = None
        self._within: BinaryIO | None = None
        self._open = contextlib.ExitStack()
        self._pages: OrderedDict[int, Page] = OrderedDict()

    def done(self, order: Order) -> tuple[Any, bytes]:
        """The value and the bytes that answer ``order``. PeritoError."""
        match order:
            case Opening():
                return self._described(order), b""
            case Look(number):
                return look_at(self._page(number), self._terms.triage), b""
            case Drawing(number, dpi):
                image = self._page(number).render(dpi).convert("RGB")
                return image.size, image.tobytes()
            case Copy():
                return None, self._piece()
            case Extract(index, anew):
                return None, self._piece_within(index, anew)
            case _:
                self.close()
                return None, b""

    def close(self) -> None:
        self._pages.clear()
        self._source = self._copy = self._within = None
        self._open.close()

    def _described(self, order: Opening) -> About:
        self.close()
        self._opening = order
        terms = self._terms
        source = open_source(
            order.path, name=order.name, password=order.password, limits=terms.limits, recording_mb=terms.recording_mb
        )
        self._source = self._open.enter_context(source)
        if isinstance(source, PdfSource):
            source.may_peek = self._may_peek
        enclosed = source.enclosed if isinstance(source, Container) else ()
        seconds = source.seconds if isinstance(source, RecordingSource) else None
        within = tuple(each.about for each in enclosed)
        return About(source.page_count, source.media_type, source.damage, within, seconds)

    def _may_peek(self, number: int) -> bool:
        """Tell the server whose fault it will be when this goes wrong."""
        assert self._opening is not None, "no file is open"
        if number in self._opening.shunned:
            return False
        program.answer(self._channel, pickle.dumps(Peeking(number)))
        return True

    def _page(self, number: int) -> Page:
        assert self._source is not None, "no file is open"
        page = self._pages.pop(number, None) or self._source.page(number)
        self._pages[number] = page
        if len(self._pages) > KEPT:
            self._pages.popitem(last=False)
        return page

    def _piece(self) -> bytes:
        assert self._opening is not None, "no file is open"
        if self._copy is None:
            self._copy = self._open.enter_context(unlock(self._opening.path, self._opening.password))
        return self._copy.read(PIECE)

    def _piece_within(self, index: int, anew: bool) -> bytes:
        assert isinstance(self._source, Container), "nothing lies within the file"
        within = self._source.enclosed[index]
        try:
            if anew or self._within is None:
                self._within = within.open()
            return self._within.read(PIECE)
        except (*DAMAGED, tarfile.TarError, lzma.LZMAError) as error:
            raise UnreadableFile(f"It cannot be unpacked ({error})") from None


def main(descriptor: int) -> None:
    channel = program.begin(descriptor)
    terms: Terms = pickle.loads(channel.receive())
    _load_libraries()
    _limit_memory(terms.limits.file_memory_mb * MEGABYTE)
    program.answer(channel, b"ready")
    desk = Desk(terms, channel)
    orders = program.orders(channel, parts=1)
    while True:
        order: Order = pickle.loads(orders.get()[0])
        header, data = _answered(desk, order)
        program.answer(channel, pickle.dumps(header), data)


def _load_libraries() -> None:
    """Before the first file is waited for."""
    for kind in ("pictures", "plain"):
        importlib.import_module(f"ingestion.sources.{kind}")


def _limit_memory(size: int) -> None:
    """Let no more than ``size`` bytes be allocated on top of what the program itself has."""
    import resource

    own = getattr(psutil.Process().memory_info(), "data", 0)
    with contextlib.suppress(OSError, ValueError):  # macOS knows the limit only by name; the server watches as well
        resource.setrlimit(resource.RLIMIT_DATA, (own + size, own + size))


def _answered(desk: Desk, order: Order) -> tuple[Answer, bytes]:
    value, data, error, trace = None, b"", None, ""
    try:
        value, data = desk.done(order)
    except PeritoError as foreseen:
        error = foreseen
    except MemoryError:
        program.end_without_memory()
    except Exception as unforeseen:  # a library's bug on one page must not cost the document
        trace = traceback.format_exc()
        what = f"Page {order.number}" if isinstance(order, Look | Drawing) else "The file"
        error = UnreadableFile(f"{what} could not be read: {type(unforeseen).__name__}: {unforeseen}")
    return Answer(value, error, trace, psutil.Process().memory_info().rss), data


if __name__ == "__main__":
    main(int(sys.argv[1]))
