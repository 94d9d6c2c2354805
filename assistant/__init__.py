"""The read path: a question becomes a cited answer.

Follow a question: ``web/`` takes it in, ``answering`` orders the steps, and each step is a
module beside it: ``question`` -> ``retrieval`` -> ``evidence`` -> ``prompting`` -> ``citations``
-> ``grounding``. ``wiring`` builds the whole. ``core/`` is the kernel that ``ingestion`` shares.
"""
