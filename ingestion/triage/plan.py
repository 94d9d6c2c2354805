"""Which reader a page goes to, before anything is read: its own text where that is sound, OCR elsewhere.

Signs are weighed from cheap to dear and every comparison that counted is kept as a Decision, with the score
and the threshold exactly as compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from assistant.core.domain import Box, Decision, Reader
from assistant.core.settings import TriageSettings
from ingestion.pages import Page
from ingestion.triage.ink import covered, figure_regions, ink_mask, is_flat, share, text_regions
from ingestion.triage.language import plausibility

_SCAN_SHARE = 0.5  # of the page: a picture this large is the page, where its text lies hidden under it
_MUCH_HIDDEN = 0.5  # share of the layer's letters in a hidden layer that makes the page a scan
_FEW_LETTERS = 60  # fewer than this do not explain a page full of ink
_LEAST_INK = 0.0004  # of the page's pixels: dust
_MOST_REGIONS = 12
_JUMBLED = 0.25  # share of lines that lie on each other, from which the layout model is asked


@dataclass(frozen=True, slots=True)
class Plan:
    """``regions`` are what OCR reads of a MIXED page. ``wants_layout``: order the text by the look of the
    page. ``figures`` are drawings that only a VLM understands."""

    route: Reader
    regions: tuple[Box, ...] = ()
    wants_layout: bool = False
    reason: str = ""
    decisions: tuple[Decision, ...] = ()
    features: Mapping[str, float] = field(default_factory=dict[str, float])
    figures: tuple[Box, ...] = ()


def plan_page(page: Page, settings: TriageSettings) -> Plan:
    """The route of ``page``: TEXT, OCR, MIXED or (blank) NONE."""
    if page.blocks:
        return _with_its_structure(page, settings)
    features = _features(page)
    blank = _blank(page, features)
    if blank:
        return Plan(Reader.NONE, reason=blank.reason, decisions=(blank,), features=features)
    if page.is_picture:
        return Plan(Reader.OCR, reason="The page is a picture.", features=features)
    sound = _soundness(features, settings)
    if sound.outcome == Reader.OCR:
        return Plan(Reader.OCR, reason=sound.reason, decisions=(sound,), features=features)
    return _with_pictures(page, settings, features, sound)


def _with_its_structure(page: Page, settings: TriageSettings) -> Plan:
    """A page of a file that knows its own structure: only its pictures are looked at."""
    regions, decisions = _picture_regions(page, settings) if page.pictures else ((), [])
    return Plan(
        route=Reader.MIXED if regions else Reader.TEXT,
        regions=regions,
        reason="The file is text; its pictures are read by OCR." if regions else "The file is text.",
        decisions=tuple(decisions),
    )


def _features(page: Page) -> dict[str, float]:
    seen = sum(len(line.text.replace(" ", "")) for line in page.lines)
    layer = sum(len(line.text) for line in page.unseen if line.unseen and line.unseen.is_layer)
    text = "\n".join(line.text for line in page.lines)
    features = {
        "letters": float(seen),
        "hidden_layer_letters": float(layer),
        "hidden_letters": float(sum(len(line.text) for line in page.unseen) - layer),
        "unmapped_share": page.signs.unmapped / max(1, page.signs.characters),
        "odd_share": _odd(text) / max(1, len(text)),
        "plausibility": plausibility(text),
        "picture_share": share(page.pictures),
        "drawing_share": share(page.drawings),
        "jumbled_share": _jumbled(page),
    }
    return features | _ink_features(page)


def _ink_features(page: Page) -> dict[str, float]:
    """How much ink there is, and which share of it stands neither in text nor in pictures nor in rulings."""
    grey = page.grey()
    ink = ink_mask(grey)
    explained = covered(grey.shape, (line.bbox for line in page.lines))
    explained |= covered(grey.shape, page.pictures)
    explained |= covered(grey.shape, (ruling.bbox for ruling in page.rulings))
    total = float(ink.mean())
    rest = float((ink & ~explained).mean())
    return {"ink": total, "unexplained_ink": rest / total if total > _LEAST_INK else 0.0}


def _odd(text: str) -> int:
    """Characters that no text holds: private use, replacement, leftovers of unnamed glyphs."""
    private = sum("\ue000" <= character <= "\uf8ff" or character == "\ufffd" for character in text)
    return private + 7 * text.count("(cid:")


def _jumbled(page: Page) -> float:
    """The share of lines that lie on another line."""
    if not 4 <= len(page.lines) <= 400:
        return 0.0
    boxes = np.array([line.bbox for line in page.lines if line.angle == 0 and not line.field])
    if len(boxes) < 4:
        return 0.0
    width = np.minimum(boxes[:, None, 2], boxes[None, :, 2]) - np.maximum(boxes[:, None, 0], boxes[None, :, 0])
    height = np.minimum(boxes[:, None, 3], boxes[None, :, 3]) - np.maximum(boxes[:, None, 1], boxes[None, :, 1])
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    common = np.clip(width, 0, None) * np.clip(height, 0, None)
    np.fill_diagonal(common, 0)
    return float((common.max(axis=1) > 0.5 * np.maximum(area, 1e-9)).mean())


def _blank(page: Page, features: Mapping[str, float]) -> Decision | None:
    """The decision that nothing is on the page, or None."""
    if features["letters"] > 0:
        return None
    empty = is_flat(page.grey()) if page.is_picture or page.pictures else features["ink"] <= _LEAST_INK / 4
    if not empty:
        return None
    return Decision(
        "anything on the page?",
        features["ink"],
        _LEAST_INK / 4,
        Reader.NONE,
        "The page is blank: there is no ink on it.",
    )


def _soundness(features: Mapping[str, float], settings: TriageSettings) -> Decision:
    """How far the page's own text can be trusted, as the least of its signs."""
    signs = {
        "The glyphs of its text layer have no letters.": 1 - 3 * max(features["unmapped_share"], features["odd_share"]),
        "The letters of its text layer make no words.": features["plausibility"],
        "It is a scan: its text lies hidden under a picture.": _seen_share(features),
        "It shows more than its few letters explain.": _coverage(features),
    }
    reason, score = min(signs.items(), key=lambda sign: sign[1])
    score = max(0.0, score)
    sound = score >= settings.text_min_soundness
    if features["letters"] == 0 and not sound:
        reason = "The page has no text of its own that can be seen."
    return Decision(
        "text layer sound?",
        score,
        settings.text_min_soundness,
        Reader.TEXT if sound else Reader.OCR,
        "Its own text is sound." if sound else reason,
    )


def _seen_share(features: Mapping[str, float]) -> float:
    """1 for a page whose text is seen; towards 0 where most of it is a scanner's layer under a picture."""
    layer, seen = features["hidden_layer_letters"], features["letters"]
    if layer == 0 or features["picture_share"] < _SCAN_SHARE:
        return 1.0
    return min(1.0, seen / (layer + seen) / _MUCH_HIDDEN)


def _coverage(features: Mapping[str, float]) -> float:
    """Few letters on a page with much ink elsewhere, or none under a picture of the whole page."""
    letters = features["letters"]
    if letters == 0:
        return 0.0
    if letters >= _FEW_LETTERS:
        return 1.0
    return max(letters / _FEW_LETTERS, 1.0 - features["unexplained_ink"])


def _with_pictures(page: Page, settings: TriageSettings, features: dict[str, float], sound: Decision) -> Plan:
    """A page whose text is sound, with the pictures on it that may hold more."""
    regions, looked_at = _picture_regions(page, settings)
    decisions = [sound, *looked_at]
    jumbled = features["jumbled_share"] >= _JUMBLED and not regions
    if jumbled:
        decisions.append(
            Decision(
                "lines on each other?", features["jumbled_share"], _JUMBLED, "layout",
                "Lines of its text lie on each other, so the look of the page orders them.",
            )
        )  # fmt: skip
    return Plan(
        route=Reader.MIXED if regions else Reader.TEXT,
        regions=regions,
        wants_layout=jumbled,
        reason="Its own text is sound; its pictures are read by OCR." if regions else sound.reason,
        decisions=tuple(decisions),
        features=features,
        figures=tuple(figure_regions(page, settings.figure_min_share)),
    )


def _picture_regions(page: Page, settings: TriageSettings) -> tuple[tuple[Box, ...], list[Decision]]:
    """Pictures on a page that may hold text, the largest first, each with why it is read."""
    found = sorted(text_regions(page, settings.picture_min_share), key=lambda box: -box.area)
    regions = tuple(found[:_MOST_REGIONS])
    return regions, [
        Decision(
            "picture large enough to hold text?", region.area, settings.picture_min_share, Reader.OCR,
            "A picture on the page may hold text.", region,
        )
        for region in regions
    ]  # fmt: skip
