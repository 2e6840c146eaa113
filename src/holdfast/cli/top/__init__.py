"""`holdfast top`: queues, workers, rates and failures, live in the terminal."""
