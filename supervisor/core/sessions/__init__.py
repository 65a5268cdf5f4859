"""What a session is: its state as the fold of its events, and what may happen to it next. Pure."""
