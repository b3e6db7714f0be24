"""What a model gets wrong: tables and pictures, a module for each kind."""
