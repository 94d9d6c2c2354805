"""What reading would take: held against the tokens and prices of the settings, on real documents."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from assistant.core.settings import Settings, load_settings
from assistant.core.shapes import UsageTotalShape, UsageTotalsShape
from assistant.core.tokens import fit_to_budget, visual_tokens
from compose.estimates import Estimate, History, open_estimator
from tests.documents import shared

NOWHERE = {"base_url": "http://127.0.0.1:9/v1", "model": "qwen"}
OFTEN = History(vlm_share=0.5, call_seconds=8.0, reply_tokens=500, prompt_tokens=100)


async def estimate(settings: Settings, file: Path, history: History = OFTEN) -> Estimate:
    async with open_estimator(settings, history) as estimator:
        return await estimator.of(file, file.name)


async def test_a_scan_costs_its_share_of_visual_tokens_at_the_price_set() -> None:
    scan = shared("scan_hard/sroie_004.jpg")
    with Image.open(scan) as picture:
        size = picture.size
    settings = load_settings(vlm={**NOWHERE, "price_in": 2.0, "price_out": 4.0, "concurrency": 2})
    found = await estimate(settings, scan)
    tokens = visual_tokens(*fit_to_budget(*size, "qwen3-vl", settings.vlm.max_visual_tokens), "qwen3-vl")
    assert found.visual_tokens == round(tokens / 2)
    assert found.price == pytest.approx(((tokens / 2 + 50) * 2.0 + 250 * 4.0) / 1e6)
    assert found.seconds is not None
    assert found.seconds > 0.5 * 8.0 / 2  # and the OCR before


async def test_what_nobody_told_is_unknown() -> None:
    scan = shared("scan_hard/sroie_004.jpg")
    found = await estimate(load_settings(vlm=NOWHERE), scan, History(vlm_share=0.5))
    assert (found.seconds, found.price, found.pages) == (None, None, 1)
    alone = await estimate(load_settings(), scan)
    assert (alone.visual_tokens, alone.price, alone.readers) == (0, 0.0, {"ocr": 1})


async def test_of_a_long_document_some_pages_stand_for_all(tmp_path: Path) -> None:
    file = tmp_path / "long.md"
    file.write_text("\n\n".join(f"# Artículo {number}\n\n" + "Lo que se dice aquí. " * 90 for number in range(200)))
    found = await estimate(load_settings(), file)
    assert found.pages > 100
    assert found.readers == {"text": found.pages}
    assert "24 of its pages looked at" in found.notes


async def test_what_would_be_refused_says_so(tmp_path: Path) -> None:
    (tmp_path / "empty.pdf").write_bytes(b"")
    found = await estimate(load_settings(), tmp_path / "empty.pdf")
    assert "is empty (0 bytes)" in found.refused
    long = await estimate(
        load_settings(limits={"pages": 1}), shared("digital_text/es_aeat_modelo190_instrucciones.pdf")
    )
    assert "the limit is 1" in long.refused


def test_the_past_is_told_by_documents_and_ledger() -> None:
    assert History.of([], UsageTotalsShape(usage=[])) == History()
    line = UsageTotalShape(
        purpose="page", model="qwen", collection="legal", calls=10, prompt_tokens=15_000, completion_tokens=4_000,
        visual_tokens=12_000, seconds=80.0, price=0.0,
    )  # fmt: skip
    other = line.model_copy(update={"purpose": "answer", "seconds": 1.0})
    found = History.of([], UsageTotalsShape(usage=[line, other]))
    assert (found.call_seconds, found.reply_tokens, found.prompt_tokens, found.vlm_share) == (8.0, 400.0, 300.0, 0.0)
