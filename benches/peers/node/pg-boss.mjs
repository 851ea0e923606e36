// Drives pg-boss. Tuned: `batchSize` jobs in one fetch and one completion, fetching on while batches are full, woken
// by NOTIFY.
import { PgBoss } from "pg-boss";
import pg from "pg";
import { drive } from "./driver.mjs";

const QUEUE = "bench";

drive(async (connectionString) => {
  const pool = new pg.Pool({ connectionString, max: 2 });
  const start = async (options) => {
    const boss = new PgBoss({ connectionString, max: 10, schedule: false, ...options });
    boss.on("error", (error) => (console.error(error), process.exit(1)));
    await boss.start();
    return boss;
  };
  // The producer's own; a worker has another one, with a supervisor.
  const client = start({ supervise: false });
  return {
    // Ten seconds is the shortest heartbeat it takes.
    setup: async (fast) =>
      (await client).createQueue(QUEUE, { notify: true, ...(fast && { heartbeatSeconds: 10 }) }),
    enqueue: async (payloads) => (await client).insert(QUEUE, payloads.map((p) => ({ data: { p } }))),
    work: async (handle, fast) => {
      const boss = await start({
        useListenNotify: true,
        ...(fast && { superviseIntervalSeconds: 1, monitorIntervalSeconds: 1 }),
      });
      const options = { batchSize: 1000, localConcurrency: 2, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 };
      // A job that is tried again notifies nobody.
      if (fast) options.notifyPollingIntervalSeconds = 0.5;
      await boss.work(QUEUE, options, (jobs) => Promise.all(jobs.map((job) => handle(job.data.p))));
    },
    isDrained: async () =>
      (await pool.query("SELECT NOT EXISTS (SELECT FROM pgboss.job WHERE state < 'completed') AS drained")).rows[0]
        .drained,
  };
});
