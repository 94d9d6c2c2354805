"""The Dockerfile's steps without Docker: its RUN lines run in a fresh folder, without a compiler, and what they built
is started without privileges (`make test-image-steps`)."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

from tests.documents import ROOT
from tests.install import copy_checkout, fresh_environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Stage:
    """A build stage: its instructions in order, continuation lines joined."""

    base: str
    steps: tuple[tuple[str, str], ...]


def stages(dockerfile: str) -> list[Stage]:
    text = re.sub(r"\\\n\s*", " ", "\n".join(line for line in dockerfile.splitlines() if not line.startswith("#")))
    found: list[tuple[str, list[tuple[str, str]]]] = []
    for line in filter(None, (line.strip() for line in text.splitlines())):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            found.append((rest, []))
        else:
            found[-1][1].append((word, rest.strip()))
    return [Stage(base, tuple(steps)) for base, steps in found]


def build(stage: Stage, folder: Path, lock: str) -> Path:
    """Do what the build stage says, with /build and /opt/perito below ``folder``. The environment that was made."""
    work, made = folder / "build", folder / "perito"
    work.mkdir()
    variables = fresh_environment(folder / "home") | {"LOCK": lock, "CC": "false", "CXX": "false"}
    for word, rest in stage.steps:
        if word == "ENV":
            variables |= dict(pair.split("=", 1) for pair in rest.split())
        elif word == "COPY":
            copy(rest.replace("${LOCK}", lock), work)
        elif word == "RUN":
            command = rest.replace("/opt/perito", str(made))
            subprocess.run(["/bin/sh", "-ec", command], cwd=work, env=variables, check=True)
        else:
            assert word in ("ARG", "WORKDIR"), f"{word} is not understood here"
    return made


def copy(arguments: str, work: Path) -> None:
    *sources, _ = arguments.split()
    if sources == ["."]:
        copy_checkout(work)
        return
    for source in sources:
        shutil.copy2(ROOT / source, work)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What /opt/perito would be in the default image: nobody may write there."""
    yield from built(tmp_path_factory.mktemp("image"), "requirements.txt")


@pytest.fixture(scope="module")
def cluster_image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The same for the image of compose.gpu.yaml."""
    yield from built(tmp_path_factory.mktemp("cluster"), "requirements-cluster.txt")


def built(folder: Path, lock: str) -> Iterator[Path]:
    (folder / "home").mkdir()
    build_stage, _ = stages((ROOT / "compose" / "perito.Dockerfile").read_text("utf-8"))
    made = build(build_stage, folder, lock)
    subprocess.run(["chmod", "-R", "a-w", made], check=True)
    yield made
    subprocess.run(["chmod", "-R", "u+w", made], check=True)
    shutil.rmtree(folder)


# Root without its capabilities keeps to the file modes like anyone else. (Another user id would be closer to the image,
# but the Python that runs the tests may lie where others may not look.)
UNPRIVILEGED = ["setpriv", "--no-new-privs", "--bounding-set=-all"] if os.getuid() == 0 else []


def environment(image: Path, home: Path) -> dict[str, str]:
    return {"PATH": f"{image / 'bin'}:/usr/bin:/bin", "HOME": str(home), "PERITO_HOME": str(home), "LANG": "C.UTF-8"}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The volume."""
    return tmp_path


def test_the_installation_cannot_be_written(image):
    done = subprocess.run([*UNPRIVILEGED, "touch", str(image / "bin" / "new")], capture_output=True)
    assert done.returncode != 0


def test_the_cluster_image_speaks_with_postgresql(cluster_image):
    code = "import psycopg, compose.cli"
    subprocess.run([cluster_image / "bin" / "python", "-c", code], cwd=cluster_image, check=True)


def test_nothing_unwanted_is_in_the_image(image):
    names = {path.name.split("-")[0].lower() for path in image.glob("lib/python3*/site-packages/*.dist-info")}
    assert {"perito", "chainlit", "onnxruntime_openvino"} <= names or {"perito", "chainlit", "onnxruntime"} <= names
    assert not [name for name in names if re.search(r"^torch|paddlepaddle|cuda|nvidia|^uv$|pytest", name)]


def test_the_image_reads_a_page_unprivileged(image, state):
    page = state / "page.png"
    picture = Image.new("RGB", (1000, 300), "white")
    ImageDraw.Draw(picture).text((60, 100), "Contrato 2026", fill="black", font=ImageFont.load_default(72))
    picture.save(page)
    page.chmod(0o644)
    done = subprocess.run(
        [*UNPRIVILEGED, "perito", "read", str(page), "--json"],
        env=environment(image, state), cwd=state, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    read = json.loads(done.stdout)["pages"][0]
    assert read["reader"] == "ocr"
    assert "Contrato 2026" in read["text"]


def test_the_image_serves_and_is_ready_unprivileged(image, state):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    log = state / "log"
    with log.open("wb") as output:
        command = [*UNPRIVILEGED, "perito", "serve", "--port", str(port)]
        server = subprocess.Popen(command, env=environment(image, state), cwd=state, stdout=output, stderr=output)
    try:
        assert ready(f"http://127.0.0.1:{port}/readyz", server), log.read_text("utf-8")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as page:
            assert b"<html" in page.read().lower()
    finally:
        server.terminate()
        server.wait(60)
    assert server.returncode == 0, log.read_text("utf-8")


def ready(url: str, server: subprocess.Popen[bytes], seconds: float = 180) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until and server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status == 200
        except OSError:
            time.sleep(0.5)
    return False


def test_the_image_refuses_all_addresses_without_users(image, state):
    done = subprocess.run(
        [*UNPRIVILEGED, "perito", "serve", "--host", "0.0.0.0"],
        env=environment(image, state), cwd=state, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1
    assert "auth.users" in done.stderr


def test_the_final_stage_runs_as_the_same_user_and_is_watched():
    _, final = stages((ROOT / "compose" / "perito.Dockerfile").read_text("utf-8"))
    steps = dict(final.steps)
    assert steps["USER"] == "10001"
    assert "--uid 10001" in steps["RUN"]
    assert "/readyz" in steps["HEALTHCHECK"]
    assert json.loads(steps["ENTRYPOINT"]) == ["perito"]
    check = json.loads(steps["HEALTHCHECK"].partition("CMD ")[2])
    compile(check[2], "healthcheck", "exec")
