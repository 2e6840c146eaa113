"""The report of a lake over a stretch of time: queries, tables, and an HTML page."""

from .page import html_page
from .report import LakeReport, make_report

__all__ = ["LakeReport", "html_page", "make_report"]
