"""Mail as pages: its heading, the better of its texts, the pictures in it, and what hangs on it."""

from __future__ import annotations

import base64
import io
import random
import re
from email.message import EmailMessage, Message
from email.mime.application import MIMEApplication
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from pathlib import Path

import pytest
from PIL import Image

from assistant.core.domain import BlockKind
from assistant.core.errors import UnreadableFile
from assistant.core.settings import LimitSettings
from ingestion.sources import Source, open_source
from ingestion.sources.enclosed import Container, Enclosed
from ingestion.sources.mail.mime import open_mail
from tests.documents import DATA, shared

LIMITS = LimitSettings()
# Made by `openssl cms -sign -nodetach -stream` over "El contrato firmado vence el 3 de junio.", and by
# `openssl smime -encrypt`.
SIGNED = base64.b64decode(
    "MIAGCSqGSIb3DQEHAqCAMIACAQExDTALBglghkgBZQMEAgEwgAYJKoZIhvcNAQcBoIAkgARVQ29udGVudC1UeXBlOiB0ZXh0L3BsYWluOyBjaG"
    "Fyc2V0PXV0Zi04DQoNCkVsIGNvbnRyYXRvIGZpcm1hZG8gdmVuY2UgZWwgMyBkZSBqdW5pby4NCgAAAAAAAKCCAfwwggH4MIIBYaADAgECAhRj"
    "EF/XlC/wmwbcIuHXJ+7udfIa6DANBgkqhkiG9w0BAQsFADAOMQwwCgYDVQQDDANBbmEwHhcNMjYxMTI5MTk0NjIxWhcNMzUwMjE1MTk0NjIxWj"
    "AOMQwwCgYDVQQDDANBbmEwgZ8wDQYJKoZIhvcNAQEBBQADgY0AMIGJAoGBALckWUYkaAmBJdDoCqRbb0WX0v85mJshv9TLSGe1wlBip/PCH4Xy"
    "gwMfyqu3XayLJMIsfBZzdyup/0ujdyOwuOg4ZN3a4xJGE3tOtjXwwZkrYSMBdqoVaVJFVhGx/FiKPDVBSeaUPdFZYSyvYi65f++H26vpK/PrKQ"
    "j84onfH6whAgMBAAGjUzBRMB0GA1UdDgQWBBR5W9PeIGBk5HnTfVbiL+NEcMolGDAfBgNVHSMEGDAWgBR5W9PeIGBk5HnTfVbiL+NEcMolGDAP"
    "BgNVHRMBAf8EBTADAQH/MA0GCSqGSIb3DQEBCwUAA4GBACeBMcuz54eMcBo6YuZmfMg45KeqI6JFAyNXEcoQ7cvN7UkWa+SvZA7mS93gK3xEEh"
    "vcnatuuxhUw78v2FJ17OFz7RTpiQ1XS4K2zsn7oCaX/T3LeU2YUXbBXXUkvyhZbhw0w1PL4nY2DXwlVJIrB0n4FCJkt7cCyfEdrijCd0xFMYIB"
    "tTCCAbECAQEwJjAOMQwwCgYDVQQDDANBbmECFGMQX9eUL/CbBtwi4dcn7u518hroMAsGCWCGSAFlAwQCAaCB5DAYBgkqhkiG9w0BCQMxCwYJKo"
    "ZIhvcNAQcBMBwGCSqGSIb3DQEJBTEPFw0yNjExMjkxOTQ2MjFaMC8GCSqGSIb3DQEJBDEiBCCytKuJFNiUJoVOtG+RTTevDegbgaGq1caAlKc+"
    "HUYw4TB5BgkqhkiG9w0BCQ8xbDBqMAsGCWCGSAFlAwQBKjALBglghkgBZQMEARYwCwYJYIZIAWUDBAECMAoGCCqGSIb3DQMHMA4GCCqGSIb3DQ"
    "MCAgIAgDANBggqhkiG9w0DAgIBQDAHBgUrDgMCBzANBggqhkiG9w0DAgIBKDANBgkqhkiG9w0BAQEFAASBgGaXbOxWQOKL2+5CKA7E4dgVlrBG"
    "PTFSyb4pzwn0sV68en3yNNzru+fSuQry0R47woRf0qA7I2eDSeSnQ/gjX1G/DkNEftaZFW+jQG2fexfKcDmrhuIW4m4tLnB5mDD5WQ4VPxHWez"
    "ipp9go9PGnFlfa5uBfwOvV0e723de6BSf6AAAAAAAA"
)
SEALED = base64.b64decode(
    "MIIBVgYJKoZIhvcNAQcDoIIBRzCCAUMCAQAxgcAwgb0CAQAwJjAOMQwwCgYDVQQDDANBbmECFGMQX9eUL/CbBtwi4dcn7u518hroMA0GCSqGSI"
    "b3DQEBAQUABIGABFpY3TF/8hhm7YfQS2JpEZA6jAAzbPjY9jZnho8HW964DLpXQxQHBR3AZ+sXYIpGCrcWWDxAh+yl5xjYcgh+9bpXVUGwdAMe"
    "I/92XADxPvnLFlCWJbz5i7OSvZEZ0YZp36Xq8M8bs0tN2QvMvQLvVHQx7tQM7ujRzolOGXBluj4wewYJKoZIhvcNAQcBMBQGCCqGSIb3DQMHBA"
    "haLUSc70pVuYBYpbYczFT+q7auvnsQ1QosQI4+roBRUrU6QDp/fPizc086tew0Sn60pznDGea9a+4SRnt2ayUCXOH3b6JarWhJh6rRHK5+t/wg"
    "UIN1/y/OxeVh/mHnCldoPQ=="
)


def opened(folder: Path, mail: Message | bytes, name: str = "mail.eml") -> Source:
    path = folder / name
    path.write_bytes(mail if isinstance(mail, bytes) else mail.as_bytes())
    return open_source(path, limits=LIMITS)


def texts(source: Source) -> list[str]:
    return [block.text for number in range(1, source.page_count + 1) for block in source.page(number).blocks]


def hanging(source: Source) -> list[Enclosed]:
    assert isinstance(source, Container)
    return list(source.enclosed)


def letter(subject: str = "Presupuesto de la caldera", text: str = "El presupuesto es de 4.250 €.\n") -> EmailMessage:
    mail = EmailMessage()
    mail["From"] = "Begoña Núñez <begona@example.org>"
    mail["To"] = "Íñigo Peña <inigo@example.org>"
    mail["Date"] = "Tue, 3 Mar 2026 10:15:00 +0100"
    mail["Subject"] = subject
    mail.set_content(text)
    return mail


def png(size: tuple[int, int] = (300, 200)) -> bytes:
    held = io.BytesIO()
    Image.new("RGB", size, "red").save(held, "PNG")
    return held.getvalue()


def test_a_real_mail_says_what_its_truth_says() -> None:
    with open_source(shared("office/eng_spa_mult.eml"), limits=LIMITS) as source:
        assert source.media_type == "message/rfc822"
        subject, headers, *body = texts(source)
    assert subject == "Test email with multiple languages"
    assert headers.splitlines()[0] == "From: John <johnjennings702@gmail.com>"
    assert headers.splitlines()[-1] == "Date: Wed, 4 Oct 2023 09:27:45 -0500"
    truth = shared("gt/text_layer/eng_spa_mult.txt").read_text("utf-8")
    assert re.findall(r"\w+", " ".join(body)) == re.findall(r"\w+", truth)


def test_the_better_of_two_texts_is_read_once(tmp_path: Path) -> None:
    mail = letter()
    mail.add_alternative(
        "<p>El presupuesto es de <b>4.250 €</b>.</p><blockquote>¿Cuánto es?</blockquote>", subtype="html"
    )
    with opened(tmp_path, mail) as source:
        page = source.page(1)
        assert [(block.kind, block.text) for block in page.blocks] == [
            (BlockKind.HEADING, "Presupuesto de la caldera"),
            (
                BlockKind.PARAGRAPH,
                "From: Begoña Núñez <begona@example.org>\nTo: Íñigo Peña <inigo@example.org>\n"
                "Date: Tue, 03 Mar 2026 10:15:00 +0100",
            ),
            (BlockKind.PARAGRAPH, "El presupuesto es de 4.250 €."),
            (BlockKind.PARAGRAPH, "¿Cuánto es?"),
        ]


def test_html_that_says_less_than_the_plain_text_gives_way(tmp_path: Path) -> None:
    mail = letter()
    mail.add_alternative("<img src='https://example.org/news.png'><p>Ver</p>", subtype="html")
    with opened(tmp_path, mail) as source:
        assert "El presupuesto es de 4.250 €." in texts(source)


def test_attachments_and_mails_within_hang_on_it(tmp_path: Path) -> None:
    mail, inner = letter(), letter("Oferta anterior", "Costaba 3.900 €.\n")
    mail.add_attachment(b"%PDF-1.4 ...", maintype="application", subtype="pdf", filename="señal 1.pdf")
    mail.add_attachment("a;b\n1;2\n", filename="../../etc/datos.csv")
    mail.add_attachment("a;b\n3;4\n", filename="datos.csv")
    mail.add_attachment(inner)
    mail.add_attachment(b"\x01", maintype="application", subtype="octet-stream")
    with opened(tmp_path, mail) as source:
        found = hanging(source)
        assert [each.about.path for each in found] == [
            "señal 1.pdf",
            "etc/datos.csv",
            "datos.csv",
            "Oferta anterior.eml",
            "attachment",
        ]
        assert found[0].open().read() == b"%PDF-1.4 ..."
        assert "Attachments: señal 1.pdf (12 bytes), etc/datos.csv (8 bytes)" in texts(source)[1]
        assert "3.900" not in "".join(texts(source))
        with opened(tmp_path, found[3].open().read(), "inner.eml") as within:
            assert texts(within)[-1] == "Costaba 3.900 €."


def test_pictures_shown_in_the_text_are_no_attachments(tmp_path: Path) -> None:
    mail = letter()
    html = '<p>Mire la placa:</p><img src="cid:placa@x" alt="Placa"><p>Gracias</p>'
    mail.add_alternative(html, subtype="html")
    payload = mail.get_payload()
    assert isinstance(payload, list)
    payload[1].add_related(png(), "image", "png", cid="<placa@x>", filename="image001.png")
    mail.add_attachment(png((50, 60)), maintype="image", subtype="png", filename="plano.png")
    with opened(tmp_path, mail) as source:
        assert [each.about.path for each in hanging(source)] == ["plano.png"]
        page = source.page(1)
        (box,) = page.pictures
        drawn = page.render(100)
        assert drawn.getpixel((int((box.x0 + 0.05) * drawn.width), int((box.y0 + 0.02) * drawn.height))) == (255, 0, 0)


def test_two_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    mail = letter()
    for text in ("uno", "dos"):
        mail.add_attachment(text, filename="nota.txt")
    with opened(tmp_path, mail) as source:
        assert [each.about.path for each in hanging(source)] == ["nota.txt", "nota (2).txt"]


@pytest.mark.parametrize(
    "raw",
    [
        b"From: a@b.c\nTo: d@e.f\nSubject: =?iso-8859-1?Q?A=F1o?= =?utf-8?B?IG51ZXZv?=\n\nTexto\n",
        "From: a@b.c\nTo: d@e.f\nSubject: Año nuevo\n\nTexto\n".encode(),
        "From: a@b.c\r\nTo: d@e.f\r\nSubject: Año\r\n nuevo\r\n\r\nTexto\r\n".encode("cp1252"),
        b"Received: from x by y; Tue, 3 Mar 2026 10:15:00\nX-Note: 1\nSubject: =?utf-8?Q?A=C3=B1o_nuevo?=\n\nTexto\n",
        b"From a@b.c Tue Mar  3 10:15\nFrom: a@b.c\nSubject: =?UTF-8?Q?A=C3=B1o?=\n =?UTF-8?Q?_nuevo?=\n\nTexto\n",
    ],
)
def test_subjects_however_they_are_written(raw: bytes, tmp_path: Path) -> None:
    with opened(tmp_path, raw) as source:
        assert source.media_type == "message/rfc822"
        assert texts(source)[0] == "Año nuevo"
        assert texts(source)[-1] == "Texto"


def test_flowed_text_is_put_together(tmp_path: Path) -> None:
    raw = b"From: a@b.c\nTo: d@e.f\nContent-Type: text/plain; format=flowed\n\nUna frase \nlarga.\n> cita \n> vieja\n"
    with opened(tmp_path, raw) as source:
        assert texts(source)[-1] == "Una frase larga.\n> cita vieja"


def sealed(data: bytes, kind: str) -> Message:
    mail = MIMEApplication(data, "pkcs7-mime", name="smime.p7m", smime_type=kind)
    mail["From"], mail["To"], mail["Subject"] = "a@b.c", "d@e.f", "Contrato"
    return mail


def test_a_signed_mail_is_read_through_its_signature(tmp_path: Path) -> None:
    with opened(tmp_path, sealed(SIGNED, "signed-data")) as source:
        assert texts(source)[-1] == "El contrato firmado vence el 3 de junio."
        assert not source.damage
    clear = MIMEMultipart(
        "signed", protocol="application/pkcs7-signature", _subparts=[MIMEText("Firmado."), sealed(b"", "x")]
    )
    clear["From"], clear["To"] = "a@b.c", "d@e.f"
    clear.get_payload()[1].replace_header("Content-Type", "application/pkcs7-signature; name=smime.p7s")
    with opened(tmp_path, clear) as source:
        assert texts(source)[-1] == "Firmado."
        assert not hanging(source)


def test_an_encrypted_mail_says_so_and_keeps_its_heading(tmp_path: Path) -> None:
    with opened(tmp_path, sealed(SEALED, "enveloped-data")) as source:
        assert texts(source)[0] == "Contrato"
        assert "is encrypted" in source.damage


def test_two_hundred_attachments_are_all_named(tmp_path: Path) -> None:
    mail = letter()
    for number in range(200):
        mail.add_attachment(f"nota {number}", filename=f"nota{number}.txt")
    with opened(tmp_path, mail) as source:
        assert len(hanging(source)) == 200
        assert "nota199.txt" in "".join(texts(source))


@pytest.mark.parametrize(
    "raw",
    [
        b"From: a@b.c\nTo: d@e.f\nContent-Type: multipart/mixed\n\nno boundary\n",
        b"From: a@b.c\nTo: d@e.f\nContent-Type: text/plain; charset=klingon\nContent-Transfer-Encoding: base64\n\n!!!",
        b"From: a@b.c\nTo: =?utf-8?B?//////=?=\nSubject: =?x?Q?=?=\nContent-Type: text/html\n\n<p>hola",
        b"From: a@b.c\nTo: d@e.f\nContent-Type: multipart/mixed; boundary=x\n\n--x\nContent-Type: text/plain\n\ncut",
    ],
)
def test_broken_mail_gives_what_it_has(raw: bytes, tmp_path: Path) -> None:
    with opened(tmp_path, raw) as source:
        assert "From: a@b.c" in "\n".join(texts(source))


def test_mail_of_any_bytes_never_crashes(tmp_path: Path) -> None:
    whole = letter()
    whole.add_attachment(letter("Dentro"))
    data = whole.as_bytes()
    dice = random.Random(4)
    for _ in range(150):
        broken = bytearray(data)
        for _ in range(20):
            broken[dice.randrange(120, len(broken))] = dice.randrange(256)
        path = tmp_path / "mail.eml"
        path.write_bytes(broken)
        with open_mail(path, "mail.eml", LIMITS) as source:
            assert texts(source)


def test_a_saved_page_is_a_page_with_its_pictures() -> None:
    with open_source(DATA / "office/saved_page.mhtml", limits=LIMITS) as source:
        assert source.media_type == "multipart/related"
        page = source.page(1)
        assert [(block.kind, block.text) for block in page.blocks] == [
            (BlockKind.HEADING, "Convocatoria 7/2026"),
            (BlockKind.PARAGRAPH, "El plazo de solicitudes termina el 14 de mayo a las 15:00."),
            (BlockKind.FIGURE, "Sello del registro"),
            (BlockKind.TABLE, "| Plaza | Sueldo |\n| --- | --- |\n| Archivera | 31.500 € |"),
            (BlockKind.PARAGRAPH, "Escrito por el programa."),
        ]
        assert len(page.pictures) == 1


def test_notes_that_look_a_little_like_mail_stay_notes(tmp_path: Path) -> None:
    for text in (
        b"Subject: x\nDate: y\n\nz",
        b"From: here to there\nis a long way\n",
        b"Note: to: from\n",
        b"to: a\nfrom\n\n",
    ):
        with opened(tmp_path, text, "note.txt") as source:
            assert source.media_type == "text/plain"


def test_mails_nested_without_end_are_refused_in_words(tmp_path: Path) -> None:
    head = b"From: a@b.c\nTo: d@e.f\nSubject: x\n"
    boxes = head + b"".join(f"Content-Type: multipart/mixed; boundary=b{n}\n\n--b{n}\n".encode() for n in range(1500))
    mails = head + (b"Content-Type: message/rfc822\n\n" + head) * 1000
    for raw in (boxes + b"\nhola\n", mails + b"\nhola\n"):
        with pytest.raises(UnreadableFile, match="mails within mails"):
            opened(tmp_path, raw)
    flat = b"--b\nContent-Type: text/plain\n\nhola\n" * 12_000
    with opened(tmp_path, head + b"Content-Type: multipart/mixed; boundary=b\n\n" + flat) as source:
        assert "Only the first 10000 parts" in source.damage
