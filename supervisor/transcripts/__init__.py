"""Sessions of other makers: what they lack, and how it is written. `repair.repair` is the way in.

Each format is one module; what they share is in `formats` (what a format has to know), `index` (what is kept of a
file), `session` (reading and judging), `liveness` (who may be writing), `write` (replacing a file) and `watch`.
"""
