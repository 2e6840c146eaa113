"""Unreadable rows: which they are, and how they are set aside."""
