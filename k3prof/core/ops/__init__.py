"""Where a token's time goes, operation by operation."""
