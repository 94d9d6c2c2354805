"""Benchmarks: each figure is a module here with ``run(documents: Path) -> Table``.

``python -m eval.bench [name…] [--json FILE] [--documents DIR]`` runs them.
"""
