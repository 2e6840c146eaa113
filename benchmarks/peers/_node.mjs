// What every peer on node needs: the lines that `benchmarks/script.py` describes, and its watch.
import { createInterface } from 'node:readline';
import { appendFileSync, readdirSync, readFileSync, writeSync } from 'node:fs';

const QUANTILES = [5, 25, 50, 75, 95, 99];
const TICKS = 100;

export const [verb, ...rest] = process.argv.slice(2);
export const options = Object.fromEntries(rest.map((each) => [each.slice(2, each.indexOf('=')), each.slice(each.indexOf('=') + 1)]));
export const jobs = Number(options.jobs);
export const data = { data: 'x'.repeat(100) };
export const now = () => process.hrtime.bigint();
export const since = (began) => Number(now() - began) / 1e9;
export const say = (line) => writeSync(1, JSON.stringify(line) + '\n');
const silent = 'HOLDFAST_BENCH_SILENT' in process.env;
export const started = () => silent || say({ started: Number(now()) });
export const nap = (seconds) => new Promise((over) => setTimeout(over, seconds * 1000));
export const noteDone = (job) => appendFileSync(`${options.folder}/done`, `${job}\n`);

function server() {
  const pid = process.env.HOLDFAST_BENCH_SERVER;
  if (!pid) return 0;
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1).split(' ');
  return fields.slice(11, 15).reduce((sum, each) => sum + Number(each), 0) / TICKS;
}

function own() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

// The rate of the work, and what each job cost, are said.
export async function rated(work) {
  const before = [own(), server()];
  const began = now();
  await work();
  const seconds = since(began);
  const [ours, theirs] = [own() - before[0], server() - before[1]];
  say({ metric: verb, value: jobs / seconds });
  say({ metric: `${verb}_us`, value: (ours / jobs) * 1e6 });
  say({ metric: `${verb}_server_us`, value: (theirs / jobs) * 1e6 });
}

// One caller, and fifty at once; after eight seconds no further call is begun.
export async function trips(call) {
  for (let n = 0; n < 20; n++) await call();
  const times = [];
  let end = performance.now() + 5000;
  for (let n = 0; n < 1000 && performance.now() < end; n++) {
    const began = now();
    await call();
    times.push(since(began) * 1000);
  }
  times.sort((a, b) => a - b);
  for (const share of QUANTILES) {
    const value = times[Math.min(times.length - 1, Math.floor((times.length * share) / 100))];
    say({ metric: `call_p${String(share).padStart(2, '0')}`, value });
  }
  let done = 0;
  end = performance.now() + 5000;
  const began = now();
  const caller = async () => { for (let n = 0; n < 200 && performance.now() < end; n++) { await call(); done++; } };
  await Promise.all(Array.from({ length: 50 }, caller));
  say({ metric: 'callers', value: done / since(began) });
}

// For each line on standard input a job is sent.
export async function sendOnRequest(send) {
  for await (const _ of createInterface({ input: process.stdin })) {
    say({ sent: Number(now()) });
    await send();
  }
}

// The version of a package beside this script.
export function sayVersion(name) {
  const home = new URL('.', import.meta.url);
  if (readdirSync(home).includes('node_modules')) {
    say({ version: JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, home))).version });
  }
}
