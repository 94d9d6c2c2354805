"""What the proofs here share: the servers of a cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.shared import Shared
from tests.cluster.table import Tables
from tests.cluster.trials import papers
from tests.postgres import Cluster, postgres  # noqa: F401 - a fixture
from tests.qdrantdouble import QdrantDouble, serving


@pytest.fixture(scope="session")
def tables() -> Iterator[Tables]:
    tables = Tables()
    yield tables
    tables.close()


@pytest.fixture(scope="session")
def shared(postgres: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:  # noqa: F811
    double = QdrantDouble(tmp_path_factory.mktemp("qdrant-double"))
    with serving(double) as url:
        yield Shared(postgres, double, url, papers(tmp_path_factory.mktemp("handed-in") / "papers"))
