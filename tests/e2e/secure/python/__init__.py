"""Programs of Python's clients: a plan as their one argument, a record there and back."""
