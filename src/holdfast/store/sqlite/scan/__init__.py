"""Whole tables out of a database file, for data pipelines."""
