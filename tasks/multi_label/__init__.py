"""Any number of labels for a text or a pair: multi-label classification."""
