"""Starting Spark: a Java, the settings, the master, and the session itself."""
