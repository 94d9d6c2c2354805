"""Processes of ours that do what may crash, hang or take all memory: opening files, OCR. ``process`` is one, seen from
the server, with its limits; ``pool`` keeps some; ``program`` is the same seen from inside; ``wire`` is between them."""
