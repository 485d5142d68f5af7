"""Hypotheses, what was measured to test them, and the verdicts on them."""
