"""Whole trees of sessions: imported from other programs, and pruned."""
