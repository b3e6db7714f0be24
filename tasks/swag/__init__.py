"""Choose among continuations: SWAG and own multiple-choice questions."""
