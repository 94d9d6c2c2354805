"""Where the real documents lie: a few in ``tests/data``, the many in ``../shared/docs`` beside the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"
SHARED = ROOT.parent / "shared" / "docs"

needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared documents are not beside this checkout")


def shared(relative: str) -> Path:
    """A shared document, e.g. ``shared("scan_clean/linn.png")``; the test is skipped where there are none
    (which the gate counts as a failure)."""
    path = SHARED / relative
    if not SHARED.is_dir():
        pytest.skip("the shared documents are not beside this checkout")
    assert path.exists(), f"no such shared document: {relative}"
    return path
