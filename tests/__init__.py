"""Tests mirror the packages. ``documents`` finds the real documents, ``fakes`` implements the ports."""
