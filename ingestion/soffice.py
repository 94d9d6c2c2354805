"""LibreOffice, where it is on the PATH: an office file as PDF, in a process and a profile of its own.

By hand: ``soffice -env:UserInstallation=file:///tmp/profile --headless --norestore --convert-to pdf --outdir . FILE``.
The profile forbids macros and links to other places, and is thrown away with all that was written.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

log = logging.getLogger(__name__)

_NOWHERE = "http://127.0.0.1:9"  # a proxy that is not there, should anything want the network all the same
_FILTERS = {
    "pptx": 'pdf:impress_pdf_Export:{"ExportHiddenSlides":{"type":"boolean","value":"true"}}',
    "odp": 'pdf:impress_pdf_Export:{"ExportHiddenSlides":{"type":"boolean","value":"true"}}',
}
_PROFILE = """<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry">
<item oor:path="/org.openoffice.Office.Common/Security/Scripting"><prop oor:name="DisableMacrosExecution" oor:op="fuse">
<value>true</value></prop></item>
<item oor:path="/org.openoffice.Office.Common/Security/Scripting"><prop oor:name="BlockUntrustedRefererLinks"
oor:op="fuse"><value>true</value></prop></item>
<item oor:path="/org.openoffice.Office.Writer/Content/Update"><prop oor:name="Link" oor:op="fuse">
<value>0</value></prop></item></oor:items>
"""


def program() -> str | None:
    """Where LibreOffice is, or None."""
    return shutil.which("soffice") or shutil.which("libreoffice")


def printed(path: Path, suffix: str, seconds: float) -> bytes | None:
    """The file as PDF; None where LibreOffice is not there, fails, or takes longer than ``seconds``."""
    soffice = program()
    if soffice is None:
        return None
    with tempfile.TemporaryDirectory(prefix="perito-office-") as name:
        folder = Path(name)
        source = folder / f"document.{suffix}"
        source.symlink_to(path.resolve())
        (folder / "profile" / "user").mkdir(parents=True)
        (folder / "profile" / "user" / "registrymodifications.xcu").write_text(_PROFILE, "utf-8")
        command = [
            soffice, f"-env:UserInstallation={(folder / 'profile').as_uri()}", "--headless", "--norestore",
            "--nolockcheck", "--convert-to", _FILTERS.get(suffix, "pdf"), "--outdir", str(folder), str(source),
        ]  # fmt: skip
        _run(command, folder, seconds)
        made = folder / "document.pdf"
        return made.read_bytes() if made.is_file() else None


def _run(command: list[str], folder: Path, seconds: float) -> None:
    """Run it to its end, or end it and all it started when its time is up."""
    environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(folder), "LANG": "C.UTF-8", "TMPDIR": str(folder)}
    environment |= {name: _NOWHERE for name in ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy")}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        log.warning("LibreOffice took more than %.0f s and was ended", seconds)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
