"""Benchmarks: each file answers one question. `python -m benchmarks --help` says how to run them."""
