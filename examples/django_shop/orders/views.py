"""Views: an order and its job in one transaction, and one from a coroutine."""

from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from holdfast.contrib.django import get_app

from .models import Order
from .tasks import confirm
from .tasks import remind as remind_task


@csrf_exempt
@require_POST
def place(request: HttpRequest) -> JsonResponse:
    """Take in an order. Both the order and its job are there, or neither."""
    with transaction.atomic():
        order = Order.objects.create(item=request.POST["item"], to=request.POST["to"])
        get_app().sync(confirm.options(job_id=f"order-{order.pk}").enqueue(order.pk))
    return JsonResponse({"number": order.pk}, status=202)


def show(request: HttpRequest, number: int) -> JsonResponse:
    """Show an order."""
    order = get_object_or_404(Order, pk=number)
    known = {"item": order.item, "confirmed": order.confirmed, "reminders": order.reminders, "trouble": order.trouble}
    return JsonResponse(known)


@csrf_exempt
async def remind(request: HttpRequest, number: int) -> JsonResponse:
    """Have a customer reminded, from a coroutine."""
    result = await remind_task.aenqueue(number)
    return JsonResponse({"id": result.id}, status=202)
