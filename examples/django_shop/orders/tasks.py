"""The jobs of the shop. Django imports this module when it starts, and so does each worker."""

from typing import Any

from django.core.mail import send_mail
from django.db.models import F
from django.dispatch import receiver

from holdfast import Permanent, Retry
from holdfast.contrib.django import task
from holdfast.contrib.django.signals import job_failed

from .models import Order

try:
    from django.tasks import task as django_task
except ImportError:  # before Django 6
    from django_tasks import task as django_task


@task(queue="mail", retry=Retry(failures=5))
def confirm(number: int) -> str:
    """Confirm an order by mail."""
    order = Order.objects.get(pk=number)
    if order.item == "unicorn":
        raise Permanent("unicorns are sold out")
    send_mail(f"Your {order.item}", "It is on its way.", "shop@example.com", [order.to])
    order.confirmed = True
    order.save()
    return f"order {number} confirmed to {order.to}"


@receiver(job_failed, sender=confirm)
def note_trouble(event: Any, **more: Any) -> None:
    """Keep what went wrong with the order, once and for all retries are spent."""
    Order.objects.filter(confirmed=False).update(trouble=str(event.error)[:200])


@django_task
def remind(number: int) -> int:
    """Remind a customer; a task of Django's own interface, run by the same workers."""
    return Order.objects.filter(pk=number).update(reminders=F("reminders") + 1)
