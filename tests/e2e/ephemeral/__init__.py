"""The broker for tests, with real clients: what they see of each trouble, and what is left."""
