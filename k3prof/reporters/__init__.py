"""Records to text, HTML and pictures; they never measure."""
