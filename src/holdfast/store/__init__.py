"""Where jobs live: the contract that every store keeps, and the stores, chosen by URL."""

from .contract import Store
from .shown import shown
from .url import open_store, register_store, same_jobs

__all__ = ["Store", "open_store", "register_store", "same_jobs", "shown"]
