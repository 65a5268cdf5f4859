"""Reads of this process: sessions, runs, streams, and the activity of agents."""
