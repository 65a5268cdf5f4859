"""Sessions of other makers: what they lack, and how it is written. `repair.repair` is the entry point.

Each format is one module. They share `formats` (what a format must know), `index` (what we keep of a file), `session`
(reading and judging), `liveness` (which process may be writing), `write` (replacing a file) and `watch`.
"""
