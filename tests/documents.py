"""Where the real documents lie: a few in ``tests/data``, the many in ``../shared/docs`` beside the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"
SHARED = ROOT.parent / "shared" / "docs"

needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared documents are not beside this checkout")


def shared(relative: str) -> Path:
    """A real document, e.g. ``shared("scan_hard/sroie_004.jpg")``: from beside the checkout, else from ``tests/data``,
    which holds a few under the same names. The test is skipped where neither has it (a failure in CI)."""
    for folder in (SHARED, DATA):
        if (folder / relative).exists():
            return folder / relative
    assert not SHARED.is_dir(), f"no such shared document: {relative}"
    pytest.skip("the shared documents are not beside this checkout")
