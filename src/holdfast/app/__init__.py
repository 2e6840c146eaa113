"""What an app declares: its tasks, its queues, their settings, and the ways in."""
