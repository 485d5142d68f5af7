"""What a server's log proves: what was done, held against what was asked and predicted."""
