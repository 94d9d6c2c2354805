"""The chat's tables carry Chainlit's own SQLAlchemy data layer, on SQLite and on PostgreSQL."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("chainlit_layer.py")


def test_chainlits_data_layer_lives_on_our_tables(tmp_path: Path, postgres_url: str) -> None:
    urls = [f"sqlite:///{tmp_path / 'perito.db'}", postgres_url]
    run = subprocess.run([sys.executable, SCRIPT, tmp_path, *urls], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-2:] == ["lived sqlite", "lived postgresql"]
