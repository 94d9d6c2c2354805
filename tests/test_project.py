"""The papers around the code keep their word: commands exist, links lead somewhere, lock files are whole and name no
host, licences are what NOTICE says."""

from __future__ import annotations

import importlib.metadata
import re
import shlex
import subprocess
import tomllib
from fnmatch import fnmatch
from functools import cache

import pytest
import typer
import typer.main
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.version import Version

from compose.cli import app
from tests.documents import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PAPERS = ["README.md", "CONTRIBUTING.md", "DESIGN.md", "compose/README.md"]
LOCKS = sorted(file.name for file in ROOT.glob("requirements*.txt"))
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")


@cache
def tracked() -> tuple[str, ...]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    return tuple(name for name in done.stdout.split("\0") if name and (ROOT / name).is_file())


def text_of(name: str) -> str:
    """A tracked file's text; '' for pictures and models."""
    data = (ROOT / name).read_bytes()
    return "" if b"\0" in data[:8192] else data.decode("utf-8", "replace")


def told_commands(name: str) -> list[str]:
    """Command lines in a document: indented or in a fence, and the short ones within sentences."""
    text = (ROOT / name).read_text("utf-8")
    lines = re.findall(r"^(?:    |\$ )\$? ?((?:make|perito|docker compose) .+)$", text, re.M)
    return [
        re.sub(r"\s{2,}#.*| # .*", "", line) for line in lines + re.findall(r"`((?:make|perito) [a-z][^`\n]*)`", text)
    ]


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):.*## ", MAKEFILE, re.M))


@pytest.mark.parametrize("target", ["serve", "test", "lint", "type", "arch", "bench", "fix", "lock", "test-vllm"])
def test_the_promised_targets_exist(target):
    assert target in targets()


@pytest.mark.parametrize("name", PAPERS)
def test_make_commands_told_exist(name):
    for command in told_commands(name):
        if command.startswith("make "):
            words = [word for word in shlex.split(command)[1:] if "=" not in word]
            assert set(words) <= targets(), command


@pytest.mark.parametrize("name", PAPERS)
def test_perito_commands_told_exist_with_their_options(name):
    root = typer.main.get_command(app)
    for command in told_commands(name):
        if not command.startswith("perito ") or "|" in command:
            continue
        found, options = root, set[str]()
        for word in shlex.split(command)[1:]:
            if word in getattr(found, "commands", {}):
                found = found.commands[word]  # pyright: ignore
            elif word.startswith("--"):
                options.add(word)
        assert found is not root, command
        known = {option for parameter in found.params for option in parameter.opts}
        assert options <= known, f"{command}: {options - known}"


@pytest.mark.parametrize("name", PAPERS)
def test_links_lead_somewhere(name):
    folder = (ROOT / name).parent
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / name).read_text("utf-8")):
        if not target.startswith("http"):
            assert (folder / target).is_file(), target


def test_the_readme_can_be_read_in_one_go():
    readme = (ROOT / "README.md").read_text("utf-8")
    assert len(readme.splitlines()) < 200
    assert "make serve" in readme
    assert "make test" in readme


def test_versions_agree():
    version = PROJECT["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.M)
    for file in ("compose/compose.yaml", "compose/compose.gpu.yaml"):
        assert f"image: perito:{version}" in (ROOT / file).read_text("utf-8")


# Written in pieces, so that this file is not found by its own search.
REGISTRIES = re.compile(
    r"(?:py" + r"pi\.org|pytho" + r"nhosted|regist" + r"ry\.npm|/sim" + r"ple/|index" + r"-url\s*=)"
)
MACHINE = re.compile(r"(?<![\w.$}])/(?:wo" + r"rk|ro" + r"ot|ho" + r"me/\w+|opt/" + r"wheels)(?:/|\b)")


@pytest.mark.parametrize("name", tracked())
def test_no_file_names_a_registry_or_a_path_of_one_machine(name):
    text = text_of(name)
    assert not REGISTRIES.search(text), REGISTRIES.search(text)
    assert not MACHINE.search(text), MACHINE.search(text)


def locked(name: str) -> dict[str, Version]:
    """Distribution -> version, as a lock file has it for the machine at hand."""
    found: dict[str, Version] = {}
    for line in (ROOT / name).read_text("utf-8").splitlines():
        match = re.match(r"([a-zA-Z0-9._-]+)==(\S+)(?: ; (.*?))? \\$", line)
        if match and (not match[3] or Marker(match[3]).evaluate()):
            found[match[1].lower()] = Version(match[2])
    return found


@pytest.mark.parametrize("name", LOCKS)
def test_lock_files_hash_every_line_and_name_no_host(name):
    text = (ROOT / name).read_text("utf-8")
    assert "://" not in text
    for entry in re.split(r"\n(?=[a-zA-Z])", text.strip()):
        assert re.match(r"[a-zA-Z0-9._-]+==\S+( ; .*)? \\\n", entry), entry[:80]
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry[:80]


@pytest.mark.parametrize(
    ("name", "extras"),
    [("requirements.txt", []), ("requirements-dev.txt", ["dev"]), ("requirements-cluster.txt", ["cluster"])],
)
def test_lock_files_hold_what_the_project_asks_for(name, extras):
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in PROJECT["optional-dependencies"][extra])]
    versions = locked(name)
    for requirement in map(Requirement, lines):
        if requirement.name == "onnxruntime" and "onnxruntime-openvino" in versions:
            continue  # overridden, see [tool.uv]
        assert requirement.name.lower() in versions, f"{requirement}: make lock"
        assert versions[requirement.name.lower()] in requirement.specifier, f"{requirement}: make lock"


def test_lock_files_agree_with_each_other():
    default = locked("requirements.txt")
    for name in ("requirements-dev.txt", "requirements-cluster.txt", "requirements-sbert.txt"):
        assert default.items() <= locked(name).items(), name


@pytest.mark.parametrize("name", [name for name in LOCKS if name != "requirements-vllm.txt"])
def test_no_lock_file_of_the_product_installs_torch_paddlepaddle_or_cuda(name):
    heavy = re.compile(r"torch|paddlepaddle|cuda|nvidia|cudnn|triton")
    assert not [key for key in locked(name) if heavy.search(key)]


def test_the_environment_is_the_locked_one():
    """Two OpenCV or two ONNX Runtime wheels unpack into one folder, and whichever came last wins: measured and shipped
    would be different things."""
    lock = locked("requirements-dev.txt")
    here = {
        distribution.name.lower().replace("_", "-"): Version(distribution.version)
        for distribution in importlib.metadata.distributions()
    }
    double = {"opencv-python", "opencv-contrib-python", "onnxruntime", "onnxruntime-openvino"}
    assert not (double - set(lock)) & set(here), "rm -rf .venv"
    drifted = {name: version for name, version in here.items() if version != lock.get(name, version)}
    assert not drifted, "make dev"


PERMISSIVE = re.compile(
    r"mit|apache|bsd|isc|psf|python software foundation|zlib|unlicense|0bsd|mit-cmu|hpnd|cc0|public domain|tcl|boost|"
    r"cnri|wtfpl|mpl|mozilla", re.I,
)  # fmt: skip
# Weak copyleft, used unchanged as packages of their own: named in NOTICE. MPL-2.0 binds only its own files.
LESSER = {"crc32c", "pi-heif", "python-bidi"}
# Their metadata say nothing; looked up in the package itself.
SILENT: dict[str, str] = {}


def licence(name: str) -> str:
    metadata = importlib.metadata.metadata(name)
    classifiers = [line for line in metadata.get_all("Classifier") or [] if line.startswith("License ::")]
    first_line = (metadata.get("License") or "").strip().split("\n")[0]
    return " ".join([metadata.get("License-Expression") or "", first_line, *classifiers])


def installed_by_default() -> list[str]:
    here = {distribution.name.lower().replace("_", "-") for distribution in importlib.metadata.distributions()}
    return [name for name in locked("requirements.txt") if name in here]


@pytest.mark.parametrize("name", installed_by_default())
def test_licences_of_the_default_installation_are_permissive(name):
    told = licence(name) + SILENT.get(name, "")
    if name in LESSER:
        assert "Lesser" in told or "LGPL" in told
        assert name in (ROOT / "NOTICE").read_text("utf-8")
        return
    assert PERMISSIVE.search(told), f"{name}: {told!r}"
    assert not re.search(r"\bA?GPL|GNU (Affero )?General|Lesser", told), f"{name}: {told!r}"


def test_the_licence_is_apache_and_notice_names_every_model_we_carry():
    text = (ROOT / "LICENSE").read_text("utf-8")
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    notice = (ROOT / "NOTICE").read_text("utf-8")
    for name in tracked():
        if name.endswith((".onnx", ".bin", ".gguf", ".safetensors")):
            assert name.rsplit("/", 1)[1] in notice, name


def test_every_test_document_has_an_origin_and_a_licence():
    rows = (ROOT / "tests" / "data" / "README.md").read_text("utf-8").splitlines()
    told = [pattern for row in rows if row.startswith("| `") for pattern in re.findall(r"`([^`]+)`", row.split("|")[1])]
    for name in tracked():
        if name.startswith("tests/data/") and name != "tests/data/README.md":
            below = name.removeprefix("tests/data/")
            assert any(fnmatch(below, f"{pattern}*" if pattern.endswith("/") else pattern) for pattern in told), name
