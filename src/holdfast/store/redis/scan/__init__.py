"""Whole tables, read in parts."""
