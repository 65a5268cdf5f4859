"""Benchmarks: one file per question. `python -m benchmarks --help` says how to run them."""
