"""The sentences that are kept in English, in Spanish: English form, Spanish form. The first that fits is taken."""

from __future__ import annotations

SPANISH_REASONS = {
    "The page is a picture.": "La página es una imagen.",
    "The file is text.": "El archivo es texto.",
    "The file is text; its pictures are read by OCR.": "El archivo es texto; sus imágenes se leen por OCR.",
    "The page is blank: there is no ink on it.": "La página está en blanco: no hay tinta en ella.",
    "Its own text is sound.": "Su propio texto es fiable.",
    "Its own text is sound; its pictures are read by OCR.": "Su propio texto es fiable; sus imágenes se leen por OCR.",
    "The page has no text of its own that can be seen.": "La página no tiene texto propio que se vea.",
    "The glyphs of its text layer have no letters.": "Los glifos de su capa de texto no corresponden a letras.",
    "The letters of its text layer make no words.": "Las letras de su capa de texto no forman palabras.",
    "It is a scan: its text lies hidden under a picture.": "Es un escaneo: su texto está oculto bajo una imagen.",
    "It shows more than its few letters explain.": "Muestra más de lo que explican sus pocas letras.",
    "Lines of its text lie on each other, so the look of the page orders them.": (
        "Hay líneas de su texto unas sobre otras, así que las ordena el aspecto de la página."
    ),
    "A picture on the page may hold text.": "Una imagen de la página puede contener texto.",
    "What is said in this stretch was written down by the transcription endpoint.": (
        "Lo que se dice en este tramo lo transcribió el servicio de transcripción."
    ),
    "Nobody says anything in this stretch.": "En este tramo nadie dice nada.",
    "The transcription endpoint is unsure of what is said.": "El servicio de transcripción no está seguro de lo dicho.",
    "A VLM has read it.": "La ha leído un modelo de visión.",
    "There is ink on the page, but no text was found.": "Hay tinta en la página, pero no se encontró texto.",
    "No text and hardly any ink was found.": "No se encontró texto y apenas hay tinta.",
    "No reader found text on it.": "Ningún lector encontró texto en ella.",
    "The OCR is unsure of its text.": "El OCR no está seguro de su texto.",
    "The OCR is unsure of many lines.": "El OCR no está seguro de muchas líneas.",
    "Much ink is not explained by text.": "Hay mucha tinta que el texto no explica.",
    "It seems to be written by hand.": "Parece escrita a mano.",
    "It holds a table with merged cells.": "Contiene una tabla con celdas combinadas.",
    "It holds a figure.": "Contiene una figura.",
    "It holds a drawing or a chart.": "Contiene un dibujo o un gráfico.",
    "It holds a picture.": "Contiene una imagen.",
    "Somebody marked it as misread.": "Alguien la marcó como mal leída.",
    "Good enough.": "Suficiente.",
}

_ADVICE = {
    "Check the file at its source and send it again.": "Compruébalo en su origen y envíalo de nuevo.",
    "Convert it to PDF or to an image and send it again.": "Conviértelo a PDF o a imagen y envíalo de nuevo.",
    "Open it in the program that made it, save it again, and send the new copy.": (
        "Ábrelo en el programa que lo hizo, guárdalo otra vez y envía la copia nueva."
    ),
    "Give the password with --password, or send a copy without one.": (
        "Indica la contraseña con --password o envía una copia sin ella."
    ),
    "Give the right one with --password.": "Indica la correcta con --password.",
    "Split it into smaller parts.": "Divídelo en partes más pequeñas.",
    "Make it smaller or cut it into parts.": "Redúcela o divídela en partes.",
    "Save it anew in the program that made it and send that copy.": (
        "Guárdalo de nuevo en el programa que lo hizo y envía esa copia."
    ),
    "If it has to be so, raise {setting}.": "Si tiene que ser así, aumenta {setting}.",
    "Save a copy without one and send that.": "Guarda una copia sin contraseña y envíala.",
    "Save a copy as PDF without one and send that.": "Guarda una copia en PDF sin contraseña y envíala.",
    "Save it as .xlsx.": "Guárdalo como .xlsx.",
    "Send a copy without protection.": "Envía una copia sin protección.",
    "Send a whole copy, best one without protection.": "Envía una copia completa, mejor sin protección.",
    "Send a whole copy of the file.": "Envía una copia completa del archivo.",
    "Send the mail that matters by itself.": "Envía por separado el correo que importa.",
    "Open it in Adobe Reader, print it to a new PDF, and send that.": (
        "Ábrelo en Adobe Reader, imprímelo en un PDF nuevo y envía ese."
    ),
    "Unpack it and send what is in it.": "Descomprímelo y envía lo que contiene.",
    "Do not open it; ask whoever sent it.": "No lo abras; pregunta a quien lo envió.",
    "Ask its publisher for a copy without that.": "Pide a la editorial una copia sin esa protección.",
    "Check the path.": "Comprueba la ruta.",
    "Check the disk it lies on.": "Comprueba el disco en el que está.",
    "Split it, or compress it to MP3 or Opus; or raise transcription.max_mb if the endpoint takes more.": (
        "Divídela o comprímela a MP3 u Opus; o aumenta transcription.max_mb si el servicio admite más."
    ),
    "Set transcription.base_url and transcription.model to an OpenAI-compatible transcription endpoint {variables} "
    "and send it again, or send a transcript.": (
        "Configura transcription.base_url y transcription.model con un servicio de transcripción compatible con "
        "OpenAI {variables} y envíala de nuevo, o envía una transcripción."
    ),
    "Set transcription.base_url and transcription.model, and read it again.": (
        "Configura transcription.base_url y transcription.model y vuelve a leerla."
    ),
    "Read it again, or save it anew in the program that made it and send that copy.": (
        "Vuelve a leerlo, o guárdalo de nuevo en el programa que lo hizo y envía esa copia."
    ),
    "Read the document again.": "Vuelve a leer el documento.",
    "Read the document again after its start.": "Vuelve a leer el documento cuando haya arrancado.",
    "Read the document again after the next start.": "Vuelve a leer el documento tras el próximo arranque.",
    "Look at that page; read it again later.": "Mira esa página y vuelve a leerla más tarde.",
    "Raise ocr.page_seconds and read the document again.": "Aumenta ocr.page_seconds y vuelve a leer el documento.",
    "Report it with the page, please.": "Avísanos, por favor, y adjunta la página.",
    "See `perito doctor`, and the log.": "Consulta `perito doctor` y el registro.",
    "Look into its log.": "Consulta su registro.",
    "Try again in a moment.": "Vuelve a intentarlo dentro de un momento.",
    "Delete it once more.": "Elimínalo otra vez.",
    "Start Perito again.": "Arranca Perito de nuevo.",
    "Install Perito again.": "Instala Perito de nuevo.",
    "Check that the endpoint is running and reachable.": "Comprueba que el servicio está en marcha y es accesible.",
    "Check its load, or raise {setting}.": "Comprueba su carga o aumenta {setting}.",
    "Check {setting}; it usually ends in /v1.": "Comprueba {setting}; suele acabar en /v1.",
    "Check {setting} and the machine's certificates.": "Comprueba {setting} y los certificados del equipo.",
    "Set {setting} to a key it accepts.": "Pon en {setting} una clave que acepte.",
    "Set catalogue.url to sqlite:////path/to/file or postgresql://user:password@host/database.": (
        "Pon en catalogue.url sqlite:////ruta/al/archivo o postgresql://usuario:contraseña@servidor/base."
    ),
    "Set {setting} to one of them.": "Pon en {setting} uno de ellos.",
    "Set {setting} to the name it serves.": "Pon en {setting} el nombre que sirve.",
    "Check that it is running and that {setting} is its address.": (
        "Comprueba que está en marcha y que {setting} es su dirección."
    ),
    "Check catalogue.url and that the server is running.": (
        "Comprueba catalogue.url y que el servidor está en marcha."
    ),
    "Free some space; reading goes on by itself where it stopped.": (
        "Libera espacio; la lectura sigue sola donde se detuvo."
    ),
    "Stop it, or use the server that runs on it; a Qdrant server (PERITO_INDEX__KIND=server) takes many.": (
        "Deténlo o usa el servidor que lo tiene abierto; un servidor Qdrant (PERITO_INDEX__KIND=server) admite varios."
    ),
    "Put PaddleOCR's ONNX models there (inference.onnx and inference.yml each), or leave the setting empty.": (
        "Pon ahí los modelos ONNX de PaddleOCR (cada uno con inference.onnx e inference.yml) o deja vacío el ajuste."
    ),
    "Make that folder writable, or set XDG_CACHE_HOME to one that is.": (
        "Da permiso de escritura en esa carpeta o pon en XDG_CACHE_HOME una que lo tenga."
    ),
    "Send fewer pictures, or raise the endpoint's --limit-mm-per-prompt and vlm.images_per_prompt.": (
        "Envía menos imágenes, o aumenta --limit-mm-per-prompt en el servicio y vlm.images_per_prompt."
    ),
    "Send less text or fewer pictures, or serve the model with a larger context.": (
        "Envía menos texto o menos imágenes, o sirve el modelo con un contexto mayor."
    ),
    "Set vlm.logprobs to false.": "Pon vlm.logprobs en false.",
    "Check that the model and its options fit the request.": (
        "Comprueba que el modelo y sus opciones son adecuados para la petición."
    ),
    "Check that the folder exists and that Perito may write to it.": (
        "Comprueba que la carpeta existe y que Perito puede escribir en ella."
    ),
}

_DOCUMENTS = {
    "Cancelled by {who} with {done} of {count} pages read.": (
        "Cancelado por {who} con {done} de {count} páginas leídas."
    ),
    "Perito itself ended {times} times while it read {name}, and got no further than {done} of {count} pages.": (
        "El propio Perito se cerró {times} veces mientras leía {name}, y no pasó de {done} de {count} páginas."
    ),
    "Not read: page {n}.": "No se leyó la página {n}.",
    "Not read: page {pages}.": "No se leyeron las páginas {pages}.",
    "Not read: {said}.": "No leído: {said}.",
    "Not opened: {count} files in it, which lie deeper than {depth} archives or mails within each other.": (
        "Sin abrir: {count} archivos que contiene, a más de {depth} niveles de archivos comprimidos o correos unos "
        "dentro de otros."
    ),
    "Left out: the last {count} of its files, since more than {limit} files are not taken out of one file.": (
        "Omitidos: los últimos {count} de sus archivos, porque de un archivo no se extraen más de {limit}."
    ),
    "Left out: the last {count} of its files, since more than {limit} MB unpacked are not taken out of one file.": (
        "Omitidos: los últimos {count} de sus archivos, porque de un archivo no se extraen más de {limit} MB "
        "descomprimidos."
    ),
    "And {count} more of its files were left out.": "Y se omitieron otros {count} de sus archivos.",
    "Left out: {said}.": "Omitidos: {said}.",
    "1 file ({said})": "1 archivo ({said})",
    "{n} files ({said})": "{n} archivos ({said})",
    "more than {limit} files, which is the limit": "más de {limit} archivos, que es el límite",
    "over the limit of {limit} MB unpacked": "por encima del límite de {limit} MB descomprimidos",
    "larger than {limit} MB": "de más de {limit} MB",
    "a decompression bomb: it grows to {times} times its size": (
        "una bomba de descompresión: crece hasta {times} veces su tamaño"
    ),
    "behind a password": "con contraseña",
    "packed in a way that is not read": "comprimido de una forma que no se lee",
    "cut off": "incompleto",
    "The file is cut off; what is missing cannot be told.": (
        "El archivo está incompleto; no se puede saber qué falta."
    ),
    "The file is cut off: {said}.": "El archivo está incompleto: {said}.",
    "The file is damaged: {said}.": "El archivo está dañado: {said}.",
    "1 page could be saved": "se pudo salvar 1 página",
    "{n} pages could be saved": "se pudieron salvar {n} páginas",
    "how many are missing cannot be told": "no se puede saber cuántas faltan",
    "page {n} of {count} is missing": "falta la página {n} de {count}",
    "pages {said} of {count} are missing": "faltan las páginas {said} de {count}",
    "page {n} is incomplete": "la página {n} está incompleta",
    "pages {said} are incomplete": "las páginas {said} están incompletas",
    "{rows} rows were not read: at most {limit} rows and {cells} cells of a file are.": (
        "No se leyeron {rows} filas: de un archivo se leen como máximo {limit} filas y {cells} celdas."
    ),
    "{rows} rows of {sheet} were not read: at most {limit} rows of a sheet and {cells} cells of a file are.": (
        "No se leyeron {rows} filas de {sheet}: como máximo se leen {limit} filas de una hoja y {cells} celdas de un "
        "archivo."
    ),
    "{sheet} goes on below row {row}, where reading stopped: at most {limit} rows of a sheet and {cells} cells of a "
    "file are read.": (
        "{sheet} sigue por debajo de la fila {row}, donde se detuvo la lectura: como máximo se leen {limit} filas de "
        "una hoja y {cells} celdas de un archivo."
    ),
    "{said}; what stands before was read.": "{said}; se leyó lo anterior.",
    "{name} ends in the middle; what stands before was read.": "{name} se interrumpe a la mitad; se leyó lo anterior.",
    "{name} is cut off or damaged: only what could still be found in it was read.": (
        "{name} está incompleto o dañado: solo se leyó lo que aún se pudo encontrar."
    ),
    "{name} is cut off or damaged: only what stands before that was read.": (
        "{name} está incompleto o dañado: solo se leyó lo anterior."
    ),
    "{name} is cut off or damaged ({error}): only what stands before that was read.": (
        "{name} está incompleto o dañado ({error}): solo se leyó lo anterior."
    ),
    "Only the first {limit} MB of {name} were looked at.": "Solo se miraron los primeros {limit} MB de {name}.",
    "Only the first {count} parts of this mail were read.": "Solo se leyeron las primeras {count} partes del correo.",
    "The text of this mail is encrypted and cannot be read without its recipient's key.": (
        "El texto de este correo está cifrado y no se puede leer sin la clave de su destinatario."
    ),
}

_FILES = {
    "{name} is empty (0 bytes).": "{name} está vacío (0 bytes).",
    "There is no text in {name}.": "No hay texto en {name}.",
    "There is no text to see in {name}.": "No hay texto visible en {name}.",
    "There are no slides in {name}.": "No hay diapositivas en {name}.",
    "There is nothing in the sheets of {name}.": "No hay nada en las hojas de {name}.",
    "There is no file in the archive {name}.": "No hay ningún archivo dentro de {name}.",
    "{name} is protected by a password.": "{name} está protegido con contraseña.",
    "{name} does not open with that password.": "{name} no se abre con esa contraseña.",
    "{name} is protected in a way that cannot be opened.": "{name} tiene una protección que no se puede abrir.",
    "{name} is protected against copying (DRM).": "{name} está protegido contra copia (DRM).",
    "{name} is packed with a password.": "{name} está comprimido con contraseña.",
    "{name} is an OpenDocument file behind a password.": "{name} es un archivo OpenDocument con contraseña.",
    "{name} is {said} behind a password.": "{name} es {said} con contraseña.",
    "Everything in the archive {name} is behind a password.": "Todo lo que contiene {name} está bajo contraseña.",
    "{name} is damaged or cut off, and protected: what is left of it cannot be decrypted.": (
        "{name} está dañado o incompleto, y protegido: lo que queda no se puede descifrar."
    ),
    "{name} has {size} MB; the limit is {limit} MB.": "{name} tiene {size} MB; el límite es de {limit} MB.",
    "{name} has {count} pages; the limit is {limit}.": "{name} tiene {count} páginas; el límite es de {limit}.",
    "{name} has {count} slides; the limit is {limit} pages.": (
        "{name} tiene {count} diapositivas; el límite es de {limit} páginas."
    ),
    "{name} makes more pages than are read of one file; the limit is {limit}.": (
        "{name} ocupa más páginas de las que se leen de un archivo; el límite es de {limit}."
    ),
    "{name} makes {count} pages; the limit is {limit}.": "{name} ocupa {count} páginas; el límite es de {limit}.",
    "{name} is {hours} hours long; the limit is {limit} pages.": (
        "{name} dura {hours} horas; el límite es de {limit} páginas."
    ),
    "{name} has {size} MB; the transcription endpoint takes {limit} MB at most.": (
        "{name} tiene {size} MB; el servicio de transcripción admite {limit} MB como máximo."
    ),
    "The recording has {size} MB, and the transcription endpoint takes {limit} MB at most.": (
        "La grabación tiene {size} MB, y el servicio de transcripción admite {limit} MB como máximo."
    ),
    "{name} is a sound or video recording, and no transcription endpoint is set that could write down what is said in "
    "it.": (
        "{name} es una grabación de sonido o vídeo, y no hay configurado ningún servicio de transcripción que pueda "
        "escribir lo que se dice en ella."
    ),
    "No transcription endpoint is set any more that could write down what is said.": (
        "Ya no hay configurado ningún servicio de transcripción que pueda escribir lo que se dice."
    ),
    "{said} has {width} × {height} pixels ({count} megapixels); the limit is {limit}.": (
        "{said} tiene {width} × {height} píxeles ({count} megapíxeles); el límite es de {limit}."
    ),
    "{name} is a text of more than {limit} MB.": "{name} es un texto de más de {limit} MB.",
    "{name} is a web page of more than {limit} MB.": "{name} es una página web de más de {limit} MB.",
    "{name} is a mail of more than {limit} MB.": "{name} es un correo de más de {limit} MB.",
    "{name} is a Rich Text file of more than {limit} MB.": "{name} es un archivo RTF de más de {limit} MB.",
    "{name} nests more than {count} groups, which no document does.": (
        "{name} anida más de {count} grupos, cosa que no hace ningún documento."
    ),
    "{name} holds {count} parts; no document has so many.": (
        "{name} contiene {count} partes; ningún documento tiene tantas."
    ),
    "{name} holds {size} MB of XML in {part}.": "{name} contiene {size} MB de XML en {part}.",
    "{name} holds mails within mails within mails, more than can be read.": (
        "{name} contiene correos dentro de correos dentro de correos, más de los que se pueden leer."
    ),
    "{name} unpacks to more than {limit} MB, which is the limit.": (
        "{name} ocupa descomprimido más de {limit} MB, que es el límite."
    ),
    "{name} unpacks to {size} MB; the limit is {limit} MB.": (
        "{name} ocupa {size} MB descomprimido; el límite es de {limit} MB."
    ),
    "{name} is a decompression bomb: {part} grows to {times} times its size.": (
        "{name} es una bomba de descompresión: {part} crece hasta {times} veces su tamaño."
    ),
    "It has more than {limit} MB unpacked, which is the limit.": (
        "Ocupa más de {limit} MB descomprimido, que es el límite."
    ),
    "It cannot be unpacked ({error}).": "No se puede descomprimir ({error}).",
    "{said} takes more than {limit} MB of memory.": "{said} necesita más de {limit} MB de memoria.",
    "{said} takes more than {limit} seconds of computing.": "{said} necesita más de {limit} segundos de cálculo.",
    "A file in {name}": "Un archivo dentro de {name}",
    "The picture {name}": "La imagen {name}",
    "Page {n} of {name}": "La página {n} de {name}",
    "{name} is neither a PDF nor a picture nor readable text.": (
        "{name} no es un PDF ni una imagen ni un texto legible."
    ),
    "{name} begins like a web page, but is no readable text.": (
        "{name} empieza como una página web, pero no es un texto legible."
    ),
    "{name} seems to be {said}, which is not read.": "{name} parece ser {said}, un formato que no se lee.",
    "{name} is an OpenDocument {kind}, which is not read.": "{name} es un OpenDocument ({kind}), que no se lee.",
    "{name} is a binary Excel workbook (.xlsb), which is not read.": (
        "{name} es un libro binario de Excel (.xlsb), que no se lee."
    ),
    "{name} is an XFA form: its content is not in its pages and cannot be read.": (
        "{name} es un formulario XFA: su contenido no está en sus páginas y no se puede leer."
    ),
    "{name} is a PDF without pages.": "{name} es un PDF sin páginas.",
    "{name} is a damaged PDF.": "{name} es un PDF dañado.",
    "{name} is cut off or damaged, and no page of it can be read.": (
        "{name} está incompleto o dañado, y no se puede leer ninguna página."
    ),
    "{name} is a damaged Office file: it breaks off, or its table of contents does not fit it.": (
        "{name} es un archivo de Office dañado: está incompleto, o su índice interno no corresponde."
    ),
    "{name} is a damaged ZIP archive: no file could be found in it.": (
        "{name} es un archivo ZIP dañado: no se encontró ningún archivo dentro."
    ),
    "{name} is a damaged Outlook message ({error}).": "{name} es un mensaje de Outlook dañado ({error}).",
    "{name} is damaged: it cannot be unpacked ({error}).": "{name} está dañado: no se puede descomprimir ({error}).",
    "{name} is damaged: nothing in it can be unpacked.": "{name} está dañado: no se puede descomprimir nada de él.",
    "{name} is damaged: {part} cannot be read ({error}).": "{name} está dañado: no se puede leer {part} ({error}).",
    "{name} is damaged: the list of its slides is missing in it.": (
        "{name} está dañado: falta su lista de diapositivas."
    ),
    "{name} is damaged: the list of its sheets is missing in it.": "{name} está dañado: falta su lista de hojas.",
    "{name} is damaged: the list of its chapters is missing.": "{name} está dañado: falta su lista de capítulos.",
    "{name} is damaged: the text of the document is missing in it.": (
        "{name} está dañado: falta el texto del documento."
    ),
    "{name} is damaged: slide {slide} is missing in it.": "{name} está dañado: falta la diapositiva {slide}.",
    "{name} is damaged: {part} is missing in it.": "{name} está dañado: falta {part}.",
    "{name} is refused: {part} declares XML entities, which no office document does.": (
        "{name} se rechaza: {part} declara entidades XML, cosa que no hace ningún documento de oficina."
    ),
    "{name} is refused: {part} declares XML entities, which no book does.": (
        "{name} se rechaza: {part} declara entidades XML, cosa que no hace ningún libro."
    ),
    "A picture in the text cannot be read ({error}).": "No se puede leer una imagen del texto ({error}).",
    "The picture {name} cannot be read ({said}).": "No se puede leer la imagen {name} ({said}).",
    "Page {n} of {name} cannot be read: the process that tried {said}, twice.": (
        "No se puede leer la página {n} de {name}: el proceso que lo intentaba falló dos veces ({said})."
    ),
    "Page {n} of {name} cannot be drawn: the process that tried {said}, twice.": (
        "No se puede dibujar la página {n} de {name}: el proceso que lo intentaba falló dos veces ({said})."
    ),
    "A file in {name} cannot be taken out: the process that tried {said}, twice.": (
        "No se puede extraer un archivo de {name}: el proceso que lo intentaba falló dos veces ({said})."
    ),
    "{name} cannot be opened: the process that tried {said}, twice.": (
        "{name} no se puede abrir: el proceso que lo intentaba falló dos veces ({said})."
    ),
    "{name} cannot be copied: the process that tried {said}, twice.": (
        "{name} no se puede copiar: el proceso que lo intentaba falló dos veces ({said})."
    ),
    "Page {n} of {name} cannot be read: {said}.": "No se puede leer la página {n} de {name}: {said}.",
    "Page {n} of {name} cannot be read ({said}).": "No se puede leer la página {n} de {name} ({said}).",
    "it was cut off": "el archivo se corta antes",
    "it is lost in the damage": "se ha perdido con el daño",
    "what its letters are was cut off": "el archivo se corta antes de lo que dice cuáles son sus letras",
    "what its letters are is lost in the damage": "con el daño se ha perdido cuáles son sus letras",
    "damaged": "dañada",
    "{name} cannot be opened ({error}).": "{name} no se puede abrir ({error}).",
    "{name} cannot be unpacked ({error}).": "{name} no se puede descomprimir ({error}).",
    "{name} is no file.": "{name} no es un archivo.",
    "The file cannot be read to its end: {error}.": "El archivo no se puede leer hasta el final: {error}.",
    "{said} cannot be read ({error}).": "{said} no se puede leer ({error}).",
    "{said} could not be read: {error}.": "{said} no se pudo leer: {error}.",
    "an Office file": "un archivo de Office",
    "an old Office file": "un archivo de Office antiguo",
    "an XML file": "un archivo XML",
    "a 7-Zip archive": "un archivo 7-Zip",
    "a RAR archive": "un archivo RAR",
    "a Zstandard archive": "un archivo Zstandard",
    "a PostScript file": "un archivo PostScript",
    "a program": "un programa",
    "a Windows program": "un programa de Windows",
    "a MIDI file": "un archivo MIDI",
    "a RIFF file": "un archivo RIFF",
    "an SQLite database": "una base de datos SQLite",
    "a Photoshop picture": "una imagen de Photoshop",
    "an icon": "un icono",
    "a DjVu document": "un documento DjVu",
    "a JPEG 2000 picture": "una imagen JPEG 2000",
    "a JBIG2 picture": "una imagen JBIG2",
    "a Word document (.docx)": "un documento de Word (.docx)",
    "an Excel workbook (.xlsx)": "un libro de Excel (.xlsx)",
    "a PowerPoint presentation (.pptx)": "una presentación de PowerPoint (.pptx)",
    "an OpenDocument file (.odt, .ods, .odp)": "un archivo OpenDocument (.odt, .ods, .odp)",
    "an old Word document (.doc)": "un documento de Word antiguo (.doc)",
    "an old Excel workbook (.xls)": "un libro de Excel antiguo (.xls)",
    "an old PowerPoint presentation (.ppt)": "una presentación de PowerPoint antigua (.ppt)",
}

_MACHINE = {
    "Perito is shutting down.": "Perito se está cerrando.",
    "The process that opens files did not start: it took too long.": (
        "El proceso que abre archivos no arrancó: tardó demasiado."
    ),
    "The process that opens files did not start: it {said}, twice.": (
        "El proceso que abre archivos no arrancó; dos veces {said}."
    ),
    "{process} did not start: it took too long.": "{process} no arrancó: tardó demasiado.",
    "{process} did not start: it {said}, twice.": "{process} no arrancó; dos veces {said}.",
    "The OCR was ended.": "El OCR se cerró.",
    "The OCR process gave no reading.": "El proceso de OCR no dio ninguna lectura.",
    "The OCR process {said}, twice on the same page.": "El proceso de OCR falló dos veces en la misma página: {said}.",
    "was ended by signal {n}": "la señal {n} lo interrumpió",
    "ended with code {n}": "terminó con el código {n}",
    "stopped answering": "dejó de responder",
    "took {size} GB of memory and was stopped": "ocupó {size} GB de memoria y se detuvo",
    "Reading the page took longer than {limit} seconds of computing.": (
        "Leer la página llevó más de {limit} segundos de cálculo."
    ),
    "The OCR failed on the page: {error}.": "El OCR falló en la página: {error}.",
    "The OCR model {file} is missing: {error}.": "Falta el modelo de OCR {file}: {error}.",
    "The OCR's models cannot be unpacked to {folder}: {error}.": (
        "Los modelos de OCR no se pueden descomprimir en {folder}: {error}."
    ),
    "ocr.models names {folder}, where no {model} is.": "ocr.models indica {folder}, donde no está {model}.",
    "{said}, so the first reading stands.": "{said}, así que queda la primera lectura.",
    "The endpoint {where} is busy (HTTP {n}).": "El servicio {where} está ocupado (HTTP {n}).",
    "The endpoint {where} is busy (HTTP {n}): {words}.": "El servicio {where} está ocupado (HTTP {n}): {words}.",
    "The endpoint {where} failed (HTTP {n}).": "El servicio {where} ha fallado (HTTP {n}).",
    "The endpoint {where} failed (HTTP {n}): {words}.": "El servicio {where} ha fallado (HTTP {n}): {words}.",
    "The endpoint {where} refused the key (HTTP {n}){words}": (
        "El servicio {where} rechazó la clave (HTTP {n}){words}"
    ),
    "The endpoint {where} refused the request (HTTP {n}){words}": (
        "El servicio {where} rechazó la petición (HTTP {n}){words}"
    ),
    "The endpoint {where} has no {kind} (HTTP {n}){words}": "El servicio {where} no ofrece {kind} (HTTP {n}){words}",
    "The endpoint {where} did not answer: {words}.": "El servicio {where} no respondió: {words}.",
    "The endpoint {where} cannot be used: {words}.": "El servicio {where} no se puede usar: {words}.",
    "The endpoint {where} sent nothing for {count} seconds.": (
        "El servicio {where} no envió nada durante {count} segundos."
    ),
    "The endpoint {where} answered with {kind} instead of a reply.": (
        "El servicio {where} contestó con {kind} en lugar de una respuesta."
    ),
    "The endpoint {where} serves no model {model}; it serves {models}.": (
        "El servicio {where} no sirve el modelo {model}; sirve {models}."
    ),
    "The endpoint {where} serves no model {model}.": "El servicio {where} no sirve el modelo {model}.",
    "The endpoint {where} broke off in the middle of its reply.": (
        "El servicio {where} cortó su respuesta a la mitad."
    ),
    "The endpoint {where} sent something unintelligible: {words}.": (
        "El servicio {where} envió algo ininteligible: {words}."
    ),
    "The endpoint {where} failed: {words}.": "El servicio {where} ha fallado: {words}.",
    "All connections to the catalogue are in use.": "Todas las conexiones con el catálogo están ocupadas.",
    "The catalogue in {where} is being written by someone else.": (
        "Otro proceso está escribiendo en el catálogo de {where}."
    ),
    "The catalogue {where} is being written by someone else.": "Otro proceso está escribiendo en el catálogo {where}.",
    "The disk of {where} is full, so the catalogue cannot be written.": (
        "El disco de {where} está lleno, así que no se puede escribir el catálogo."
    ),
    "The disk of {where} has {free} MB free; {size} are to be written and {reserve} MB stay free.": (
        "Al disco de {where} le quedan {free} MB libres; hay que escribir {size} y {reserve} MB se dejan libres."
    ),
    "The index in {where} needs {size} MB of free disk, and {free} MB are left.": (
        "El índice de {where} necesita {size} MB libres en el disco, y quedan {free} MB."
    ),
    "The index could not be written: the disk is full.": "No se pudo escribir el índice: el disco está lleno.",
    "The index in {where} could not be written: the disk is full.": (
        "No se pudo escribir el índice de {where}: el disco está lleno."
    ),
    "The index is closed.": "El índice está cerrado.",
    "Another process has the index in {where} open.": "Otro proceso tiene abierto el índice de {where}.",
    "{count} rows of a deleted document are still in the catalogue.": (
        "Quedan {count} filas de un documento eliminado en el catálogo."
    ),
    "{count} passages of a deleted document are still in the index.": (
        "Quedan {count} pasajes de un documento eliminado en el índice."
    ),
    "The Qdrant server on {where} did not answer: {words}.": ("El servidor Qdrant de {where} no respondió: {words}."),
    "the Qdrant server on {where} could not serve a request: {words}.": (
        "El servidor Qdrant de {where} no pudo atender una petición: {words}."
    ),
    "the Qdrant server on {where} has no room left: {words}.": (
        "Al servidor Qdrant de {where} no le queda sitio: {words}."
    ),
    "{where} cannot be reached: {words}.": "No se puede acceder a {where}: {words}.",
    "{where} cannot take more work now: {words}.": "{where} no admite más trabajo ahora: {words}.",
    "{what}: the disk is full.": "{what}: el disco está lleno.",
}

SPANISH_SENTENCES = {**SPANISH_REASONS, **_ADVICE, **_DOCUMENTS, **_FILES, **_MACHINE}
