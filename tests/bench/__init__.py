"""What k3prof itself costs, measured against the real thing: `python -m tests.bench`."""
