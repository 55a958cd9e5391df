"""Real processes on one lane of a real store, killed and stopped at random."""
