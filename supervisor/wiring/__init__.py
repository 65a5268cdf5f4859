"""How it is wired: composition roots, the configuration, and what a service needs around them."""
