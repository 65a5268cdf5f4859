"""What readers of this process see: sessions, runs, streams, and what agents are doing."""
