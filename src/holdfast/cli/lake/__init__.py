"""`holdfast lake`: the event log as tables."""
