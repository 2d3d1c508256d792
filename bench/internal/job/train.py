"""Trains two ranks on the CPU, by itself, under torchrun or under Sluice. TRACE names the file that rank 0 writes a line to with each step,
and each rank its process ID to the file with that name and its number."""

import json
import os
import pathlib
import shutil
import signal
import sys
import time

import torch
import torch.distributed as dist

STEPS, PAUSE = int(os.environ["STEPS"]), float(os.environ["STEP_SECONDS"])
EVERY, MEGABYTES = float(os.environ["SAVE_SECONDS"]), int(os.environ["MEGABYTES"])
TRACE = os.environ["TRACE"]
rank = int(os.environ["RANK"])
pathlib.Path(f"{TRACE}.{rank}").write_text(str(os.getpid()))
checkpoints = pathlib.Path(os.environ.get("SLUICE_CHECKPOINT_DIR") or os.environ["CHECKPOINTS"])

stop = False


def told(*_):
    global stop
    stop = True


signal.signal(signal.SIGTERM, told)


def newest():
    if "SLUICE_CHECKPOINT_DIR" in os.environ:
        return os.environ.get("SLUICE_RESUME_DIR")
    saved = sorted(checkpoints.glob("step-*"), key=lambda p: int(p.name[5:]))
    return saved[-1] if saved else None


def save(step, state):
    if rank != 0:
        return
    new = checkpoints / f".new-{step}"
    new.mkdir(parents=True)
    torch.save({"step": step, **state}, new / "state.pt")
    new.rename(checkpoints / f"step-{step}")
    for old in sorted(checkpoints.glob("step-*"), key=lambda p: int(p.name[5:]))[:-2]:
        shutil.rmtree(old)


dist.init_process_group("gloo")
torch.manual_seed(1)
weights = torch.randn(1000, dtype=torch.float64)
work = torch.randn(int(os.environ["WORK"]))
ballast = torch.randint(256, (MEGABYTES * 1_000_000,), dtype=torch.uint8) if rank == 0 else None
step, resume = 0, newest()
if resume:
    state = torch.load(pathlib.Path(resume) / "state.pt")
    step, weights = state["step"], state["weights"]
saved = time.monotonic()
while step < STEPS:
    # All ranks do the same: what rank 0 wants, or any that was told to stop.
    wish = torch.tensor([float(stop), float(rank == 0 and time.monotonic() - saved >= EVERY)])
    dist.all_reduce(wish)
    if wish.any():
        save(step, {"weights": weights, "ballast": ballast})
        saved = time.monotonic()
    if wish[0]:
        dist.barrier()
        os._exit(143)
    work.sin_()
    gradient = torch.sin(weights * (step + 1)) * (rank + 1)
    dist.all_reduce(gradient)
    weights -= 0.01 * gradient
    time.sleep(PAUSE)
    step += 1
    if rank == 0:
        loss = float(weights.square().mean())
        if "SLUICE_METRICS" in os.environ:
            with open(os.environ["SLUICE_METRICS"], "a") as out:
                out.write(json.dumps({"step": step, "of": STEPS, "loss": loss}) + "\n")
        with open(TRACE, "a") as out:
            out.write(json.dumps({"at": time.time(), "step": step, "pid": os.getpid(), "loss": loss}) + "\n")
dist.barrier()
sys.stdout.flush()
os._exit(0)
