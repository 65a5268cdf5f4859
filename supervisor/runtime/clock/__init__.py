"""Clocks, the alarm, and the inactivity watchdog."""
