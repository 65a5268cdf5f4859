"""Decisions of people, the cards that show approvals to them, and reminders."""
