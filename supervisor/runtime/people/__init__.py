"""Decisions of people, the cards that show them what waits, and reminders."""
