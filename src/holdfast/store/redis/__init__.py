"""Jobs in Redis or Valkey."""

from .store import RedisStore

__all__ = ["RedisStore"]
