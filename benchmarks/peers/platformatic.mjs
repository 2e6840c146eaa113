// [{"name": "platformatic", "store": "redis", "packages": ["@platformatic/job-queue"], "measures": ["enqueue", "bulk", "drain", "latency", "call", "sleep", "footprint", "recovery"], "note": "@platformatic/job-queue on Node; concurrency 100; it has no bulk call: 1,000 enqueues under way at once", "lacks": "no priorities, limits over all workers, schedules or chains; no event log"}]
import { Queue, RedisStorage } from '@platformatic/job-queue';
import { randomUUID } from 'node:crypto';
import { data, jobs, nap, noteDone, options, rated, say, sayVersion, sendOnRequest, since, now, started, trips, verb } from './_node.mjs';

// The package wants Node 22; this is all that it misses on Node 20.
Promise.withResolvers ??= function withResolvers() {
  let resolve, reject;
  const promise = new this((yes, no) => { resolve = yes; reject = no; });
  return { promise, resolve, reject };
};

const made = () => new Queue({ storage: new RedisStorage({ url: options.url }), concurrency: 100 });

// A queue without a handler only produces.
async function producer() {
  const queue = made();
  await queue.start();
  return queue;
}

async function fill(queue, count) {
  for (let first = 0; first < count; first += 1000) {
    const size = Math.min(1000, count - first);
    await Promise.all(Array.from({ length: size }, () => queue.enqueue(randomUUID(), data)));
  }
}

// From the start of the worker to its last completion.
async function handled(count, handler) {
  const queue = made();
  let done = 0;
  const over = new Promise((resolve) => queue.on('completed', () => { if (++done === count) resolve(); }));
  queue.execute(handler);
  await queue.start();
  await over;
}

async function work(handler) {
  const queue = made();
  queue.execute(handler);
  await queue.start();
  await new Promise(() => {});
}

const verbs = {
  async enqueue() {
    const queue = await producer();
    await rated(async () => { for (let n = 0; n < jobs; n++) await queue.enqueue(randomUUID(), data); });
  },
  async bulk() {
    const queue = await producer();
    await rated(() => fill(queue, jobs));
  },
  async drain() {
    await fill(await producer(), jobs);
    await rated(() => handled(jobs, async () => ({ ok: true })));
  },
  async sleep() {
    await fill(await producer(), 2000);
    const began = now();
    await handled(2000, async () => { await nap(0.05); return { ok: true }; });
    say({ metric: 'sleep', value: since(began) });
  },
  async call() {
    const queue = await producer();
    await trips(() => queue.enqueueAndWait(randomUUID(), data, { timeout: 30000 }));
  },
  async serve() {
    await work(async () => { started(); return { ok: true }; });
  },
  async send() {
    const queue = await producer();
    await sendOnRequest(() => queue.enqueue(randomUUID(), data));
  },
  async load() {
    const queue = await producer();
    for (let n = 0; n < jobs; n++) await queue.enqueue(randomUUID(), { data: String(n) });
  },
  async toil() {
    await work(async (job) => { await nap(0.2); noteDone(job.payload.data); return { ok: true }; });
  },
};
sayVersion('@platformatic/job-queue');
await verbs[verb]();
process.exit(0);
