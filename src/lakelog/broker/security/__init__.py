"""What a broker knows of those who ask it."""
