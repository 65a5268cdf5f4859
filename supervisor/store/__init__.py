"""Floor 1: what is kept. Two stores implement one seam (seam.store.Store), and share one projection."""
