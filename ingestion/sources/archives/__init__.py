"""Archives: what lies in them becomes documents, within limits. ``entries`` tells what is taken and what is left out,
``zips`` and ``tars`` find the entries, ``listing`` is the archive itself as a document."""
