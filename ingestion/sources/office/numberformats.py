"""Numbers as a sheet shows them, by their number format (ECMA-376, part 1, 18.8.31).

What depends on the reader's machine is settled once: points for decimals, commas for thousands, and the formats
that stand for "the date as usual here" give ISO dates.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from itertools import takewhile

BUILT_IN = {
    0: "General", 1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 5: "$#,##0;-$#,##0", 6: "$#,##0;-$#,##0",
    7: "$#,##0.00;-$#,##0.00", 8: "$#,##0.00;-$#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00", 12: "# ?/?",
    13: "# ??/??", 14: "yyyy-mm-dd", 15: "d-mmm-yy", 16: "d-mmm", 17: "mmm-yy", 18: "h:mm AM/PM",
    19: "h:mm:ss AM/PM", 20: "h:mm", 21: "h:mm:ss", 22: "yyyy-mm-dd h:mm", 37: "#,##0;(#,##0)",
    38: "#,##0;(#,##0)", 39: "#,##0.00;(#,##0.00)", 40: "#,##0.00;(#,##0.00)", 41: "#,##0;-#,##0;-;@",
    42: "$#,##0;-$#,##0;$-;@", 43: "#,##0.00;-#,##0.00;-;@", 44: "$#,##0.00;-$#,##0.00;$-;@", 45: "mm:ss",
    46: "[h]:mm:ss", 47: "mm:ss.0", 48: "##0.0E+0", 49: "@",
}  # fmt: skip
_MONTHS = {
    9: "January February March April May June July August September October November December",
    10: "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
}
_DAYS = {
    9: "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    10: "lunes martes miércoles jueves viernes sábado domingo",
}
_TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"?|\\(?P<escaped>.)|_(?P<space>.)|\*(?P<fill>.)|\[(?P<bracket>[^\]]*)\]'
    r"|(?P<general>general)|(?P<ampm>am/pm|a/p)|(?P<exponent>e[+-])|(?P<date>y+|m+|d+|h+|s+)"
    r"|(?P<digit>[0#?])|(?P<point>\.)|(?P<comma>,)|(?P<percent>%)|(?P<slash>/)|(?P<text>@)|(?P<other>.)",
    re.IGNORECASE | re.DOTALL,
)
_CONDITION = re.compile(r"(<=|>=|<>|<|>|=)\s*(-?\d+(?:\.\d+)?)")
_LAST_DAY = 2_958_466  # the day after 9999-12-31
_LONGEST = 255  # characters of a format; longer is no format


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class _Section:
    tokens: tuple[_Token, ...]
    condition: tuple[str, float] | None = None
    language: int = 9
    system: str = ""  # a date or a time as usual on the machine
    is_date: bool = False


def displayed(value: float, code: str, since_1904: bool = False) -> str:
    """``value`` under the format ``code``; what the format cannot show is given as it is."""
    if not code or len(code) > _LONGEST:
        return general(value)
    try:
        section, is_negative_form = _chosen(value, _sections(code))
        if section.is_date:
            return _date(value, section, since_1904)
        as_it_is = any(token.kind == "general" for token in section.tokens)
        shown = abs(value) if is_negative_form and not as_it_is else value
        return _number(shown, section.tokens).strip()
    except (ValueError, OverflowError, InvalidOperation, ZeroDivisionError):
        return general(value)


def displayed_text(text: str, code: str) -> str:
    """Text under a format, whose fourth section (or one with @) may add to it."""
    if "@" not in code or len(code) > _LONGEST:
        return text
    section = next((each for each in _sections(code) if any(token.kind == "text" for token in each.tokens)), None)
    if section is None:
        return text
    return "".join(text if token.kind == "text" else _literal(token) for token in section.tokens).strip()


def is_date(code: str) -> bool:
    """Whether the format shows a date or a time."""
    return len(code) <= _LONGEST and any(section.is_date for section in _sections(code))


def general(value: float) -> str:
    """A number without a format: its digits, without the noise of binary fractions."""
    if value != value or value in (float("inf"), float("-inf")):
        return str(value)
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    text = f"{value:.10g}"
    return text.replace("e", "E") if "e" in text else text


@lru_cache(maxsize=2000)
def _sections(code: str) -> tuple[_Section, ...]:
    parts = re.findall(r'(?:"[^"]*"?|\\.|\[[^\]]*\]|[_*].|[^;])+|(?<=;)(?=;|$)|^(?=;)', code, re.DOTALL)
    return tuple(_section(part) for part in parts[:4]) or (_section("General"),)


def _section(part: str) -> _Section:
    tokens: list[_Token] = []
    condition: tuple[str, float] | None = None
    language, system = 9, ""
    for match in _TOKEN.finditer(part):
        kind = match.lastgroup or "other"
        text = match[kind]
        if kind != "bracket":
            tokens.append(_Token(kind, text))
        elif found := _CONDITION.fullmatch(text):
            condition = found[1], float(found[2])
        elif text.startswith("$"):
            sign, _, locale = text[1:].partition("-")
            tokens += [_Token("quoted", sign)] if sign else []
            language, system = _locale(locale, language, system)
        elif re.fullmatch(r"h+|m+|s+", text, re.IGNORECASE):
            tokens.append(_Token("elapsed", text.lower()))
    kinds = {token.kind for token in tokens}
    dated = bool(kinds & {"date", "elapsed", "ampm"}) and "general" not in kinds and "text" not in kinds
    return _Section(tuple(tokens), condition, language, system, dated)


def _locale(code: str, language: int, system: str) -> tuple[int, str]:
    if code.upper() in ("F800", "X-SYSDATE"):
        return language, "date"
    if code.upper() in ("F400", "X-SYSTIME"):
        return language, "time"
    try:
        found = int(code, 16) & 0x3FF if code else language
    except ValueError:
        found = 10 if code.lower().startswith("es") else language
    return (found if found in _MONTHS else 9), system


def _chosen(value: float, sections: tuple[_Section, ...]) -> tuple[_Section, bool]:
    """The section that fits, and whether its form says itself that the number is negative."""
    if any(section.condition for section in sections):
        for section in sections[:3]:
            if section.condition is None or _meets(value, section.condition):
                return section, False
        return sections[-1], False
    numbers = [section for section in sections[:3] if not any(token.kind == "text" for token in section.tokens)]
    if not numbers:
        return _section("General"), False
    if value < 0 and len(numbers) > 1:
        return numbers[1], True
    if value == 0 and len(numbers) > 2:
        return numbers[2], False
    return numbers[0], False


def _meets(value: float, condition: tuple[str, float]) -> bool:
    sign, other = condition
    return {
        "<": value < other, ">": value > other, "=": value == other,
        "<=": value <= other, ">=": value >= other, "<>": value != other,
    }[sign]  # fmt: skip


def _literal(token: _Token) -> str:
    if token.kind in ("quoted", "escaped", "other", "slash", "comma", "point", "percent"):
        return token.text
    return " " if token.kind == "space" else ""


# -- numbers ----------------------------------------------------------------------------------


def _number(value: float, tokens: tuple[_Token, ...]) -> str:
    kinds = [token.kind for token in tokens]
    if "general" in kinds:
        body = general(abs(value))
        text = "".join(body if token.kind == "general" else _literal(token) for token in tokens)
        return f"-{text}" if value < 0 else text
    if "digit" not in kinds:
        return "".join(_literal(token) for token in tokens)
    if _is_fraction(tokens):
        return _fraction(value, tokens)
    last = len(kinds) - 1 - kinds[::-1].index("digit")
    whole_end = (
        kinds.index("point") if "point" in kinds else kinds.index("exponent") if "exponent" in kinds else last + 1
    )
    scaling = _scaling_commas(kinds, whole_end)
    amount = Decimal(repr(value)) * Decimal(100) ** kinds.count("percent") / Decimal(1000) ** scaling
    power = 0
    if "exponent" in kinds:
        amount, power = _scientific(amount, tokens, whole_end)
    places = kinds[whole_end : kinds.index("exponent") if "exponent" in kinds else len(kinds)].count("digit")
    rounded = abs(amount).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    digits, _, decimals = f"{rounded:f}".partition(".")
    negative = amount < 0 and bool(rounded)
    text = _filled(tokens, whole_end, digits, decimals) if "exponent" not in kinds else ""
    if "exponent" in kinds:
        text = _filled_scientific(tokens, whole_end, digits, decimals, power)
    return f"-{text}" if negative else text


def _is_fraction(tokens: tuple[_Token, ...]) -> bool:
    """Whether a slash stands between digits, those after it being asked for or given (# ?/8)."""
    slash = next((index for index, token in enumerate(tokens) if token.kind == "slash"), len(tokens))
    after = any(token.kind == "digit" or token.text.isdigit() for token in tokens[slash:])
    return after and any(token.kind == "digit" for token in tokens[:slash])


def _scaling_commas(kinds: list[str], whole_end: int) -> int:
    """Commas right after the last digit before or after the point: each divides by a thousand."""
    digits = [index for index, kind in enumerate(kinds) if kind == "digit"]
    ends = {max((index for index in digits if index < whole_end), default=-1), digits[-1]}
    return sum(len(list(takewhile(lambda kind: kind == "comma", kinds[end + 1 :]))) for end in ends)


def _filled(tokens: tuple[_Token, ...], whole_end: int, digits: str, decimals: str) -> str:
    """The digits laid into the places of the format, literals between them."""
    places = [index for index in range(whole_end) if tokens[index].kind == "digit"]
    grouped = bool(places) and any(token.kind == "comma" for token in tokens[places[0] : places[-1]])
    needed = sum(tokens[index].text == "0" for index in places)
    first_zero = next((len(places) - n for n, index in enumerate(places) if tokens[index].text == "0"), 0)
    digits = digits.lstrip("0").rjust(max(needed, first_zero), "0")
    laid = _laid_whole(places, digits, grouped)
    after = _laid_decimals(tokens, whole_end, decimals)
    text = ""
    for index, token in enumerate(tokens):
        if index in laid:
            text += laid[index]
        elif token.kind == "digit":
            text += after.get(index, "")
        elif token.kind == "point":
            text += "." if places else f"{digits}."  # whole digits are shown even where none are asked for
        elif token.kind != "comma":  # commas group or divide; they are not shown where they stand
            text += _literal(token)
    return text


def _laid_whole(places: list[int], digits: str, grouped: bool) -> dict[int, str]:
    """Digits before the point by place, filled from the right; the first place takes what is left."""
    laid: dict[int, str] = {}
    rest, done = digits, 0
    for index in reversed(places):
        taken = rest if index == places[0] else rest[-1:]
        rest = rest[: len(rest) - len(taken)]
        text = ""
        for digit in reversed(taken):
            text = digit + ("," if grouped and done and done % 3 == 0 else "") + text
            done += 1
        laid[index] = text
    return laid


def _laid_decimals(tokens: tuple[_Token, ...], point: int, decimals: str) -> dict[int, str]:
    places = [i for i in range(point, len(tokens)) if tokens[i].kind == "digit"][: len(decimals)]
    laid = dict(zip(places, decimals, strict=False))
    for index in reversed(places):
        if laid[index] != "0" or tokens[index].text != "#":
            break
        laid[index] = ""
    return laid


def _scientific(amount: Decimal, tokens: tuple[_Token, ...], whole_end: int) -> tuple[Decimal, int]:
    if amount == 0:
        return amount, 0
    width = max(1, sum(token.kind == "digit" for token in tokens[:whole_end]))
    power = amount.adjusted()
    power -= power % width if width > 1 else 0
    return amount.scaleb(-power), power


def _filled_scientific(tokens: tuple[_Token, ...], whole_end: int, digits: str, decimals: str, power: int) -> str:
    at = next(index for index, token in enumerate(tokens) if token.kind == "exponent")
    mantissa = _filled(tokens[:at], min(whole_end, at), digits, decimals)
    least = sum(token.kind == "digit" and token.text == "0" for token in tokens[at:])
    sign = "-" if power < 0 else "+" if tokens[at].text.endswith("+") else ""
    tail = "".join(_literal(token) for token in tokens[at + 1 :] if token.kind != "digit")
    return f"{mantissa}E{sign}{abs(power):0{max(1, least)}d}{tail}"


def _fraction(value: float, tokens: tuple[_Token, ...]) -> str:
    """3 1/4 under "# ?/?", 13/4 under "?/?", 3 4/16 under "# ??/16"."""
    slash = next(index for index, token in enumerate(tokens) if token.kind == "slash")
    below = "".join(token.text for token in tokens[slash + 1 :] if token.kind in ("digit", "other"))
    fixed = re.match(r"\d*[1-9]\d*", below)
    above = [token.kind for token in tokens[:slash]]
    mixed = re.search(r"digit(?:,digit)*,(?:other|quoted|escaped|space).*digit", ",".join(above)) is not None
    amount = Fraction(repr(abs(value)))
    whole = int(amount) if mixed else 0
    rest = amount - whole
    if fixed:
        part = (int(rest * int(fixed[0]) + Fraction(1, 2)), int(fixed[0]))
    else:
        nearest = rest.limit_denominator(10 ** max(1, len(below)) - 1)
        part = nearest.numerator, nearest.denominator
    if mixed and part[0] == part[1]:
        whole, part = whole + 1, (0, part[1])
    text = f"{part[0]}/{part[1]}" if part[0] or not mixed else ""
    text = " ".join(filter(None, (str(whole) if mixed and (whole or not text) else "", text)))
    return f"-{text}" if value < 0 else text


# -- dates ------------------------------------------------------------------------------------


def moment(serial: float, since_1904: bool = False) -> datetime:
    """A sheet's day count as a date and time, to the millisecond. ValueError outside the calendar."""
    if not 0 <= serial < _LAST_DAY:
        raise ValueError(f"{serial} is no day")
    early = datetime(1899, 12, 31) if serial < 60 else datetime(1899, 12, 30)  # it has a 29 February 1900
    return (datetime(1904, 1, 1) if since_1904 else early) + timedelta(milliseconds=round(serial * 86_400_000))


def _date(serial: float, section: _Section, since_1904: bool) -> str:
    when = moment(serial, since_1904)
    tokens = section.tokens
    if section.system:
        return when.strftime("%Y-%m-%d" if section.system == "date" else "%H:%M:%S")
    fraction = any(token.kind == "point" for token in tokens)
    if not fraction:
        when = (when + timedelta(milliseconds=500)).replace(microsecond=0)
    half_day = any(token.kind == "ampm" for token in tokens)
    text, seconds_seen = "", False
    for index, token in enumerate(tokens):
        if token.kind == "date":
            minutes = token.text[0] in "mM" and _is_minutes(tokens, index)
            text += _date_piece(token.text.lower(), when, minutes, half_day, section.language)
            seconds_seen = token.text[0] in "sS"
        elif token.kind == "elapsed":
            text += _elapsed(token.text, serial)
        elif token.kind == "ampm":
            marks = token.text.split("/")
            text += marks[when.hour >= 12]
        elif token.kind == "digit":
            place = sum(each.kind == "digit" for each in tokens[:index])
            text += f"{when.microsecond // 1000:03d}"[place : place + 1] if seconds_seen or fraction else ""
        else:
            text += _literal(token)
    return text.strip()


def _is_minutes(tokens: tuple[_Token, ...], index: int) -> bool:
    """An m after hours or before seconds counts minutes."""
    timed = [token for token in tokens[:index] if token.kind in ("date", "elapsed")]
    after = next((token for token in tokens[index + 1 :] if token.kind in ("date", "elapsed")), None)
    before_is_hour = bool(timed) and timed[-1].text[0] in "hH"
    return len(tokens[index].text) <= 2 and (before_is_hour or (after is not None and after.text[0] in "sS"))


def _date_piece(text: str, when: datetime, minutes: bool, half_day: bool, language: int) -> str:
    count = len(text)
    if text[0] == "y":
        return f"{when.year:04d}" if count > 2 else f"{when.year % 100:02d}"
    if text[0] == "m" and not minutes:
        month = _MONTHS[language].split()[when.month - 1]
        return {1: str(when.month), 2: f"{when.month:02d}", 3: month[:3], 5: month[:1]}.get(count, month)
    if text[0] == "d":
        day = _DAYS[language].split()[when.weekday()]
        return {1: str(when.day), 2: f"{when.day:02d}", 3: day[:3]}.get(count, day)
    hour = (when.hour % 12 or 12) if half_day else when.hour
    amount = {"h": hour, "m": when.minute, "s": when.second}[text[0]]
    return f"{amount:02d}" if count > 1 else str(amount)


def _elapsed(text: str, serial: float) -> str:
    seconds = round(serial * 86_400)
    amount = seconds // {"h": 3600, "m": 60, "s": 1}[text[0]]
    return f"{amount:0{len(text)}d}"
