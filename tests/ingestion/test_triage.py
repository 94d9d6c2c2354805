"""Which reader a page is sent to, held against a person's judgement; and how it is judged afterwards."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from PIL import Image

from assistant.core.domain import Block, BlockKind, Box, PageStatus, Reader, Reading
from assistant.core.settings import LimitSettings, TriageSettings
from eval.handling import ROUTES
from ingestion.pages import Page
from ingestion.readers.text import read_text
from ingestion.sources import open_source
from ingestion.triage import Plan, judge_page, plan_page
from ingestion.triage.language import plausibility
from tests.documents import shared
from tests.ingestion.pdfs import PdfPage, text_at, write_pdf

LIMITS, TRIAGE = LimitSettings(), TriageSettings()


def page_of(path: Path, number: int = 1) -> Page:
    with open_source(path, limits=LIMITS) as source:
        return source.page(number)


def plan_of(relative: str, number: int = 1) -> Plan:
    with open_source(shared(relative), limits=LIMITS) as source:
        return plan_page(source.page(number), TRIAGE)


def made(tmp_path: Path, content: str) -> Plan:
    with open_source(write_pdf(tmp_path / "made.pdf", [PdfPage(content)]), limits=LIMITS) as source:
        return plan_page(source.page(1), TRIAGE)


def test_routes_agree_with_a_persons_judgement() -> None:
    with shared("manifest.open.tsv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if row["triage_p1"].strip() not in ("", "-")]
    rows = [row for row in rows if not row["file"].endswith(".heic")][::2]
    wrong: list[str] = []
    for row in rows:
        wanted = set().union(*(ROUTES[label] for label in row["triage_p1"].strip().split("|")))
        if plan_of(row["file"]).route not in wanted:
            wrong.append(row["file"])
    assert len(rows) > 80
    assert len(wrong) <= 0.02 * len(rows), wrong


@pytest.mark.parametrize(
    ("file", "why"),
    [
        ("digital_text/dolma-page-1.pdf", "make no words"),
        ("stamps_signatures/pr-136-example.pdf", "no text of its own|hidden under a picture"),
        ("scan_hard/newspaper.pdf", "no text of its own|hidden under a picture"),
        ("scan_hard/horribleocr.pdf", "no text of its own|hidden under a picture"),
        ("broken_or_hostile/type3_font_nomapping.pdf", "no text of its own"),
        ("broken_or_hostile/issue-301.pdf", "no text of its own|hidden under a picture"),
        ("multilingual/right_to_left_02.pdf", "make no words"),
    ],
)
def test_lying_text_layers_are_not_trusted(file: str, why: str) -> None:
    plan = plan_of(file)
    assert plan.route is Reader.OCR
    (decision,) = plan.decisions
    assert decision.question == "text layer sound?"
    assert decision.score < decision.threshold == TRIAGE.text_min_soundness
    assert decision.outcome == Reader.OCR
    assert any(part in plan.reason for part in why.split("|")), plan.reason


def test_every_decision_says_what_was_compared() -> None:
    for file in ("digital_text/edgar.pdf", "tables/icdar_eu-002.pdf", "charts_figures/multimodal.pdf"):
        plan = plan_of(file)
        assert plan.route is Reader.MIXED
        sound, *pictures = plan.decisions
        assert sound.score >= sound.threshold
        assert [decision.region for decision in pictures] == list(plan.regions)
        for decision in pictures:
            assert decision.score >= decision.threshold
            assert decision.reason


@pytest.mark.parametrize("file", ["broken_or_hostile/trivial.pdf", "broken_or_hostile/no_contents.pdf"])
def test_blank_pages_are_blank(file: str) -> None:
    plan = plan_of(file)
    assert plan.route is Reader.NONE
    judgement = judge_page(plan, (), (), TRIAGE)
    assert (judgement.status, judgement.confidence, judgement.wants_vlm) == (PageStatus.BLANK, 1.0, False)
    assert "blank" in judgement.reason


def test_a_blank_page_inside_a_document_and_a_white_scan_are_blank(tmp_path: Path) -> None:
    pages = [PdfPage(text_at(72, 700, "Primera hoja")), PdfPage(" "), PdfPage(text_at(72, 700, "Tercera hoja"))]
    with open_source(write_pdf(tmp_path / "three.pdf", pages), limits=LIMITS) as source:
        routes = [plan_page(source.page(number), TRIAGE).route for number in (1, 2, 3)]
    assert routes == [Reader.TEXT, Reader.NONE, Reader.TEXT]
    path = tmp_path / "white.png"
    Image.new("RGB", (1200, 1700), (253, 252, 250)).save(path)
    assert plan_page(page_of(path), TRIAGE).route is Reader.NONE


def test_small_pictures_and_plain_grounds_are_not_read(tmp_path: Path) -> None:
    lines = "".join(
        text_at(72, 780 - 15 * n, "El presente contrato se rige por las cláusulas siguientes.") for n in range(20)
    )
    ground = "0.9 0.95 1 rg 0 0 595 842 re f 0 g\n"
    assert made(tmp_path, ground + lines).route is Reader.TEXT
    assert plan_of("forms/sydney_disclosure_contract.pdf").route is Reader.TEXT


def test_a_markdown_file_goes_to_the_text_reader_untouched() -> None:
    plan = plan_of("office/docling_wiki.md")
    assert plan.route is Reader.TEXT
    judgement = judge_page(plan, page_of(shared("office/docling_wiki.md")).blocks, (), TRIAGE)
    assert (judgement.status, judgement.wants_vlm) == (PageStatus.READ, False)


def shifted(text: str, by: int) -> str:
    return "".join(chr((ord(c) - 97 + by) % 26 + 97) if "a" <= c <= "z" else c for c in text.lower())


PROSE = {
    "es": "El Tribunal acordó que las partes debían presentar sus alega"
    "ciones antes del treinta de junio del año siguiente.",
    "en": "The court decided that both parties should present their wri"
    "tten arguments before the end of the next month.",
    "fr": "Le tribunal a décidé que les parties devaient présenter leur"
    "s observations écrites avant la fin du mois prochain.",
    "de": "Das Gericht entschied, dass beide Parteien ihre schriftliche"
    "n Stellungnahmen vor Ende des Monats vorlegen sollten.",
    "pt": "O tribunal decidiu que as partes deveriam apresentar as suas"
    " alegações antes do final do próximo mês de junho.",
    "it": "Il tribunale ha deciso che le parti dovevano presentare le l"
    "oro osservazioni scritte entro la fine del mese.",
    "ca": "El tribunal va acordar que les parts havien de presentar les"
    " seves al·legacions abans de final del mes vinent.",
    "nl": "De rechtbank besliste dat beide partijen hun schriftelijke a"
    "rgumenten voor het einde van de maand moesten indienen.",
    "eu": "Auzitegiak erabaki zuen alderdiek idatzizko alegazioak hurre"
    "ngo hilaren amaiera baino lehen aurkeztu behar zituztela.",
}


@pytest.mark.parametrize("language", PROSE)
def test_prose_is_plausible_in_every_language_and_its_ciphers_are_not(language: str) -> None:
    text = PROSE[language] * 2
    assert plausibility(text) >= TRIAGE.text_min_soundness
    plain = text.encode("ascii", "ignore").decode()
    assert all(plausibility(shifted(plain, by)) < TRIAGE.text_min_soundness for by in range(1, 26))


def test_numbers_and_short_texts_are_no_ciphers() -> None:
    assert plausibility("1.250,00 € 34 12/03/2026 " * 50) == 1.0
    assert plausibility("NIF B-12345678 Ref. XZ-9") == 1.0
    assert plausibility("日本語の文章です。" * 30) == 1.0


def block(text: str, confidence: float, reader: Reader = Reader.OCR) -> Block:
    return Block(BlockKind.PARAGRAPH, text, Box(0.1, 0.1, 0.9, 0.2), confidence, reader)


def ocr(*blocks: Block, **features: float) -> Reading:
    return Reading(Reader.OCR, blocks, 0.9, 1.0, features={"mean_confidence": 0.97, **features})


OCR_PLAN = Plan(Reader.OCR, reason="The page is a picture.")


def test_a_good_scan_is_read() -> None:
    reading = ocr(block("Contrato de arrendamiento", 0.97), weak_share=0.02, unexplained_ink=0.05)
    judgement = judge_page(OCR_PLAN, reading.blocks, [reading], TRIAGE)
    assert judgement.status is PageStatus.READ
    assert judgement.confidence == pytest.approx(0.97)
    assert not judgement.wants_vlm
    assert all(decision.outcome == "kept" for decision in judgement.decisions)


@pytest.mark.parametrize(
    ("features", "status", "reason"),
    [
        ({"mean_confidence": 0.6}, PageStatus.LOW_CONFIDENCE, "unsure of its text"),
        ({"weak_share": 0.7}, PageStatus.LOW_CONFIDENCE, "unsure of many lines"),
        ({"handwriting": 0.9}, PageStatus.LOW_CONFIDENCE, "by hand"),
        ({"unexplained_ink": 0.6}, PageStatus.READ, "not explained"),
        ({"merged_cells": 2.0}, PageStatus.READ, "merged cells"),
        ({"figures": 1.0}, PageStatus.READ, "figure"),
    ],
)
def test_what_the_ocr_cannot_do_is_wanted_from_the_vlm(
    features: dict[str, float], status: PageStatus, reason: str
) -> None:
    reading = ocr(block("Contrato de arrendamiento", 0.97), **features)
    judgement = judge_page(OCR_PLAN, reading.blocks, [reading], TRIAGE)
    assert judgement.wants_vlm
    assert judgement.status is status
    assert reason in judgement.reason
    (deciding,) = [decision for decision in judgement.decisions if decision.outcome == Reader.VLM]
    assert deciding.score in features.values()


def test_ink_without_text_is_doubtful_and_no_ink_is_blank() -> None:
    unread = judge_page(OCR_PLAN, (), [ocr(unexplained_ink=0.9)], TRIAGE)
    assert (unread.status, unread.wants_vlm, unread.confidence) == (PageStatus.LOW_CONFIDENCE, True, 0.0)
    nothing = judge_page(OCR_PLAN, (), [ocr(unexplained_ink=0.0)], TRIAGE)
    assert (nothing.status, nothing.wants_vlm) == (PageStatus.BLANK, False)


def test_a_vlm_reading_settles_the_page() -> None:
    weak = ocr(block("C0ntrat0", 0.5), mean_confidence=0.5)
    read = block("Contrato", 0.95, reader=Reader.VLM)
    vlm = Reading(Reader.VLM, (read,), 0.95, 2.0)
    judgement = judge_page(OCR_PLAN, (read,), [weak, vlm], TRIAGE)
    assert (judgement.status, judgement.wants_vlm) == (PageStatus.READ, False)


def test_charts_drawn_with_lines_are_wanted_from_the_vlm() -> None:
    for file in (
        "charts_figures/AutoCad_Diagram.pdf",
        "charts_figures/icdar_us-028.pdf",
        "charts_figures/icdar_eu-011.pdf",
    ):
        page = page_of(shared(file))
        plan = plan_page(page, TRIAGE)
        reading = read_text(page)
        judgement = judge_page(plan, reading.blocks, [reading], TRIAGE)
        assert judgement.wants_vlm, file
        assert judgement.vlm_regions, file
        assert judgement.status is PageStatus.READ


def test_plain_text_pages_want_no_vlm() -> None:
    for file in ("digital_text/code_and_formula.pdf", "multicolumn/failing_pdf_pg9.pdf", "tables/icdar_eu-003.pdf"):
        page = page_of(shared(file))
        reading = read_text(page)
        judgement = judge_page(plan_page(page, TRIAGE), reading.blocks, [reading], TRIAGE)
        assert (judgement.status, judgement.wants_vlm) == (PageStatus.READ, False), file
