"""Figures as tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from eval.bench import __main__ as bench
from eval.bench.table import Table, shown_cell

SPEED = Table("speed", "Pages a minute", ["reader", "pages", "ok"], [["text", 1200.0, True], ["ocr|vlm", None, False]])


def test_a_row_has_a_cell_for_each_column() -> None:
    with pytest.raises(ValueError, match="speed"):
        Table("speed", "Speed", ["a", "b"], [["only one"]])


def test_cells_as_people_read_them() -> None:
    cells = [None, True, 12345, 0.123456, 1234.5, "x"]
    assert [shown_cell(cell) for cell in cells] == ["–", "yes", "12,345", "0.123", "1,234", "x"]


def test_a_table_as_text_json_and_markdown() -> None:
    console = Console(width=80, record=True, file=None, quiet=False, force_terminal=False)
    with console.capture() as shown:
        SPEED.print(console)
    assert "Pages a minute" in shown.get() and "1,200" in shown.get()
    assert json.loads(json.dumps(SPEED.as_json()))["rows"][0] == ["text", 1200.0, True]
    assert "| ocr\\|vlm | – | no |" in SPEED.as_markdown()


def test_an_unknown_figure_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        bench.main(["no_such_figure"])
    assert stopped.value.code == 2
    assert "no such figure: no_such_figure" in capsys.readouterr().err


def test_documents_that_are_not_there_are_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as stopped:
        bench.main(["--documents", str(tmp_path / "none")])
    assert stopped.value.code == 2
