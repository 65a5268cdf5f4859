"""The journal: the one way to write, and the views that plans read."""
