"""The PostgreSQL store: many machines, and jobs in the same transaction as your data."""

from .store import PostgresStore

__all__ = ["PostgresStore"]
