"""A DataFrame through the queue and back: enqueue, wait, and read the results."""
