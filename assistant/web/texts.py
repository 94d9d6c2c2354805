"""What the chat says by itself, in English and Spanish, chosen by the browser's language."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from assistant.core.errors import (
    AccessDenied,
    DiskFull,
    EmptyFile,
    EncryptedFile,
    EndpointBusy,
    EndpointDown,
    NotFound,
    PeritoError,
    SignInNeeded,
    StoreBusy,
    TooLarge,
    TooManyAttempts,
    UnreadableFile,
    UnsupportedFile,
    WorkerDied,
)
from assistant.web.spanish import SPANISH_SENTENCES


@dataclass(frozen=True, slots=True)
class Texts:
    """One language's texts. ``labels`` go to the elements in the browser."""

    language: str
    reading_one: str
    reading_many: str
    already_there: str
    none_accepted: str
    still_reading: str
    documents_command: str
    documents_hint: str
    documents_none: str
    documents_count: str
    starter_documents: str
    starter_help: str
    help: str
    stopped: str
    defect: str
    files_gone: str
    collection: str
    every_collection: str
    labels: dict[str, Any]


ENGLISH = Texts(
    language="en",
    reading_one="Reading **{name}**. You can ask about each page as soon as it is read.",
    reading_many="Reading {count} documents. You can ask about each page as soon as it is read.",
    already_there="**{name}** is already here, unchanged.",
    none_accepted="Nothing was added.",
    still_reading="Some pages are still being read. Ask again when they are done.",
    documents_command="Documents",
    documents_hint="Show what is here and how it was read",
    documents_none=(
        "There are no documents yet. Drop PDF files, scans, photos, office files or mail here and send them."
    ),
    documents_count="{count} documents.",
    starter_documents="Show my documents",
    starter_help="How does this work?",
    help=(
        "Drop PDF files, scans, photos, office files or mail into this conversation and send them. Each page is read "
        "on its own: by the file's own text where that is sound, otherwise by OCR, and by a vision model where one is "
        "set up. As soon as a page is read you can ask about it.\n\n"
        "Every number in an answer opens the page it was read on, with the passage marked, how it was read, and how "
        "sure that reading is. To ask about a picture without keeping it, send it together with your question."
    ),
    stopped="Stopped.",
    defect="Something went wrong inside Perito. Its log says what. Try again, and report it if it happens again.",
    files_gone="The file is no longer at hand. Send it again.",
    collection="Collection",
    every_collection="All collections",
    labels={
        "sources": "Sources",
        "nearest": "Nearest passages, which do not answer it",
        "source": "Source {number}",
        "page": "page {page}",
        "reader": "How the page was read",
        "readers": {
            "text": "own text",
            "ocr": "OCR",
            "vlm": "vision model",
            "speech": "speech",
            "mixed": "own text and OCR",
            "none": "–",
        },
        "confidence": "{percent} % sure",
        "corrected": "corrected",
        "corrected_by": "Corrected by {who}",
        "of": "{number} of {count}",
        "previous": "Previous source",
        "next": "Next source",
        "enlarge": "Enlarge",
        "fit": "Whole page",
        "open": "Open in a new tab",
        "picture": "The page, with the passage marked",
        "gone": "This page cannot be shown. The document may have been deleted.",
        "add": "Add to documents",
        "added": "Added to documents",
        "documents": "Documents",
        "none": "No documents.",
        "all": "Show all {count}",
        "statuses": {
            "queued": "waiting",
            "reading": "reading",
            "complete": "read",
            "partial": "read in part",
            "failed": "not read",
            "gone": "deleted",
        },
        "page_statuses": {"read": "read", "low_confidence": "unsure", "blank": "blank", "failed": "not read"},
        "progress": "{done} of {pages} pages",
        "waiting": "Waiting for its turn",
        "sentences": {},  # what is kept is kept in English
        "pages": "{pages} pages",
        "one_page": "1 page",
        "show_pages": "Pages",
        "hide_pages": "Hide pages",
        "reread": "Read again",
        "delete": "Delete",
        "really_delete": "Delete for good",
        "keep": "Keep",
        "rejected": "not added",
        "password": "Password",
        "password_for": "Password of {name}",
        "unlock": "Open",
    },
)

SPANISH = Texts(
    language="es",
    reading_one="Leyendo **{name}**. Puedes preguntar por cada página en cuanto esté leída.",
    reading_many="Leyendo {count} documentos. Puedes preguntar por cada página en cuanto esté leída.",
    already_there="**{name}** ya está aquí, sin cambios.",
    none_accepted="No se ha añadido nada.",
    still_reading="Todavía se están leyendo páginas. Vuelve a preguntar cuando estén leídas.",
    documents_command="Documentos",
    documents_hint="Muestra qué hay y cómo se leyó",
    documents_none=(
        "Aún no hay documentos. Suelta aquí archivos PDF, escaneos, fotos, archivos de oficina o correos y envíalos."
    ),
    documents_count="{count} documentos.",
    starter_documents="Muestra mis documentos",
    starter_help="¿Cómo funciona esto?",
    help=(
        "Suelta archivos PDF, escaneos, fotos, archivos de oficina o correos en esta conversación y envíalos. Cada "
        "página se lee por separado: con el texto propio del archivo si es fiable, si no con OCR, y con un modelo "
        "de visión si hay uno configurado. En cuanto una página está leída puedes preguntar por ella.\n\n"
        "Cada número de una respuesta abre la página donde se leyó, con el pasaje marcado, cómo se leyó y qué "
        "seguridad tiene esa lectura. Para preguntar por una imagen sin guardarla, envíala junto con tu pregunta."
    ),
    stopped="Detenido.",
    defect="Algo ha fallado dentro de Perito. Su registro dice qué. Inténtalo de nuevo y avisa si vuelve a pasar.",
    files_gone="El archivo ya no está disponible. Envíalo de nuevo.",
    collection="Colección",
    every_collection="Todas las colecciones",
    labels={
        "sources": "Fuentes",
        "nearest": "Pasajes más cercanos, que no la responden",
        "source": "Fuente {number}",
        "page": "página {page}",
        "reader": "Cómo se leyó la página",
        "readers": {
            "text": "texto propio",
            "ocr": "OCR",
            "vlm": "modelo de visión",
            "speech": "habla",
            "mixed": "texto propio y OCR",
            "none": "–",
        },
        "confidence": "{percent} % de seguridad",
        "corrected": "corregido",
        "corrected_by": "Corregido por {who}",
        "of": "{number} de {count}",
        "previous": "Fuente anterior",
        "next": "Fuente siguiente",
        "enlarge": "Ampliar",
        "fit": "Página entera",
        "open": "Abrir en otra pestaña",
        "picture": "La página, con el pasaje marcado",
        "gone": "Esta página no se puede mostrar. Puede que el documento se haya eliminado.",
        "add": "Añadir a los documentos",
        "added": "Añadida a los documentos",
        "documents": "Documentos",
        "none": "No hay documentos.",
        "all": "Mostrar los {count}",
        "statuses": {
            "queued": "en espera",
            "reading": "leyendo",
            "complete": "leído",
            "partial": "leído en parte",
            "failed": "no leído",
            "gone": "eliminado",
        },
        "page_statuses": {"read": "leída", "low_confidence": "dudosa", "blank": "en blanco", "failed": "no leída"},
        "progress": "{done} de {pages} páginas",
        "waiting": "Espera su turno",
        "sentences": SPANISH_SENTENCES,
        "pages": "{pages} páginas",
        "one_page": "1 página",
        "show_pages": "Páginas",
        "hide_pages": "Ocultar páginas",
        "reread": "Leer de nuevo",
        "delete": "Eliminar",
        "really_delete": "Eliminar para siempre",
        "keep": "Conservar",
        "rejected": "no añadido",
        "password": "Contraseña",
        "password_for": "Contraseña de {name}",
        "unlock": "Abrir",
    },
)

# The errors themselves speak English. In Spanish the kind of error is told, with the file where one is named.
SPANISH_ERRORS: tuple[tuple[type[PeritoError], str], ...] = (
    (EmptyFile, "Está vacío. Compruébalo en su origen y envíalo de nuevo."),
    (UnsupportedFile, "Su formato no se puede leer. Conviértelo a PDF o a imagen y envíalo de nuevo."),
    (EncryptedFile, "Necesita su contraseña."),
    (UnreadableFile, "Está dañado. Ábrelo en el programa que lo hizo, guárdalo otra vez y envía la copia nueva."),
    (TooLarge, "Es demasiado grande. Divídelo en partes más pequeñas."),
    (DiskFull, "No queda sitio en el disco. Libera espacio; lo ya aceptado no se pierde."),
    (NotFound, "No existe, o no para ti."),
    (AccessDenied, "No tienes acceso. Pídelo a quien administra este Perito."),
    (SignInNeeded, "Tu sesión ha terminado. Inicia sesión de nuevo."),
    (TooManyAttempts, "Demasiadas contraseñas incorrectas. Espera un minuto."),
    (EndpointDown, "El modelo de lenguaje no responde. Comprueba que está en marcha y vuelve a intentarlo."),
    (EndpointBusy, "El modelo de lenguaje está ocupado. Vuelve a intentarlo dentro de un momento."),
    (StoreBusy, "Otro proceso está usando los datos. Vuelve a intentarlo dentro de un momento."),
    (WorkerDied, "El OCR se ha interrumpido. Vuelve a intentarlo."),
)


def texts_for(language: str | None) -> Texts:
    """By a browser's language tag, e.g. ``es-MX``; English where it is neither."""
    return SPANISH if (language or "").lower().split("-")[0] == "es" else ENGLISH


def explain(error: PeritoError, texts: Texts) -> str:
    """The error for a person, in their language. In the chat nobody can type ``--password``."""
    if texts is ENGLISH:
        if isinstance(error, EncryptedFile):
            return f"{error.message}."
        return str(error)
    for kind, sentence in SPANISH_ERRORS:
        if isinstance(error, kind):
            return sentence
    return str(error)


LINK = re.compile(r"\[\\\[(\d+)\\\]\]\([^)\s]*\)")


def without_links(text: str) -> str:
    """A message as it was answered: ``[1]`` again where the chat shows a link."""
    return LINK.sub(r"[\1]", text)
