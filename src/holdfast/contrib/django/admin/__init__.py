"""The admin of jobs, which Django finds by the name of this package."""

from .job_admin import JobAdmin

__all__ = ["JobAdmin"]
