"""PDFium behind plain types: the one package that knows pypdfium2.

PDFium is not thread-safe, so every call happens under ``LOCK``; no page stays open between calls.
"""
