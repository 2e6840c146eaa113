"""Whole tables, for Spark: positions in the log, ranges of it, and the rows in them."""

from .scan import PostgresScan

__all__ = ["PostgresScan"]
