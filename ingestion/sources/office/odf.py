"""OpenDocument files (ODT, ODS, ODP and their templates): which of the three a file is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from assistant.core.errors import EncryptedFile, UnsupportedFile
from assistant.core.settings import LimitSettings
from ingestion.sources.package import Package

if TYPE_CHECKING:
    from ingestion.sources import Source


def open_odf(path: Path, name: str, limits: LimitSettings) -> Source:
    """An OpenDocument file as a source of its kind. BadInput."""
    package = Package(path, name, limits)
    try:
        kind = package.data("mimetype")[:200].decode("ascii", "replace").strip().rpartition(".")[2]
        _refuse_encrypted(package)
        return _opened(package, kind.removesuffix("-template"), limits)
    except BaseException:
        package.close()
        raise


def _opened(package: Package, kind: str, limits: LimitSettings) -> Source:
    if kind.startswith("text"):
        from ingestion.sources.office.odt import OdtSource

        return OdtSource(package, limits)
    if kind == "spreadsheet":
        from ingestion.sources.office.ods import OdsSource

        return OdsSource(package, limits)
    if kind in ("presentation", "graphics"):
        from ingestion.sources.office.odp import OdpSource

        return OdpSource(package, kind, limits)
    raise UnsupportedFile(f"{package.name} is an OpenDocument {kind}, which is not read")


def _refuse_encrypted(package: Package) -> None:
    manifest = package.tree_if_sound("META-INF/manifest.xml")
    if manifest is not None and next(manifest.iter("manifest:encryption-data"), None) is not None:
        raise EncryptedFile(
            f"{package.name} is an OpenDocument file behind a password", "Save a copy without one and send that"
        )
