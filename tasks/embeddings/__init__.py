"""A vector for each text, such that texts of like meaning have like vectors."""
