"""The write path: a file becomes searchable chunks.

Follow a document: ``worker`` takes it in, ``pipeline`` orders the steps, and each step is a module
or folder beside it: ``sources`` -> ``pages`` -> ``triage`` -> ``readers`` -> ``blocks`` -> ``chunks``
-> ``publish``. ``wiring`` builds the whole.
"""
