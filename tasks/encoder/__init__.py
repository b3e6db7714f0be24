"""Hidden layers of a frozen BERT as features, and files of them."""
