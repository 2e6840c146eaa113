"""Entry points that clients call: jobs are taken in, and what was taken in is changed from outside."""

from __future__ import annotations

from typing import NamedTuple

from .entry import DRAINS, Flat, ServerCall


class JobArguments(NamedTuple):
    """A job that is asked for. Its spec has what is unusual about it: nothing, `=` and an envelope, or JSON."""

    id: bytes
    task: str | None
    payload: bytes
    spec: bytes


class AnswerFields(NamedTuple):
    """The answer to one job."""

    status: bytes
    id: bytes
    run: int
    state: bytes
    result: bytes | None
    error: bytes | None


class EnqueueReply(NamedTuple):
    """All jobs are `new`, with runs from the first on and a letter for each one's state; or each has its answer.

    `posted` instead of `mixed` says that other queues must be told; `taken`, that an idle worker got the jobs at once.
    """

    status: bytes
    first: int | None
    letters: bytes | None
    taken: int | None
    answers: list[Flat] | None


class EnqueueCall(ServerCall[EnqueueReply]):
    """Take jobs in, or answer for those that hold their ids."""

    reply, takes, gives = EnqueueReply, (JobArguments,), (AnswerFields,)
    queue: str
    request: str
    history: int
    conflict: bytes
    count: int


class AlikeArguments(NamedTuple):
    """One of many jobs that have their task and all that is unusual about them in common."""

    id: bytes
    payload: bytes


class EnqueueAlikeCall(ServerCall[EnqueueReply]):
    """The same for jobs of one task with the same `spec`, as those are that are enqueued together by one caller."""

    reply, takes, gives = EnqueueReply, (AlikeArguments,), (AnswerFields,)
    queue: str
    request: str
    history: int
    conflict: bytes
    count: int
    task: str | None
    spec: bytes


class CancelReply(NamedTuple):
    """What became of the job, and in which state it was."""

    reply: bytes
    state: bytes | None
    run: int | None
    signalled: int | None
    successor: int | None


class CancelCall(ServerCall[CancelReply]):
    """Cancel a job that has not started; refuse or signal one that runs."""

    reply, flag = CancelReply, DRAINS
    request: str
    id: bytes
    running: str
    actor: str | None


class PromoteCall(ServerCall[bytes]):
    """Let a scheduled job wait from now on."""

    flag = DRAINS
    id: bytes
    actor: str | None


class RunArguments(NamedTuple):
    """A run, in six bytes."""

    rid: bytes


class RequeuedFields(NamedTuple):
    """A job that was requeued: its id and its new run (its old one, where it was only asked for)."""

    id: bytes
    run: int


class RequeueCall(ServerCall[Flat]):
    """Start finished runs anew, or say which would be."""

    reply, takes, gives = list, (RunArguments,), (RequeuedFields,)
    request: str
    dry_run: bool
    actor: str | None


class DeleteCall(ServerCall[bytes]):
    """Delete a job, and the chain that it began."""

    flag = DRAINS
    id: bytes
    actor: str | None


class SetResultTtlCall(ServerCall[bytes]):
    """Keep the result of one job for so long."""

    flag = DRAINS
    id: bytes
    ttl_ms: int
    actor: str | None


class KeepRunsCall(ServerCall[bytes]):
    """Keep the results of a range of runs for so long, or as the queue says."""

    first: int
    last: int
    ttl_ms: int | None


class CompleteChainCall(ServerCall[bytes]):
    """Complete the current job of a chain, if it is in this queue, whichever worker has it."""

    flag = DRAINS
    request: str
    id: bytes
    run: int | None
    result: bytes
    ttl_ms: int | None
    actor: str | None


class WaitingFields(NamedTuple):
    """A job that waits for the chain."""

    queue: bytes
    run: int
    id: bytes


class DeleteChainReply(NamedTuple):
    """How many chains went; or which jobs wait for it; or in which queue (and by which id and run) the chain began."""

    reply: bytes
    chains: int | None
    waiting: Flat | None
    elsewhere: Flat | None


class DeleteChainCall(ServerCall[DeleteChainReply]):
    """Delete a chain unless others wait for it; with `cascade`, those as well."""

    reply, flag, gives = DeleteChainReply, DRAINS, (WaitingFields,)
    id: bytes
    run: int | None
    cascade: bool
    actor: str | None


class MessageFields(NamedTuple):
    """A message for another queue."""

    number: int
    target: bytes
    kind: bytes
    body: bytes


class OutboxCall(ServerCall[Flat]):
    """Return messages for other queues, after those up to a number, which were delivered, are gone."""

    reply, flag, gives = list, DRAINS, (MessageFields,)
    delivered: str | None


class MessageArguments(NamedTuple):
    """A message from another queue."""

    number: str
    kind: str
    body: bytes


class ReceiveCall(ServerCall[bytes]):
    """Apply messages that another queue sent, each once."""

    flag, takes = DRAINS, (MessageArguments,)
    queue: str
    sender: str


class PutScheduleReply(NamedTuple):
    """Whether it was written; and the answers to the jobs of its ticks, if there were any."""

    reply: bytes
    enqueued: Flat | None


class PutScheduleCall(ServerCall[PutScheduleReply]):
    """Write a schedule, if it still has the expected revision, and take in the jobs of its ticks.

    `action` is what the log says of it, as JSON.
    """

    reply, takes = PutScheduleReply, (JobArguments,)
    queue: str
    name: str
    expected: str
    revision: str
    next_at: int | None
    body: bytes | None
    history: int
    conflict: bytes
    action: str | None
    count: int


ENTRIES = (
    EnqueueCall, EnqueueAlikeCall, CancelCall, PromoteCall, RequeueCall, DeleteCall, SetResultTtlCall, KeepRunsCall,
    CompleteChainCall, DeleteChainCall, OutboxCall, ReceiveCall, PutScheduleCall,
)  # fmt: skip
