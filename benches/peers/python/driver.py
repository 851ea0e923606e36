"""Drives procrastinate, in the modes that src/postgres.rs describes. Tuned: jobs enqueued together, many at once, woken
by NOTIFY. It has no way to take or to finish more than one job in a statement."""

import asyncio
import logging
import os
import sys
import time

import procrastinate

# Jobs in one enqueue call, and calls under way at once; as in `tenure bench`.
BATCH, CALLS = 1000, 4
# What a payload with a send time starts with.
STAMP = "sent:"
CONCURRENCY = 20

logging.getLogger("procrastinate").setLevel(logging.ERROR)
mode, url, *args = sys.argv[1:]
fast = args[-1:] == ["fast"]
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, min_size=4, max_size=20))
delays: list[int] = []
done = 0


def say(line: str) -> None:
    print(line, flush=True)


@app.task(name="noop", queue="bench")
async def noop(p: str) -> None:
    global done
    if p.startswith(STAMP):
        delays.append(time.monotonic_ns() - int(p.removeprefix(STAMP)))
    done += 1
    if mode == "hold":
        say("start")
        await asyncio.Event().wait()


if mode == "hold" and fast:
    # By default nobody retries a lost worker's jobs; this task is what its documentation says to write.
    @app.periodic(cron="* * * * * *")
    @app.task(name="retry_stalled", queueing_lock="retry_stalled", pass_context=True)
    async def retry_stalled(context: procrastinate.JobContext, timestamp: int) -> None:
        for job in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=3):
            await app.job_manager.retry_job(job)


async def wait_for_go() -> None:
    say("ready")
    await asyncio.to_thread(sys.stdin.readline)


async def produce(jobs: str, size: str) -> None:
    await wait_for_go()
    left, payload = int(jobs), {"p": "x" * int(size)}

    async def call() -> None:
        nonlocal left
        while left > 0:
            count = min(left, BATCH)
            left -= count
            await noop.batch_defer_async(*[payload] * count)

    await asyncio.gather(*(call() for _ in range(CALLS)))
    say("done")


async def pace(jobs: str, rate: str) -> None:
    """A steady rate that does not wait for answers."""
    await wait_for_go()
    began, calls = time.monotonic(), []
    for number in range(1, int(jobs) + 1):
        await asyncio.sleep(max(0.0, began + number / int(rate) - time.monotonic()))
        calls.append(asyncio.create_task(noop.defer_async(p=f"{STAMP}{time.monotonic_ns()}")))
    await asyncio.gather(*calls)
    say("done")


def start_worker() -> asyncio.Task:
    liveness = {"update_heartbeat_interval": 1, "stalled_worker_timeout": 3600} if fast else {}
    return asyncio.create_task(
        app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False, **liveness)
    )


async def running_worker() -> asyncio.Task:
    """Starts a worker and waits until it is in the table of workers. Whoever keeps the task keeps it alive."""
    # Not a count: a worker that starts also removes those that were lost.
    newest = "SELECT coalesce(max(id), 0) AS id FROM procrastinate_workers"
    before = (await app.connector.execute_query_one_async(newest))["id"]
    worker = start_worker()
    while (await app.connector.execute_query_one_async(newest))["id"] <= before:
        if worker.done():
            worker.result()
        await asyncio.sleep(0.01)
    return worker


async def work(jobs: str) -> None:
    await wait_for_go()
    worker = await running_worker()
    say("running")
    drained = "SELECT NOT EXISTS (SELECT FROM procrastinate_jobs WHERE status IN ('todo', 'doing')) AS drained"
    while done < int(jobs) or not (await app.connector.execute_query_one_async(drained))["drained"]:
        await asyncio.sleep(0.005)
    say("done " + " ".join(map(str, delays)))
    # The worker would wait for new jobs.
    os._exit(0)


async def hold(_settings: str) -> None:
    await wait_for_go()
    worker = await running_worker()
    say("running")
    await worker


async def setup(_settings: str) -> None:
    await app.schema_manager.apply_schema_async()


async def main() -> None:
    async with app.open_async():
        await {"setup": setup, "produce": produce, "pace": pace, "work": work, "hold": hold}[mode](*args)


asyncio.run(main())
