"""Producing, waiting and inspecting: everything that needs a store but no handler."""

from .client import Client, transactional
from .handle import Handle, handed_over, refuse_update
from .look import OnGap
from .options import new_id
from .wait import DEFAULT_WAIT

__all__ = ["DEFAULT_WAIT", "Client", "Handle", "OnGap", "handed_over", "new_id", "refuse_update", "transactional"]
