"""TOML to records, and the trace file."""
