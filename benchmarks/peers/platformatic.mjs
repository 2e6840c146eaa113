// [{"name": "platformatic", "store": "redis", "packages": ["@platformatic/job-queue"], "measures": ["enqueue", "bulk", "drain", "latency", "call", "sleep", "footprint"], "note": "@platformatic/job-queue on Node; concurrency 100; it has no bulk call: 1,000 enqueues under way at once"}]
import { Queue, RedisStorage } from '@platformatic/job-queue';
import { createInterface } from 'node:readline';
import { writeSync } from 'node:fs';
import { randomUUID } from 'node:crypto';

const [verb, ...rest] = process.argv.slice(2);
const options = Object.fromEntries(rest.map((each) => [each.slice(2, each.indexOf('=')), each.slice(each.indexOf('=') + 1)]));
const jobs = Number(options.jobs);
const data = { data: 'x'.repeat(100) };
const say = (line) => writeSync(1, JSON.stringify(line) + '\n');
const now = () => process.hrtime.bigint();
const since = (began) => Number(now() - began) / 1e9;
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

// Seconds from the start of the worker to its last completion.
async function handled(count, handler) {
  await fill(await producer(), count);
  const queue = made();
  let done = 0;
  const over = new Promise((resolve) => queue.on('completed', () => { if (++done === count) resolve(); }));
  queue.execute(handler);
  const began = now();
  await queue.start();
  await over;
  return since(began);
}

async function trips(queue) {
  const call = () => queue.enqueueAndWait(randomUUID(), data, { timeout: 30000 });
  for (let n = 0; n < 20; n++) await call();
  const times = [];
  let end = performance.now() + 8000;
  for (let n = 0; n < 1000 && performance.now() < end; n++) {
    const began = now();
    await call();
    times.push(since(began) * 1000);
  }
  say({ metric: 'call_p50', value: times.sort((a, b) => a - b)[times.length >> 1] });
  let done = 0;
  end = performance.now() + 8000;
  const began = now();
  const caller = async () => { for (let n = 0; n < 200 && performance.now() < end; n++) { await call(); done++; } };
  await Promise.all(Array.from({ length: 50 }, caller));
  say({ metric: 'callers', value: done / since(began) });
}

const verbs = {
  async enqueue() {
    const queue = await producer();
    const began = now();
    for (let n = 0; n < jobs; n++) await queue.enqueue(randomUUID(), data);
    say({ metric: verb, value: jobs / since(began) });
  },
  async bulk() {
    const queue = await producer();
    const began = now();
    await fill(queue, jobs);
    say({ metric: verb, value: jobs / since(began) });
  },
  async drain() {
    say({ metric: verb, value: jobs / await handled(jobs, async () => null) });
  },
  async sleep() {
    const nap = () => new Promise((over) => setTimeout(() => over(null), 50));
    say({ metric: 'sleep', value: await handled(2000, nap) });
  },
  async call() {
    await trips(await producer());
  },
  async serve() {
    const queue = made();
    queue.execute(async () => { say({ started: Number(now()) }); return null; });
    await queue.start();
    await new Promise(() => {});
  },
  async send() {
    const queue = await producer();
    for await (const _ of createInterface({ input: process.stdin })) {
      say({ sent: Number(now()) });
      await queue.enqueue(randomUUID(), data);
    }
  },
};
await verbs[verb]();
process.exit(0);
