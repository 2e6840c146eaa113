"""The connection to a database file: opening it, its schema, its errors, its thread and its write-ahead log."""
