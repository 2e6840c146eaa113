"""Operators: limits, counts, schedules and the event log."""
