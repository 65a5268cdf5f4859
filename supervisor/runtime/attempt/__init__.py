"""One attempt: its operation ids, its replay, and its end."""
