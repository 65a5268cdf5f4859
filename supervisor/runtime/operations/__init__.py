"""What an agent does through its context, one module for each kind of operation."""
