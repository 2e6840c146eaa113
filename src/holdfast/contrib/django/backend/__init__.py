"""The backend of Django's task interface (DEP 14): `holdfast.contrib.django.backend.HoldfastBackend`."""

from .backend import HoldfastBackend

__all__ = ["HoldfastBackend"]
