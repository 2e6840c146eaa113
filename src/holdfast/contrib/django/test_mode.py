"""Whether a test runner of Django's, or pytest-django, has set up its environment in this process."""

from __future__ import annotations

import sys


def in_tests() -> bool:
    """Return whether tests run: between `setup_test_environment()` and `teardown_test_environment()`."""
    utils = sys.modules.get("django.test.utils")  # which only tests import
    state = getattr(utils, "_TestState", None)
    return hasattr(state, "saved_data")
