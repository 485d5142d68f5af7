"""How often verdicts are wrong, on simulated truth: `python -m tests.calibrate`."""
