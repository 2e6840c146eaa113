"""What a store must do, in plain Python: one queue, no I/O, no clock. The contract's machine runs both side by side.

The model never chooses where the contract leaves a choice (which key goes first, whether a session that was
silent for most of its lease has been renewed): it is told what the store did, and says whether that was right.
"""

from __future__ import annotations

from .work import Model

__all__ = ["Model"]
