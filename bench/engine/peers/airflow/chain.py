"""A chain of no-op tasks as an Airflow DAG, run by dag.test(): in this process, without scheduler, kept in SQLite below $AIRFLOW_HOME."""

import datetime
import json
import os
import subprocess
import sys
import time

os.environ |= {
    "AIRFLOW_HOME": os.getcwd(),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
}

import airflow
from airflow.sdk import dag, task

steps, samples = int(os.environ["CHAIN_STEPS"]), int(os.environ["CHAIN_SAMPLES"])


@task
def noop(n: int) -> int:
    return n + 1


@dag(schedule=None, start_date=datetime.datetime(2026, 1, 1))
def chain():
    n = 0
    for _ in range(steps):
        n = noop(n)


pipeline = chain()


def timed() -> float:
    began = time.perf_counter()
    run = pipeline.test()
    took = time.perf_counter() - began
    assert run.state == "success", run.state
    return took


if __name__ == "__main__":
    subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], check=True)
    os.makedirs("dags")
    os.symlink(__file__, "dags/chain.py")  # a DAG must be found there to be run
    timed()
    result = {"version": airflow.__version__, "seconds": [timed() for _ in range(samples)]}
    with open("result.json", "w") as f:
        json.dump(result, f)
