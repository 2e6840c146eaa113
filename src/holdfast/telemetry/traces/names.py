"""The names of spans and attributes: OpenTelemetry's messaging conventions (1.44), and a few of our own.

The conventions are still in development, so every name stands here and nowhere else.
"""

from __future__ import annotations

SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"
SYSTEM = "holdfast"
"""What `messaging.system` is."""

SEND, PROCESS, SETTLE = "send", "process", "settle"
"""Operations, which name their spans and are their types: a PRODUCER, a CONSUMER and a CLIENT."""

MESSAGING_SYSTEM = "messaging.system"
DESTINATION = "messaging.destination.name"
"""The queue."""
OPERATION_NAME = "messaging.operation.name"
OPERATION_TYPE = "messaging.operation.type"
MESSAGE_ID = "messaging.message.id"
"""The id of the job, on spans and links of one job."""
BATCH_COUNT = "messaging.batch.message_count"
"""How many jobs a span is about, where it is not one."""
ERROR_TYPE = "error.type"
"""The class of the error, or why nothing of the attempt counts."""
EXCEPTION = "exception"
EXCEPTION_TYPE = "exception.type"
EXCEPTION_MESSAGE = "exception.message"
EXCEPTION_STACKTRACE = "exception.stacktrace"

RUN = "holdfast.run"
"""The run of the job: attempts of one run are spans of their own, with the same run."""
ATTEMPT = "holdfast.attempt"
"""1 for the first attempt of a run."""
TASK = "holdfast.task"
OUTCOME = "holdfast.outcome"
"""How an attempt ended: complete, retry, fail, snooze, release, or lost when nothing of it counts."""
STATUS = "holdfast.status"
"""What became of an enqueue: queued, duplicate, updated, successor, requeued, completed or refused."""
WAITED = "holdfast.waited"
"""Seconds from when the job was due to its claim."""
SCHEDULE = "holdfast.schedule"
"""The schedule whose tick it was."""
LINK = "holdfast.link"
"""What a link leads to, where it is not the span that sent the job: blocker, failed, or worker."""
