"""Actions on many jobs by filter: started, looked at and stopped."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ...json.form import JsonObject
from ...store.contract import Running
from ..operations import MOST_MATCHED, Action, Order
from ..problem import Problem
from .endpoint import Answered, ApiCall, EndpointGroup
from .job_actions import EmptyForm
from .jobs import FilterForm
from .shapes import OperationList, OperationShape

group = EndpointGroup("operations")


class OperationName(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An operation, by the id that its start answered."""

    id: str


class OperationForm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to do, and to which jobs. With `dry_run`, they are counted, and nothing is changed."""

    action: Action
    filter: FilterForm = FilterForm()
    all: bool = False
    """An empty filter is meant: every job of the store."""
    dry_run: bool = False
    limit: Annotated[int, Meta(ge=1, le=MOST_MATCHED)] = MOST_MATCHED
    running: Running = "refuse"
    """Of cancel: what becomes of jobs that run."""


@group.add("POST", "/operations", body=OperationForm, answer=OperationShape)
async def start_operation(call: ApiCall[Any, OperationForm]) -> Answered:
    """Cancel, requeue, promote or delete all jobs that match, in the background; or count them (`dry_run`).

    The status is 202; `GET /operations/{id}` tells how far it is.
    """
    form = call.body
    given = form.filter.given()
    if not given and not form.all:
        raise Problem(400, "empty-filter", 'an empty filter is every job of the store: give a filter, or {"all": true}')
    shown = {name: value for name, value in msgspec.to_builtins(form.filter).items() if value not in (None, [], ())}
    order = Order(
        action=form.action, filter=given, shown=shown, by=call.identity.name, dry_run=form.dry_run, limit=form.limit,
        running=form.running,
    )  # fmt: skip
    made = call.site.operations.start(order)
    return Answered(202, made.form())


@group.add("GET", "/operations", answer=OperationList)
async def list_operations(call: ApiCall[Any, None]) -> JsonObject:
    """List the operations of this server, newest first; those that are over are remembered for a while."""
    return {"operations": [each.form() for each in call.site.operations.all()]}


@group.add("GET", "/operations/{id}", query=OperationName, answer=OperationShape)
async def get_operation(call: ApiCall[OperationName, None]) -> JsonObject:
    """Show how far an operation is."""
    return call.site.operations.get(call.query.id).form()


@group.add("POST", "/operations/{id}/stop", query=OperationName, body=EmptyForm, answer=OperationShape)
async def stop_operation(call: ApiCall[OperationName, EmptyForm]) -> JsonObject:
    """Stop an operation. What it has done stays done."""
    found = call.site.operations.get(call.query.id)
    found.stop = True
    return found.form()
