"""Both backends, real time or virtual: `anyio_backend` and `virtual_clock` are the two fixtures a test chooses from."""
