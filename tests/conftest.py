"""What every test gets: no network model hubs, a home of its own."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"
os.environ["PADDLE_PDX_DISABLE_MODEL_SOURCE_CHECK"] = "True"


# The longest of all: begun last, they would leave the other process of `make test` idle for minutes.
LONGEST = ("test_server.py", "test_people.py", "test_chromium.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, each whole. xdist needs ``--no-loadscope-reorder``, or it begins with the most tests."""
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the settings or the state of the person who runs it."""
    for variable in [name for name in os.environ if name.startswith("PERITO_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("PERITO_HOME", str(tmp_path / "home"))


def _fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    """What was skipped was not tested: a failure in CI, where everything a test needs has to be there."""
    if os.environ.get("CI") and report.outcome == "skipped" and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome, report.longrepr = "failed", f"{reason} (a skipped test is a failure in CI)"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _fail_if_skipped(report)
    return report
