"""How a page ended: read, doubtful or blank; and whether a VLM should look at it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assistant.core.domain import Block, BlockKind, Box, Decision, PageStatus, Reader, Reading
from assistant.core.settings import TriageSettings
from ingestion.triage.plan import Plan

_PICTURE_FACTOR = 2  # pictures without text are often logos: they count as figures from twice a drawing's size


@dataclass(frozen=True, slots=True)
class Judgement:
    """``vlm_regions`` empty means the whole page."""

    status: PageStatus
    confidence: float
    wants_vlm: bool = False
    vlm_regions: tuple[Box, ...] = ()
    reason: str = ""
    decisions: tuple[Decision, ...] = ()


def judge_page(
    plan: Plan, blocks: Sequence[Block], readings: Sequence[Reading], settings: TriageSettings, *, marked: bool = False
) -> Judgement:
    """The judgement of what was read. A VLM's reading, once there is one, settles the page. ``marked``: a person said
    that the page was misread, which no score of a reader outweighs."""
    if plan.route is Reader.NONE:
        return Judgement(PageStatus.BLANK, 1.0, reason=plan.reason)
    if not _letters(blocks):
        return _nothing_read(plan, readings, settings)
    ocr = next((reading for reading in readings if reading.reader is Reader.OCR), None)
    done = any(reading.reader is Reader.VLM and reading.blocks for reading in readings)
    decisions = _ocr_decisions(ocr, settings) if ocr and (plan.route is Reader.OCR or ocr.blocks) else []
    decisions += _figure_decisions(plan, blocks, settings)
    if marked:
        decisions.append(Decision(_MARKED, 1.0, 0.0, Reader.VLM, "Somebody marked it as misread."))
    wants = [decision for decision in decisions if decision.outcome == Reader.VLM]
    doubts = (_MARKED, *_DOUBTS) if plan.route is Reader.OCR else (_MARKED,)
    doubtful = [decision for decision in wants if decision.question in doubts]
    confidence = _confidence(blocks)
    if done:
        confident = confidence >= settings.ocr_min_confidence
        status = PageStatus.READ if confident else PageStatus.LOW_CONFIDENCE
        return Judgement(status, confidence, reason="A VLM has read it.", decisions=tuple(decisions))
    return Judgement(
        status=PageStatus.LOW_CONFIDENCE if doubtful or _is_weak(blocks, settings) else PageStatus.READ,
        confidence=confidence,
        wants_vlm=bool(wants),
        vlm_regions=_regions(wants),
        reason=" ".join(dict.fromkeys(decision.reason for decision in wants)) or plan.reason,
        decisions=tuple(decisions),
    )


_CONFIDENT, _WEAK, _INK, _HAND = "OCR sure?", "weak lines few?", "all ink explained?", "handwriting?"
_MERGED, _FIGURE, _MARKED = "merged cells?", "figure?", "marked as misread?"
_DOUBTS = (_CONFIDENT, _WEAK, _HAND)


def _letters(blocks: Sequence[Block]) -> int:
    return sum(character.isalnum() for block in blocks for character in block.text)


def _nothing_read(plan: Plan, readings: Sequence[Reading], settings: TriageSettings) -> Judgement:
    """Nothing came of a page that has ink: doubtful; one without ink is blank after all."""
    ocr = next((reading for reading in readings if reading.reader is Reader.OCR), None)
    ink = ocr.features.get("unexplained_ink", 0.0) if ocr else plan.features.get("unexplained_ink", 0.0)
    has_ink = ink > settings.unexplained_ink_max
    decision = Decision(
        _INK,
        ink,
        settings.unexplained_ink_max,
        Reader.VLM if has_ink else "blank",
        "There is ink on the page, but no text was found." if has_ink else "No text and hardly any ink was found.",
    )
    if any(reading.reader is Reader.VLM for reading in readings):
        return Judgement(PageStatus.LOW_CONFIDENCE, 0.0, reason="No reader found text on it.", decisions=(decision,))
    status = PageStatus.LOW_CONFIDENCE if has_ink else PageStatus.BLANK
    return Judgement(status, 0.0 if has_ink else 1.0, wants_vlm=has_ink, reason=decision.reason, decisions=(decision,))


def _ocr_decisions(ocr: Reading, settings: TriageSettings) -> list[Decision]:
    """The OCR's own signs against their limits."""
    features = ocr.features
    mean = features.get("mean_confidence", ocr.confidence)
    return [
        _least(_CONFIDENT, mean, settings.ocr_min_confidence, "The OCR is unsure of its text."),
        _most(_WEAK, features.get("weak_share", 0.0), settings.weak_lines_max, "The OCR is unsure of many lines."),
        _most(
            _INK,
            features.get("unexplained_ink", 0.0),
            settings.unexplained_ink_max,
            "Much ink is not explained by text.",
        ),
        _most(_HAND, features.get("handwriting", 0.0), settings.handwriting_max, "It seems to be written by hand."),
        _most(_MERGED, features.get("merged_cells", 0.0), 0.0, "It holds a table with merged cells."),
        _most(_FIGURE, features.get("figures", 0.0), 0.0, "It holds a figure."),
    ]


def _least(question: str, score: float, threshold: float, reason: str) -> Decision:
    low = score < threshold
    return Decision(question, score, threshold, Reader.VLM if low else "kept", reason if low else "Good enough.")


def _most(question: str, score: float, threshold: float, reason: str) -> Decision:
    high = score > threshold
    return Decision(question, score, threshold, Reader.VLM if high else "kept", reason if high else "Good enough.")


def _figure_decisions(plan: Plan, blocks: Sequence[Block], settings: TriageSettings) -> list[Decision]:
    """Drawings on a page with text of its own, and pictures on it from which OCR read little."""
    decisions = [
        Decision(_FIGURE, box.area, settings.figure_min_share, Reader.VLM, "It holds a drawing or a chart.", box)
        for box in plan.figures
    ]
    for box in plan.regions:
        least = _PICTURE_FACTOR * settings.figure_min_share
        if box.area >= least and not _is_read(box, blocks):
            decisions.append(Decision(_FIGURE, box.area, least, Reader.VLM, "It holds a picture.", box))
    return decisions


def _is_read(region: Box, blocks: Sequence[Block]) -> bool:
    """Whether text covers a good part of a region."""
    covered = sum(
        block.bbox.overlap(region) for block in blocks if block.kind is not BlockKind.FIGURE and block.text.strip()
    )
    return covered >= 0.5 * region.area


def _regions(wants: Sequence[Decision]) -> tuple[Box, ...]:
    """Regions where every wish concerns one; else the whole page."""
    boxes = [decision.region for decision in wants if decision.region is not None]
    return tuple(dict.fromkeys(boxes)) if len(boxes) == len(wants) else ()


def _confidence(blocks: Sequence[Block]) -> float:
    """The blocks' confidence, weighted by their letters."""
    letters = [max(1, len(block.text)) for block in blocks]
    weighted = sum(block.confidence * count for block, count in zip(blocks, letters, strict=True))
    return min(1.0, weighted / sum(letters)) if letters else 0.0


def _is_weak(blocks: Sequence[Block], settings: TriageSettings) -> bool:
    return _confidence(blocks) < settings.ocr_min_confidence
