"""The library: what documents there are and how each page was read, at ``/library``.

    routes.py    the pages: the list, a document, what they are made to look like
    changes.py   what a person changes: delete, read again, move, correct
    sending.py   files on their way in: known by their content, sent in pieces, gone on with after a break
    live.py      what changes by itself, as server-sent events
    rows.py      a document as the list shows it        sheets.py    a page as it was read, and why
    pages.py     templates, language, headers           numbers.py   numbers and sizes as people write them
    tables.py    a table's HTML, harmless
    texts/       every word it says: en.py, es.py

It stands on the same ports, sign-in and access filter as the API and the chat. Pages work without any inline script
or style, so they carry a stricter policy than the chat's.
"""
