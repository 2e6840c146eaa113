"""Views that enqueue: in a transaction, outside of one, and from a coroutine."""

from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse

from holdfast.contrib.django import get_app

from .models import Note
from .tasks import ping, write


def post(request: HttpRequest) -> HttpResponse:
    """Write a note and enqueue another, in one transaction, which `fail` rolls back."""
    with transaction.atomic():
        Note.objects.create(text=request.POST["text"])
        handle = get_app().sync(write.enqueue(f"job of {request.POST['text']}"))
        if "fail" in request.POST:
            transaction.set_rollback(True)
    return JsonResponse({"id": handle.id})


def post_at_once(request: HttpRequest) -> HttpResponse:
    """Enqueue with no transaction."""
    handle = get_app().sync(write.enqueue(request.POST["text"]))
    return JsonResponse({"id": handle.id, "run": handle.run})


async def apost(request: HttpRequest) -> HttpResponse:
    """Enqueue from a coroutine, with no lifespan."""
    handle = await write.enqueue(request.POST["text"])
    return JsonResponse({"id": handle.id, "run": handle.run})


def post_far(request: HttpRequest) -> HttpResponse:
    """Enqueue in a store elsewhere, in a transaction, which `fail` rolls back."""
    with transaction.atomic():
        handle = get_app("far").sync(ping.enqueue(request.POST["text"]))
        if "fail" in request.POST:
            transaction.set_rollback(True)
    return JsonResponse({"id": handle.id})
