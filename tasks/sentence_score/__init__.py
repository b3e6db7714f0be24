"""How probable sentences are to a masked LM."""
