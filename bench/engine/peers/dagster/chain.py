"""A chain of no-op ops as a Dagster job, executed in this process; runs and events are kept in SQLite below $DAGSTER_HOME."""

import json
import os
import sys
import time

import dagster

os.environ |= {"DAGSTER_HOME": os.getcwd(), "DAGSTER_DISABLE_TELEMETRY": "yes"}

steps, samples = int(os.environ["CHAIN_STEPS"]), int(os.environ["CHAIN_SAMPLES"])


@dagster.op
def first() -> int:
    return 1


@dagster.op
def noop(n: int) -> int:
    return n + 1


@dagster.job(config={"loggers": {"console": {"config": {"log_level": "ERROR"}}}})
def chain():
    n = first()
    for i in range(1, steps):
        n = noop.alias(f"s{i}")(n)


def timed(instance: dagster.DagsterInstance) -> float:
    began = time.perf_counter()
    done = chain.execute_in_process(instance=instance)
    took = time.perf_counter() - began
    assert done.success and done.output_for_node(f"s{steps - 1}") == steps
    return took


if __name__ == "__main__":
    with dagster.DagsterInstance.get() as instance:
        timed(instance)
        result = {"version": dagster.__version__, "seconds": [timed(instance) for _ in range(samples)]}
    with open("result.json", "w") as f:
        json.dump(result, f)
