// What the drivers written in JavaScript share: the modes that src/postgres.rs describes, for a queue that can
//   setup(fast)              make the tables
//   enqueue(payloads)        durable when it resolves
//   work(handle, fast)       start a worker that lives as long as this process; it calls handle(payload) for each job
//   isDrained()              whether the database has no job that is not done
import { createInterface } from "node:readline";

// Jobs in one enqueue call, and calls under way at once; as in `tenure bench`.
const BATCH = 1000;
const CALLS = 4;
// What a payload with a send time starts with.
const STAMP = "sent:";

const say = (line) => process.stdout.write(line + "\n");
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const forever = () => new Promise(() => {});

async function waitForGo() {
  say("ready");
  for await (const _ of createInterface({ input: process.stdin })) return;
}

export async function drive(open) {
  const [mode, url, first, second] = process.argv.slice(2);
  const queue = await open(url);
  await modes[mode](queue, first, second);
  process.exit(0);
}

const modes = {
  setup: (queue, settings) => queue.setup(settings === "fast"),

  async produce(queue, jobs, bytes) {
    await waitForGo();
    let left = Number(jobs);
    const payload = "x".repeat(Number(bytes));
    const call = async () => {
      while (left > 0) {
        const count = Math.min(left, BATCH);
        left -= count;
        await queue.enqueue(Array(count).fill(payload));
      }
    };
    await Promise.all(Array.from({ length: CALLS }, call));
    say("done");
  },

  // A steady rate that does not wait for answers.
  async pace(queue, jobs, rate) {
    await waitForGo();
    const began = performance.now();
    const calls = [];
    for (let number = 1; number <= Number(jobs); number++) {
      const due = began + (number * 1000) / Number(rate);
      if (due > performance.now()) await sleep(due - performance.now());
      calls.push(queue.enqueue([STAMP + process.hrtime.bigint()]));
    }
    await Promise.all(calls);
    say("done");
  },

  async work(queue, jobs) {
    await waitForGo();
    const delays = [];
    let done = 0;
    await queue.work((payload) => {
      if (payload.startsWith(STAMP)) delays.push(process.hrtime.bigint() - BigInt(payload.slice(STAMP.length)));
      done++;
    }, false);
    say("running");
    while (done < Number(jobs) || !(await queue.isDrained())) await sleep(5);
    say("done " + delays.join(" "));
  },

  async hold(queue, settings) {
    await waitForGo();
    await queue.work(() => (say("start"), forever()), settings === "fast");
    say("running");
    await forever();
  },
};
