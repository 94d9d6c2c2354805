"""The entry points: HTTP API and chat. They parse, call and render; nothing else."""
