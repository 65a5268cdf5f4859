"""Floor 1: what is remembered. Two stores behind one seam (abc.Store), sharing one projection."""
