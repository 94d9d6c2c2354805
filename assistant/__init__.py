"""The read path: a question becomes a cited answer.

Follow a question: ``web/`` takes it in, ``answering`` orders the steps, and each step is a
module beside it: ``question`` -> ``retrieval`` -> ``evidence`` -> ``prompting`` -> ``citations``
-> ``grounding``. ``replies`` streams what becomes of them (a model's text, quotes, a refusal);
``pictures`` is the way of a question about pictures.

The steps read texts with ``language`` (words), ``sentences``, ``facts`` (numbers, dates, names),
``quotes`` (what may be quoted) and ``matching`` (whether a text holds what a question asks for).
``wording`` has what Perito says itself, ``ledger`` what models used. ``wiring`` builds the whole.
``core/`` is the kernel that ``ingestion`` shares.
"""
