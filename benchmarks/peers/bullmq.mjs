// [{"name": "bullmq", "store": "redis", "packages": ["bullmq", "ioredis"], "measures": ["enqueue", "bulk", "drain", "latency", "call", "sleep", "footprint", "recovery"], "note": "on Node; concurrency 100, completed jobs are kept; bulk in chunks of 1,000", "lacks": "not in your transaction; fairness by group only in its paid version"}]
import { Queue, QueueEvents, Worker } from 'bullmq';
import { data, jobs, nap, noteDone, options, rated, say, sayVersion, sendOnRequest, since, now, started, trips, verb } from './_node.mjs';

const { hostname: host, port } = new URL(options.url);
const connection = { host, port: Number(port), maxRetriesPerRequest: null };
const kept = { removeOnComplete: false };
const queue = new Queue('bench', { connection });

async function fill() {
  for (let first = 0; first < jobs; first += 1000) {
    const size = Math.min(1000, jobs - first);
    await queue.addBulk(Array.from({ length: size }, () => ({ name: 'noop', data, opts: kept })));
  }
}

// Until so many jobs have completed.
function handled(count, handler) {
  let done = 0;
  return new Promise((resolve) => {
    const worker = new Worker('bench', handler, { connection, concurrency: 100 });
    worker.on('completed', () => { if (++done === count) resolve(); });
  });
}

const verbs = {
  async enqueue() {
    await rated(async () => { for (let n = 0; n < jobs; n++) await queue.add('noop', data, kept); });
  },
  async bulk() {
    await rated(fill);
  },
  async drain() {
    await fill();
    await rated(() => handled(jobs, async () => {}));
  },
  async sleep() {
    await queue.addBulk(Array.from({ length: 2000 }, () => ({ name: 'nap', data: {}, opts: kept })));
    const began = now();
    await handled(2000, () => nap(0.05));
    say({ metric: 'sleep', value: since(began) });
  },
  async call() {
    const events = new QueueEvents('bench', { connection });
    await events.waitUntilReady();
    await trips(async () => (await queue.add('noop', data, kept)).waitUntilFinished(events));
  },
  async serve() {
    new Worker('bench', async () => started(), { connection, concurrency: 100 });
    await new Promise(() => {});
  },
  async send() {
    await sendOnRequest(() => queue.add('noop', data, kept));
  },
  async load() {
    for (let n = 0; n < jobs; n++) await queue.add('noop', { data: String(n) }, kept);
  },
  async toil() {
    new Worker('bench', async (job) => { await nap(0.2); noteDone(job.data.data); }, { connection, concurrency: 100 });
    await new Promise(() => {});
  },
};
sayVersion('bullmq');
await queue.waitUntilReady();
await verbs[verb]();
process.exit(0);
