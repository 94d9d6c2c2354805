"""Which kind of recording a file is, by its first bytes."""

from __future__ import annotations

# By how the file begins; what shares its beginning with others is told apart below.
_BEGINNINGS = (
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"FLV\x01", "video/x-flv"),
    (b"0&\xb2u\x8ef\xcf\x11", "video/x-ms-asf"),
    (b"\x00\x00\x01\xba", "video/mpeg"),
    (b"#!AMR", "audio/amr"),
    (b"\xff\xf1", "audio/aac"),
    (b"\xff\xf9", "audio/aac"),
)
_MP3_FRAMES = (b"\xff\xfb", b"\xff\xfa", b"\xff\xf3", b"\xff\xf2", b"\xff\xe3", b"\xff\xe2")


def recording_type(head: bytes) -> str | None:
    """The media type of a recording that begins with ``head``; None for anything else. MP4 is ``boxed_type``'s."""
    if head[:4] in (b"RIFF", b"RF64"):
        return {b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}.get(head[8:12])
    if head.startswith(b"\x1aE\xdf\xa3"):
        return "video/x-matroska" if b"matroska" in head[:64] else "video/webm"
    if head.startswith(_MP3_FRAMES):
        return "audio/mpeg"
    return next((kind for mark, kind in _BEGINNINGS if head.startswith(mark)), None)


def boxed_type(brand: bytes) -> str:
    """The media type of an MP4 by its major brand."""
    if brand in (b"M4A ", b"M4B ", b"M4P "):
        return "audio/mp4"
    return "video/quicktime" if brand == b"qt  " else "video/mp4"
