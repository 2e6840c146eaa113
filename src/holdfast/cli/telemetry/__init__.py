"""`holdfast metrics`: what operators look at, for other programs."""
