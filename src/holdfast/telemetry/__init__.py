"""What a running Holdfast tells its operators: logs, metrics, traces and health, made in one place."""

from __future__ import annotations

from .traces import current_trace_id, trace_id

__all__ = ["current_trace_id", "trace_id"]
