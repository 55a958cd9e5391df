"""The campaign of faults, in short runs, and the parts that make faults."""
