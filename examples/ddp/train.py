"""Trains a classifier with DistributedDataParallel on nodes that may be reclaimed at any time."""

import signal

told_to_stop = False


def on_notice(*_):
    global told_to_stop
    told_to_stop = True


signal.signal(signal.SIGTERM, on_notice)  # before the slow imports: a notice may come at any time

import json
import os
import pathlib
import shutil
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

STEPS = 300
SAVE_EVERY = 25
CHECKPOINTS = pathlib.Path(os.environ["SLUICE_CHECKPOINT_DIR"])


def batch(step, rank):
    """Stands in for your data. Because it depends only on its arguments, a resumed training sees the same rows as an uninterrupted one."""
    time.sleep(0.03)  # as long as reading them takes
    rows = torch.randn(64, 32, generator=torch.Generator().manual_seed(1000 * step + rank))
    return rows, (rows[:, 0] * rows[:, 1] > 0).long()


def save(step, model, optimizer):
    """Writes a checkpoint under another name and renames it: a folder step-<n> is complete."""
    new = CHECKPOINTS / f".step-{step}"
    new.mkdir()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, new / "state.pt")
    new.rename(CHECKPOINTS / f"step-{step}")
    for old in sorted(CHECKPOINTS.glob("step-*"), key=lambda path: int(path.name[5:]))[:-2]:
        shutil.rmtree(old)


def main():
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if torch.cuda.is_available() else torch.device("cpu")

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 128), torch.nn.ReLU(), torch.nn.Linear(128, 2)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    done = 0
    if resume := os.environ.get("SLUICE_RESUME_DIR"):
        state = torch.load(pathlib.Path(resume, "state.pt"), map_location=device)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        done = state["step"]
    parallel = DistributedDataParallel(model)
    parallel.register_comm_hook(None, default_hooks.fp16_compress_hook)  # gradients travel as 16-bit numbers

    metrics = open(os.environ["SLUICE_METRICS"], "a")
    for step in range(done + 1, STEPS + 1):
        began = time.monotonic()
        rows, labels = batch(step, rank)
        loss = torch.nn.functional.cross_entropy(parallel(rows.to(device)), labels.to(device))
        if device.type == "cuda":
            torch.cuda.synchronize()
        line = {"step": step, "rank": rank, "work_seconds": time.monotonic() - began}  # during backward() the ranks wait for each other
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        # The ranks agree on the step after which they stop, although they may be told at different times.
        shared = torch.stack([loss.detach() / world, torch.tensor(float(told_to_stop), device=device)])
        dist.all_reduce(shared)
        stop = shared[1].item() > 0
        if rank == 0:
            line |= {"of": STEPS, "loss": shared[0].item()}
        print(json.dumps(line), file=metrics, flush=True)
        if rank == 0 and (stop or step % SAVE_EVERY == 0):
            save(step, model, optimizer)
        if stop and step < STEPS:
            dist.barrier()  # no rank leaves before the checkpoint is written
            dist.destroy_process_group()  # nor with an error because another has left
            return 143
    if rank == 0:
        torch.save(model.state_dict(), pathlib.Path(os.environ["SLUICE_OUTPUT_DIR"], "model.pt"))
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
