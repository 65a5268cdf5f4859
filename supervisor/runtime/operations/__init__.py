"""The operations of an agent's context, one module for each kind."""
