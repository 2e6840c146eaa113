"""A lake of any length by simulation of the log, and what an increment costs by length of history."""
