"""An approval in words: every surface uses the same ones."""
