"""A sheet as tables: where each begins and ends, what its header is, and how it is cut into pages of rows.

Rows and columns count from 0 here and are named as people see them ("Sheet1!A2:F40").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ingestion.sources.sections import Inlay, Part
from ingestion.tables import LARGEST_SPAN, Cell, Table

MOST_CELLS = 1_500_000  # of one file
PAGE_ROWS = 100
_PAGE_CHARACTERS = 12_000
_BLOCK_ROWS = 30
_BLOCK_CHARACTERS = 2_500
_MOST_HEADS = 3
_MOST_CAPTIONS = 3
_LEAST_REMARK = 15  # letters

Rows = dict[int, dict[int, str]]


@dataclass(frozen=True, slots=True)
class Merge:
    """Cells joined into one: from the first row and column to the last, both included."""

    top: int
    left: int
    bottom: int
    right: int


@dataclass(slots=True)
class Sheet:
    """What a sheet shows. ``rows`` holds the texts of cells that have any; ``after`` what is not in cells (comments,
    text boxes, headers for printing); ``inlays`` its pictures."""

    name: str
    is_hidden: bool = False
    rows: Rows = field(default_factory=Rows)
    merges: list[Merge] = field(default_factory=list[Merge])
    hidden_rows: set[int] = field(default_factory=set[int])
    hidden_columns: set[int] = field(default_factory=set[int])
    after: list[Part] = field(default_factory=list[Part])
    inlays: list[Inlay] = field(default_factory=list[Inlay])
    _by_top: dict[int, list[Merge]] = field(default_factory=dict[int, list[Merge]])

    def merges_from(self, row: int) -> list[Merge]:
        """The joined cells that begin in a row. To be asked for once the sheet is complete."""
        if self.merges and not self._by_top:
            for merge in self.merges:
                self._by_top.setdefault(merge.top, []).append(merge)
        return self._by_top.get(row, [])

    @property
    def title(self) -> str:
        return f"{self.name} (hidden)" if self.is_hidden else self.name

    def text(self, row: int, column: int) -> str:
        return self.rows.get(row, {}).get(column, "")

    def range(self, top: int, left: int, bottom: int, right: int) -> str:
        """The name of a range: Sheet1!A2:F40, 'My sheet'!B3."""
        name = self.name if self.name.isidentifier() else "'" + self.name.replace("'", "''") + "'"
        first, last = cell_name(top, left), cell_name(bottom, right)
        return f"{name}!{first}" if first == last else f"{name}!{first}:{last}"


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows that stand together: a table, with the lines of text above it, or lines of text alone (no columns have
    more than one then)."""

    captions: tuple[int, ...]
    heads: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    repeats: bool = False  # its header was shown before
    is_table: bool = True

    @property
    def named(self) -> tuple[int, ...]:
        """The rows that its range is named after: all, but for a header shown again."""
        return self.rows if self.repeats else (*self.captions, *self.heads, *self.rows)

    @property
    def shown(self) -> tuple[int, ...]:
        return (*self.captions, *self.heads, *self.rows)


def column_letters(column: int) -> str:
    """A, B, …, Z, AA, …"""
    letters = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def cell_name(row: int, column: int) -> str:
    return f"{column_letters(column)}{row + 1}"


def pages_of(sheet: Sheet) -> Iterator[tuple[Stretch, ...]]:
    """The sheet's stretches, as many on a page as fit; at least one page, which may be empty."""
    held: list[Stretch] = []
    rows = characters = 0
    for stretch in stretches(sheet):
        size = sum(_length(sheet, row, stretch.columns) for row in stretch.rows)
        if held and (rows + len(stretch.rows) > PAGE_ROWS or characters + size > _PAGE_CHARACTERS):
            yield tuple(held)
            held, rows, characters = [], 0, 0
        held.append(stretch)
        rows, characters = rows + len(stretch.rows), characters + size
    yield tuple(held)


def stretches(sheet: Sheet) -> Iterator[Stretch]:
    """Tables and lines of text from top to bottom; a long table in pieces that have its header."""
    for group in _groups(sheet):
        columns = _columns(sheet, group.rows)
        before, body, after = _parted(sheet, group, columns)
        if not body:
            yield from _lines(sheet, before, columns)
            continue
        captions = before if len(before) <= _MOST_CAPTIONS else []
        yield from _lines(sheet, before[len(captions) :], columns)
        yield from _cut(sheet, tuple(captions), body, columns, group.heads)
        yield from _lines(sheet, after, columns)


def _lines(sheet: Sheet, rows: list[int], columns: tuple[int, ...]) -> Iterator[Stretch]:
    """Rows of one cell each, as text."""
    held: list[int] = []
    size = 0
    for row in rows:
        length = _length(sheet, row, columns)
        if held and (len(held) >= _BLOCK_ROWS or size + length > _BLOCK_CHARACTERS):
            yield Stretch((), (), tuple(held), _columns(sheet, held), is_table=False)
            held, size = [], 0
        held.append(row)
        size += length
    if held:
        yield Stretch((), (), tuple(held), _columns(sheet, held), is_table=False)


@dataclass(slots=True)
class _Group:
    """Rows that belong together; ``heads`` of them are known to be the header (0: to be found out)."""

    rows: list[int]
    heads: int = 0


def _groups(sheet: Sheet) -> Iterator[_Group]:
    """Rows that follow each other without an empty one between. Rows set apart one by one are one table, and so
    are column names with the numbers that begin below an empty row."""
    held: _Group | None = None
    for rows in _adjacent(sheet):
        if held is None:
            held = _Group(rows)
        elif len(rows) == 1 and _are_apart(sheet, held.rows, rows[0]):
            held.rows += rows
        elif not held.heads and _is_head_of(sheet, held.rows, rows):
            held = _Group(held.rows + rows, sum(len(sheet.rows[row]) > 1 for row in held.rows))
        else:
            yield held
            held = _Group(rows)
    if held is not None:
        yield held


def _adjacent(sheet: Sheet) -> list[list[int]]:
    groups: list[list[int]] = []
    covered = {row for merge in sheet.merges for row in range(merge.top, min(merge.bottom, merge.top + 200) + 1)}
    for row in sorted(sheet.rows):
        last = groups[-1][-1] if groups else -2
        if groups and (row == last + 1 or (row < last + 200 and all(r in covered for r in range(last + 1, row)))):
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups


def _are_apart(sheet: Sheet, rows: list[int], row: int) -> bool:
    """Whether rows have stood alone so far, with one empty row between each, and this one goes on so."""
    apart = all(after == before + 2 for before, after in pairwise(rows))
    return apart and row == rows[-1] + 2 and all(len(sheet.rows[each]) > 1 for each in (*rows, row))


def _is_head_of(sheet: Sheet, above: list[int], below: list[int]) -> bool:
    """Whether rows without numbers, a little above rows with numbers, name their columns."""
    names = [row for row in above if len(sheet.rows[row]) > 1]
    if not 1 <= len(names) <= _MOST_HEADS or names != above[-len(names) :] or below[0] - above[-1] > 3:
        return False
    if any(is_number(text) for row in names for text in sheet.rows[row].values()):
        return False
    first = sheet.rows[below[0]] if len(sheet.rows[below[0]]) > 1 or len(below) < 2 else sheet.rows[below[1]]
    return any(is_number(text) for text in first.values()) and set(first) <= _reach(sheet, names)


def _reach(sheet: Sheet, rows: list[int]) -> set[int]:
    """The columns from the first to the last that the rows use, and all before."""
    return set(range(max(column for row in rows for column in sheet.rows[row]) + 1))


def is_number(text: str) -> bool:
    """Whether a cell shows an amount: digits, and little else."""
    digits = sum(letter.isdigit() for letter in text)
    return digits > 0 and digits * 2 >= sum(letter.isalnum() for letter in text)


def _columns(sheet: Sheet, rows: Sequence[int]) -> tuple[int, ...]:
    """Columns in which any of the rows has text."""
    return tuple(sorted({column for row in rows for column in sheet.rows[row]}))


def _parted(sheet: Sheet, group: _Group, columns: tuple[int, ...]) -> tuple[list[int], list[int], list[int]]:
    """Lines of text above a table (titles), its rows, and lines below it (remarks); no rows where all is lines."""
    rows = group.rows
    lone = [len(sheet.rows[row]) == 1 for row in rows]
    if all(lone) and (len(columns) == 1 or len(rows) == 1):
        return rows, [], []
    start = next((index for index, alone in enumerate(lone) if not alone), 0)
    end = len(rows) - next((index for index, alone in enumerate(reversed(lone)) if not alone), 0)
    usual = max((len(sheet.text(row, columns[0])) for row in rows[start:end]), default=0)
    while end < len(rows) and not _is_remark(sheet.text(rows[end], columns[0]), usual):
        end += 1
    return rows[:start], rows[start:end], rows[end:]


def _is_remark(text: str, usual: int) -> bool:
    """Whether what stands alone below a table, in its first column, is longer than what names its rows."""
    return len(text) > max(_LEAST_REMARK, 1.5 * usual)


def _cut(
    sheet: Sheet, captions: tuple[int, ...], rows: list[int], columns: tuple[int, ...], known_heads: int
) -> Iterator[Stretch]:
    heads = tuple(rows[: known_heads or _heads(sheet, rows)])
    held: list[int] = []
    size = 0
    for row in rows[len(heads) :]:
        length = _length(sheet, row, columns)
        if held and (len(held) >= _BLOCK_ROWS or size + length > _BLOCK_CHARACTERS):
            yield Stretch(captions, heads, tuple(held), columns, repeats=held[0] != rows[len(heads)])
            captions, held, size = (), [], 0
        held.append(row)
        size += length
    yield Stretch(captions, heads, tuple(held), columns, repeats=bool(held) and held[0] != rows[len(heads)])


def _heads(sheet: Sheet, rows: list[int]) -> int:
    """The first row, and the next ones where cells joined over columns group the names under them."""
    if len(rows) < 2:
        return 0
    count = 1
    while count < min(_MOST_HEADS, len(rows) - 1) and _groups_names(sheet, rows[count - 1], rows[count]):
        count += 1
    return count


def _groups_names(sheet: Sheet, row: int, below: int) -> bool:
    """Whether a row has cells joined over columns, and the one below it names them: it has no name of its own
    (which may be joined over both), or no numbers."""
    joined = any(merge.right > merge.left for merge in sheet.merges_from(row))
    first = min(min(sheet.rows[row]), min(sheet.rows[below]))
    return joined and (first not in sheet.rows[below] or not any(map(is_number, sheet.rows[below].values())))


def _length(sheet: Sheet, row: int, columns: tuple[int, ...]) -> int:
    return sum(len(text) for text in sheet.rows.get(row, {}).values()) + 3 * len(columns)


def table_of_stretch(sheet: Sheet, stretch: Stretch) -> Table:
    """The table with its joined cells, and with hidden rows and columns marked."""
    shown, columns = (*stretch.heads, *stretch.rows), stretch.columns
    covered, spans = _joined(sheet, shown, columns)
    made = Table()
    for index, row in enumerate(shown):
        cells: list[Cell] = []
        for column in columns:
            if (row, column) in covered:
                continue
            down, across = spans.get((row, column), (1, 1))
            heading = index < len(stretch.heads)
            cells.append(Cell(_marked(sheet, row, column, index == 0), down, across, heading))
        _mark_row(sheet, row, cells)
        made.rows.append(cells)
    return made


def lines_of_stretch(sheet: Sheet, rows: Sequence[int]) -> str:
    """Rows of one cell each as lines."""
    return "\n".join(
        " ".join(sheet.rows[row].values()) + (" (hidden row)" if row in sheet.hidden_rows else "") for row in rows
    )


def _marked(sheet: Sheet, row: int, column: int, top: bool) -> str:
    text = sheet.text(row, column)
    return f"{text} (hidden column)".strip() if top and column in sheet.hidden_columns else text


def _mark_row(sheet: Sheet, row: int, cells: list[Cell]) -> None:
    if row in sheet.hidden_rows:
        first = next((cell for cell in cells if cell.text), None)
        if first is not None:
            first.text += " (hidden row)"


def _joined(
    sheet: Sheet, rows: Sequence[int], columns: Sequence[int]
) -> tuple[set[tuple[int, int]], dict[tuple[int, int], tuple[int, int]]]:
    """Cells that lie under a joined one, and how far each joined cell goes over these rows and columns."""
    covered: set[tuple[int, int]] = set()
    spans: dict[tuple[int, int], tuple[int, int]] = {}
    for merge in [merge for row in rows for merge in sheet.merges_from(row)]:
        across = [column for column in columns if merge.left <= column <= merge.right][:LARGEST_SPAN]
        down = [row for row in rows if merge.top <= row <= merge.bottom][:LARGEST_SPAN]
        if across and across[0] == merge.left:
            spans[merge.top, merge.left] = len(down), len(across)
            covered |= {(row, column) for row in down for column in across if (row, column) != (merge.top, merge.left)}
    return covered, spans
