"""Clocks and counters to samples."""
