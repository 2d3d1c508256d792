"""Fits a line step by step, as a training that can be interrupted and resumed on another machine: train.py STEPS.

SLUICE_RESUME_DIR is the checkpoint to resume from, SLUICE_CHECKPOINT_DIR the folder for new ones, and SLUICE_METRICS
the file for one line of JSON per step. SIGTERM announces the loss of the machine: write a checkpoint and exit with 143.
"""

import json
import os
import pathlib
import random
import signal
import sys
import time

RATE, EVERY = 0.005, 50

stop = False


def on_notice(*_):
    global stop
    stop = True


def checkpoint(step, slope, offset):
    """Writes a folder step-<n>, which appears by a rename, so that it is never incomplete."""
    folder = pathlib.Path(os.environ["SLUICE_CHECKPOINT_DIR"], f"step-{step}")
    beside = folder.with_name(f".{folder.name}")
    beside.mkdir(parents=True, exist_ok=True)
    (beside / "state.json").write_text(json.dumps({"step": step, "slope": slope, "offset": offset}))
    beside.rename(folder)


def main(steps):
    signal.signal(signal.SIGTERM, on_notice)
    random.seed(7)
    points = [(x, 2 * x + 1 + random.gauss(0, 0.3)) for x in (random.uniform(0, 10) for _ in range(200))]
    first, slope, offset = 0, 0.0, 0.0
    if resume := os.environ.get("SLUICE_RESUME_DIR"):
        saved = json.loads(pathlib.Path(resume, "state.json").read_text())
        first, slope, offset = saved["step"], saved["slope"], saved["offset"]
    print(f"begins after step {first}", flush=True)
    with open(os.environ["SLUICE_METRICS"], "a") as metrics:
        for step in range(first + 1, steps + 1):
            loss = 0.0
            for x, y in points:
                error = slope * x + offset - y
                loss += error * error / len(points)
                slope -= RATE * error * x / 10
                offset -= RATE * error
            print(json.dumps({"step": step, "of": steps, "loss": loss}), file=metrics, flush=True)
            time.sleep(0.01)  # a step of yours takes longer
            if stop or step % EVERY == 0:
                checkpoint(step, slope, offset)
            if stop and step < steps:
                sys.exit(143)
    pathlib.Path(os.environ["SLUICE_OUTPUT_DIR"], "model.json").write_text(json.dumps({"slope": slope, "offset": offset}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
