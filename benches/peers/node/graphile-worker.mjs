// Drives graphile-worker. Tuned: a local queue filled by one statement, completions written together.
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";
import { drive } from "./driver.mjs";

const logger = new Logger(() => (level, message) => level === "error" && console.error(message));

drive(async (connectionString) => {
  const pgPool = new pg.Pool({ connectionString, max: 10 });
  const fail = (error) => (console.error(error), process.exit(1));
  pgPool.on("error", fail).on("connect", (client) => client.on("error", fail));
  const utils = await makeWorkerUtils({ pgPool, logger });
  return {
    setup: () => utils.migrate(),
    enqueue: (payloads) => utils.addJobs(payloads.map((p) => ({ identifier: "noop", payload: { p } }))),
    // Nothing makes recovery faster: a lock is free after four hours, and that number is in its SQL.
    work: (handle) =>
      run({
        pgPool,
        logger,
        noHandleSignals: true,
        taskList: { noop: ({ p }) => handle(p) },
        crontab: "",
        preset: {
          worker: {
            concurrentJobs: 500,
            localQueue: { size: 1000 },
            completeJobBatchDelay: 0,
            failJobBatchDelay: 0,
            pollInterval: 1000,
          },
        },
      }),
    isDrained: async () =>
      (await pgPool.query("SELECT NOT EXISTS (SELECT FROM graphile_worker._private_jobs) AS drained")).rows[0].drained,
  };
});
