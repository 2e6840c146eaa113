"""What a customer has ordered."""

from django.db import models


class Order(models.Model):
    """An order, which a job confirms."""

    item = models.CharField(max_length=100)
    to = models.EmailField()
    confirmed = models.BooleanField(default=False)
    reminders = models.IntegerField(default=0)
    trouble = models.CharField(max_length=200, blank=True)
