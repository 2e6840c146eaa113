"""The report's figures by the hour, as SQL views that DuckDB and Spark run over the tables of a lake."""

from __future__ import annotations

from importlib.resources import files

VIEWS = (
    "report_queues",
    "report_backlog",
    "report_errors",
    "report_retries",
    "report_tenants",
    "report_fairness",
    "report_workers",
)
"""The names of the views."""
VIEWED = ("attempts", "jobs", "minutes", "tenants", "errors", "messages", "workers")
"""The tables that they read: views or tables by these names have to be there."""


def view_select(name: str) -> str:
    """Return the SELECT of a view."""
    return files(__package__).joinpath("sql", "views", f"{name}.sql").read_text("utf-8").strip()


def view_statements() -> list[str]:
    """Return the statements that make all views, in the session that runs them."""
    return [f"CREATE OR REPLACE TEMPORARY VIEW {name} AS\n{view_select(name)}" for name in VIEWS]
