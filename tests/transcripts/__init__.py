"""Stories as text. ``python -m tests.transcripts.replay`` writes what happens into them."""
