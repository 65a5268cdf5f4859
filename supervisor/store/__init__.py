"""Floor 1: what is kept. Two stores implement one seam (abc.Store), and share one projection."""
