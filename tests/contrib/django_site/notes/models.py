"""What views and handlers of the site write."""

from django.db import models


class Note(models.Model):
    """A line of text."""

    text = models.CharField(max_length=100)
