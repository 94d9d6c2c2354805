"""A clean install, timed: `make test-install`.

Copies the checkout's tracked files into an empty folder, gives it an empty home and empty caches, runs `make install`
there, and fails if that took three minutes or longer, or brought along torch, paddlepaddle or anything of CUDA.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LONGEST = 180.0
UNWANTED = re.compile(r"torch|paddlepaddle|cuda|cudnn|cublas|nvidia|triton|tensorflow", re.I)


def copy_checkout(to: Path) -> None:
    """The tracked files as they are now, without what git ignores."""
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def fresh_environment(home: Path) -> dict[str, str]:
    """As a new user has it: an empty home, no caches, nobody's virtual environment. Where the registry is stays."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PERITO_", "VIRTUAL_ENV", "XDG_", "PYTHON", "MAKE", "MFLAGS"))
    }
    return kept | {"HOME": str(home), "UV_CACHE_DIR": str(home / "uv"), "PIP_CACHE_DIR": str(home / "pip")}


def installed(python: Path) -> list[str]:
    """Names of the installed distributions."""
    code = "import json, importlib.metadata as m; print(json.dumps([d.name for d in m.distributions()]))"
    return json.loads(subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout)


def main() -> int:
    """0 when the install is as promised."""
    with tempfile.TemporaryDirectory(prefix="perito-install-") as folder:
        checkout, home = Path(folder) / "checkout", Path(folder) / "home"
        home.mkdir()
        copy_checkout(checkout)
        started = time.monotonic()
        subprocess.run(["make", "install"], cwd=checkout, env=fresh_environment(home), check=True)
        seconds = time.monotonic() - started
        names = installed(checkout / ".venv" / "bin" / "python")
        size = sum(file.lstat().st_size for file in (checkout / ".venv").rglob("*") if not file.is_symlink())
        help_text = subprocess.run(
            [checkout / ".venv" / "bin" / "perito", "--help"],
            env=fresh_environment(home), check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
    unwanted = sorted(name for name in names if UNWANTED.search(name))
    report = (
        f"clean install: {seconds:.0f} s, {len(names)} packages, {size / 1e9:.2f} GB, unwanted: {unwanted or 'none'}"
    )
    sys.stdout.write(report + "\n")
    return 0 if seconds < LONGEST and not unwanted and "serve" in help_text else 1


if __name__ == "__main__":
    sys.exit(main())
