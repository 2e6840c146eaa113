// [{"name": "bullmq", "store": "redis", "packages": ["bullmq", "ioredis"], "measures": ["enqueue", "bulk", "drain", "latency", "call", "sleep", "footprint"], "note": "on Node; concurrency 100, completed jobs are kept; bulk in chunks of 1,000"}]
import { Queue, QueueEvents, Worker } from 'bullmq';
import { createInterface } from 'node:readline';
import { writeSync } from 'node:fs';

const [verb, ...rest] = process.argv.slice(2);
const options = Object.fromEntries(rest.map((each) => [each.slice(2, each.indexOf('=')), each.slice(each.indexOf('=') + 1)]));
const { hostname: host, port } = new URL(options.url);
const connection = { host, port: Number(port), maxRetriesPerRequest: null };
const jobs = Number(options.jobs);
const data = { data: 'x'.repeat(100) };
const kept = { removeOnComplete: false };
const say = (line) => writeSync(1, JSON.stringify(line) + '\n');
const rate = (began) => say({ metric: verb, value: jobs / (Number(process.hrtime.bigint() - began) / 1e9) });

async function fill(queue) {
  for (let first = 0; first < jobs; first += 1000) {
    const size = Math.min(1000, jobs - first);
    await queue.addBulk(Array.from({ length: size }, () => ({ name: 'noop', data, opts: kept })));
  }
}

const queue = new Queue('bench', { connection });
await queue.waitUntilReady();
if (verb === 'enqueue') {
  const began = process.hrtime.bigint();
  for (let n = 0; n < jobs; n++) await queue.add('noop', data, kept);
  rate(began);
} else if (verb === 'bulk') {
  const began = process.hrtime.bigint();
  await fill(queue);
  rate(began);
} else if (verb === 'drain') {
  await fill(queue);
  let done = 0;
  const began = process.hrtime.bigint();
  await new Promise((resolve) => {
    const worker = new Worker('bench', async () => {}, { connection, concurrency: 100 });
    worker.on('completed', () => { if (++done === jobs) resolve(); });
  });
  rate(began);
} else if (verb === 'call') {
  const events = new QueueEvents('bench', { connection });
  await events.waitUntilReady();
  const call = async () => (await queue.add('noop', data, kept)).waitUntilFinished(events);
  for (let n = 0; n < 200; n++) await call();
  const times = [];
  for (let n = 0; n < 1000; n++) {
    const began = process.hrtime.bigint();
    await call();
    times.push(Number(process.hrtime.bigint() - began) / 1e6);
  }
  say({ metric: 'call_p50', value: times.sort((a, b) => a - b)[500] });
  const began = process.hrtime.bigint();
  await Promise.all(Array.from({ length: 50 }, async () => { for (let n = 0; n < 200; n++) await call(); }));
  say({ metric: 'callers', value: 10000 / (Number(process.hrtime.bigint() - began) / 1e9) });
} else if (verb === 'sleep') {
  await queue.addBulk(Array.from({ length: 2000 }, () => ({ name: 'nap', data: {}, opts: kept })));
  let done = 0;
  const began = process.hrtime.bigint();
  await new Promise((resolve) => {
    const nap = () => new Promise((over) => setTimeout(over, 50));
    const worker = new Worker('bench', nap, { connection, concurrency: 100 });
    worker.on('completed', () => { if (++done === 2000) resolve(); });
  });
  say({ metric: 'sleep', value: Number(process.hrtime.bigint() - began) / 1e9 });
} else if (verb === 'serve') {
  new Worker('bench', async () => say({ started: Number(process.hrtime.bigint()) }), { connection, concurrency: 100 });
  await new Promise(() => {});
} else if (verb === 'send') {
  for await (const _ of createInterface({ input: process.stdin })) {
    say({ sent: Number(process.hrtime.bigint()) });
    await queue.add('noop', data, kept);
  }
}
process.exit(0);
