"""What happened lately: traffic by queue and task, failures by signature, and what needs attention."""

from .attention import Concern, Seen, Thresholds, attention
from .listener import LogListener
from .options import RecentOptions
from .recent import Recent
from .view import (
    Chart,
    DepthChart,
    FailureGroup,
    FollowState,
    JobSample,
    LogBreak,
    RecentView,
    Spread,
    SpreadChart,
    Step,
    TaskTraffic,
    Traffic,
)

__all__ = [
    "Chart",
    "Concern",
    "DepthChart",
    "FailureGroup",
    "FollowState",
    "JobSample",
    "LogBreak",
    "LogListener",
    "Recent",
    "RecentOptions",
    "RecentView",
    "Seen",
    "Spread",
    "SpreadChart",
    "Step",
    "TaskTraffic",
    "Thresholds",
    "Traffic",
    "attention",
]
