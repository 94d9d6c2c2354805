"""Visual-token arithmetic against the models' own preprocessor.

``smart_resize.json`` is what transformers 5.19 computes (made by ``tests/vllm/reference_sizes.py``,
which ``make test-vllm`` runs again on random sizes, and holds against a real server).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from assistant.core.errors import BadRequest, Misconfigured
from assistant.core.tokens import GRIDS, Family, fit_to_budget, resized, visual_tokens

FAMILIES: tuple[Family, ...] = get_args(Family)
REFERENCE: list[dict[str, Any]] = json.loads((Path(__file__).parent / "smart_resize.json").read_text("utf-8"))

side = st.integers(1, 20_000)
family = st.sampled_from(FAMILIES)
budget = st.integers(64, 16_384)


@pytest.mark.parametrize("family", FAMILIES)
def test_sizes_are_those_of_the_preprocessor(family: Family) -> None:
    assert len(REFERENCE) == 150
    assert {tuple(row["size"]): list(resized(*row["size"], family)) for row in REFERENCE} == {
        tuple(row["size"]): row[family] for row in REFERENCE
    }


@pytest.mark.parametrize(
    ("size", "family", "tokens"),
    [
        ((896, 896), "qwen2.5-vl", 1024),  # 896² / 784
        ((896, 896), "qwen3-vl", 784),  # 896² / 1024
        ((640, 480), "qwen3-vl", 300),
        ((32, 32), "qwen3-vl", 64),  # never fewer
    ],
)
def test_tokens_are_cells(size: tuple[int, int], family: Family, tokens: int) -> None:
    assert visual_tokens(*size, family) == tokens


def test_an_a4_page_at_200_dpi_fits_the_default_budget() -> None:
    width, height = fit_to_budget(1654, 2339, "qwen3-vl", 2048)
    assert visual_tokens(width, height, "qwen3-vl") > 0.95 * 2048
    assert width / height == pytest.approx(1654 / 2339, rel=0.03)


@given(side, side, family, budget)
def test_a_fitted_size_keeps_to_the_budget_and_is_left_alone(
    width: int, height: int, family: Family, budget: int
) -> None:
    assume(max(width, height) <= 200 * min(width, height))
    fitted = fit_to_budget(width, height, family, budget)
    assert visual_tokens(*fitted, family) <= budget
    assert resized(*fitted, family) == fitted
    grid = GRIDS[family]
    grown = fitted[0] >= width + grid.cell or fitted[1] >= height + grid.cell
    if width * height > 4 * grid.min_pixels and budget > 4 * grid.min_cells:
        assert not grown


@given(st.integers(300, 8_000), st.integers(300, 8_000), family, st.integers(500, 16_384))
def test_the_budget_is_used_and_the_shape_kept(width: int, height: int, family: Family, budget: int) -> None:
    assume(max(width, height) <= 3 * min(width, height))
    fitted = fit_to_budget(width, height, family, budget)
    natural = visual_tokens(width, height, family)
    # rounding down loses at most one row and one column
    rows_and_columns = (fitted[0] + fitted[1]) / GRIDS[family].cell
    assert visual_tokens(*fitted, family) >= min(natural, budget) - rows_and_columns - 1
    assert fitted[0] / fitted[1] == pytest.approx(width / height, rel=0.12)


def test_what_the_preprocessor_would_refuse_is_refused_here() -> None:
    with pytest.raises(BadRequest, match="6400 x 10 pixels is too long and thin"):
        visual_tokens(6400, 10, "qwen3-vl")
    with pytest.raises(BadRequest):
        fit_to_budget(0, 10, "qwen3-vl", 1000)


def test_a_budget_below_the_least_cost_is_a_wrong_setting() -> None:
    with pytest.raises(Misconfigured, match="at least 64 visual tokens"):
        fit_to_budget(640, 480, "qwen3-vl", 63)
