"""Whether a model says anything sensible: what it is asked, how answers are checked, what follows from them."""
