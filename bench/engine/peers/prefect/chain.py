"""A chain of no-op tasks as a Prefect flow, called as a function: Prefect starts a server of its own beside it, on SQLite."""

import json
import os
import sys
import time

os.environ |= {"PREFECT_LOGGING_LEVEL": "ERROR", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
os.environ["PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"] = "120"  # 20 are too few the first time, when nothing is compiled yet

import prefect
from prefect import flow, task

steps, samples = int(os.environ["CHAIN_STEPS"]), int(os.environ["CHAIN_SAMPLES"])


@task
def noop(n: int) -> int:
    return n + 1


@flow
def chain() -> int:
    n = 0
    for _ in range(steps):
        n = noop(n)
    return n


def timed() -> float:
    began = time.perf_counter()
    done = chain()
    took = time.perf_counter() - began
    assert done == steps, done
    return took


if __name__ == "__main__":
    timed()  # starts the server
    result = {"version": prefect.__version__, "seconds": [timed() for _ in range(samples)]}
    with open("result.json", "w") as f:
        json.dump(result, f)
