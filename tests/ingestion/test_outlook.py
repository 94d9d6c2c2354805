"""Outlook messages: written here from the specification, and a real one that is encrypted."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ingestion.sources import Source, open_source
from ingestion.sources.mail.outlook import unpacked_rtf
from tests.documents import shared
from tests.ingestion.compound import Tree, compound, storage
from tests.ingestion.test_mail import LIMITS, SEALED, SIGNED, hanging, png, texts

SENT = int((datetime(2026, 3, 3, 9, 15, tzinfo=UTC) - datetime(1601, 1, 1, tzinfo=UTC)).total_seconds()) * 10**7
TO_LEO = storage(8, {0x3001: "Leo Gil", 0x39FE: "leo@example.org"}, {0x0C15: 1})
CC_EVA = storage(8, {0x3001: "Eva", 0x3003: "eva@example.org"}, {0x0C15: 2})


def attachment(name: str, data: bytes, kind: str = "", content_id: str = "") -> Tree:
    told = {0x3707: name, 0x370E: kind, 0x3712: content_id}
    return storage(8, {key: value for key, value in told.items() if value}, {0x3705: 1}) | {
        "__substg1.0_37010102": data
    }


def message(head: int = 32, html: bytes = b"", **more: Any) -> dict[str, Any]:
    told = {0x001A: "IPM.Note", 0x0037: "Presupuesto", 0x0C1A: "Begoña Núñez", 0x5D01: "begona@example.org"}
    told |= {0x1000: "El presupuesto es de 4.250 €.\r\n"} | more.pop("told", {})
    tree: dict[str, Any] = {**storage(head, told, {0x0039: SENT, 0x3FDE: 1252})}
    tree |= {"__recip_version1.0_#00000000": TO_LEO, "__recip_version1.0_#00000001": CC_EVA}
    tree |= {"__substg1.0_10130102": html} if html else {}
    return tree | more


def opened(folder: Path, tree: Tree) -> Source:
    path = folder / "mensaje.msg"
    path.write_bytes(compound(tree))
    return open_source(path, limits=LIMITS)


def test_who_wrote_to_whom_and_what(tmp_path: Path) -> None:
    with opened(tmp_path, message()) as source:
        assert source.media_type == "application/vnd.ms-outlook"
        assert texts(source) == [
            "Presupuesto",
            "From: Begoña Núñez <begona@example.org>\nTo: Leo Gil <leo@example.org>\nCc: Eva <eva@example.org>\n"
            "Date: Tue, 03 Mar 2026 09:15:00 +0000",
            "El presupuesto es de 4.250 €.",
        ]


def test_html_in_its_code_page_with_its_pictures(tmp_path: Path) -> None:
    html = "<p>El presupuesto es de <b>4.250 €</b>, señor.</p><img src='cid:placa@x'>".encode("cp1252")
    tree = message(html=html)
    tree["__attach_version1.0_#00000000"] = attachment("image001.png", png((60, 70)), "image/png", "placa@x")
    tree["__attach_version1.0_#00000001"] = attachment("señal.pdf", b"%PDF-1.4")
    with opened(tmp_path, tree) as source:
        assert texts(source)[2] == "El presupuesto es de 4.250 €, señor."
        assert len(source.page(1).pictures) == 1
        assert [each.about.path for each in hanging(source)] == ["señal.pdf"]
        assert hanging(source)[0].open().read() == b"%PDF-1.4"


def test_a_message_within_becomes_a_mail(tmp_path: Path) -> None:
    inner = message(24, told={0x0037: "Oferta/anterior", 0x1000: "Costaba 3.900 €."})
    inner["__attach_version1.0_#00000000"] = attachment("vieja.txt", b"Vieja.")
    tree = message()
    tree["__attach_version1.0_#00000000"] = {**storage(8, {0x3001: "x"}, {0x3705: 5}), "__substg1.0_3701000D": inner}
    with opened(tmp_path, tree) as source:
        (only,) = hanging(source)
        assert only.about.path == "Oferta-anterior.eml"
        mail = tmp_path / "dentro.eml"
        mail.write_bytes(only.open().read())
    with opened(tmp_path, tree) as again:
        assert hanging(again)[0].open().read() == mail.read_bytes()
    with open_source(mail, limits=LIMITS) as within:
        assert texts(within)[0] == "Oferta/anterior"
        assert texts(within)[-1] == "Costaba 3.900 €."
        assert [each.about.path for each in hanging(within)] == ["vieja.txt"]


def test_signed_and_encrypted_messages(tmp_path: Path) -> None:
    tree = message(told={0x001A: "IPM.Note.SMIME", 0x1000: ""})
    tree["__attach_version1.0_#00000000"] = attachment("smime.p7m", SIGNED, "application/pkcs7-mime")
    with opened(tmp_path, tree) as source:
        assert texts(source)[-1] == "El contrato firmado vence el 3 de junio."
    tree["__attach_version1.0_#00000000"] = attachment("smime.p7m", SEALED, "application/pkcs7-mime")
    with opened(tmp_path, tree) as source:
        assert texts(source)[0] == "Presupuesto"
        assert "is encrypted" in source.damage


def test_a_real_encrypted_message_says_so() -> None:
    with open_source(shared("broken_or_hostile/fake-encrypted.msg"), limits=LIMITS) as source:
        assert "is encrypted" in source.damage
        assert "Michael Elkins <elkins@aero.org>" in texts(source)[0]
        assert "BEGIN PGP" not in "".join(texts(source))
        assert not hanging(source)


def test_rich_text_as_outlook_packs_it(tmp_path: Path) -> None:
    assert unpacked_rtf(bytes.fromhex(
        "2d0000002b0000004c5a4675f1c5c7a703000a007263706731323542320af32068656c090020627705b06c647d0a800fa0"
    )) == b"{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n"  # fmt: skip
    assert unpacked_rtf(bytes.fromhex("1a0000001c0000004c5a4675e2d44b51410004205758595a0d6e7d010eb0")) == (
        b"{\\rtf1 WXYZWXYZWXYZWXYZWXYZ}"
    )
    body = bytes.fromhex(
        "2d0000002b0000004c5a4675f1c5c7a703000a007263706731323542320af32068656c090020627705b06c647d0a800fa0"
    )
    tree = message(told={0x1000: ""}) | {"__substg1.0_10090102": body}
    with opened(tmp_path, tree) as source:
        assert texts(source)[-1] == "hello world"
