"""Workers as long-running Spark tasks."""
