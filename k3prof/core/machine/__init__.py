"""What a machine can measure, and what spoils a measurement on it."""
