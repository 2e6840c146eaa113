"""Schedules: stored with their queue, changed live, and fired by whichever worker comes first."""

from .fire import Shot, fire
from .live import Schedules
from .plan import CHANGEABLE, plan_of

__all__ = ["CHANGEABLE", "Schedules", "Shot", "fire", "plan_of"]
