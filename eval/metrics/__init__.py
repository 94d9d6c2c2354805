"""Metrics, one a file: each has ``score``, which gives nothing where a case is not eligible.

A mean is taken over the eligible cases only, and how many those are is always shown beside it.
"""
