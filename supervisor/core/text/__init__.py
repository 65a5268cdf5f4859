"""How hostile text is shown to people. Pure."""
