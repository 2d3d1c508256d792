"""Trains with FSDP (fully_shard) and saves sharded checkpoints with torch.distributed.checkpoint."""

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
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

STEPS = 200
SAVE_EVERY = 25
CHECKPOINTS = pathlib.Path(os.environ["SLUICE_CHECKPOINT_DIR"])


def batch(step, rank):
    """Stands in for your data; it depends only on the step and the rank."""
    time.sleep(0.03)  # as long as reading it takes
    rows = torch.randn(64, 32, generator=torch.Generator().manual_seed(1000 * step + rank))
    return rows, (rows[:, 0] * rows[:, 1] > 0).long()


def save(step, model, optimizer):
    """Every rank writes its shards; when all have, one rank of each node renames its folder, which is then complete."""
    new, final = CHECKPOINTS / f".step-{step}", CHECKPOINTS / f"step-{step}"
    weights, moments = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": moments, "step": step}, checkpoint_id=new)
    dist.barrier()
    if os.environ["LOCAL_RANK"] == "0":
        new.rename(final)
        for old in sorted(CHECKPOINTS.glob("step-*"), key=lambda path: int(path.name[5:]))[:-2]:
            shutil.rmtree(old)


def load(folder, model, optimizer):
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments, "step": 0}
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    return state["step"]


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 128), torch.nn.ReLU(), torch.nn.Linear(128, 2)).to(device)
    mesh = init_device_mesh(device, (world,))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    resume = os.environ.get("SLUICE_RESUME_DIR")
    done = load(resume, model, optimizer) if resume else 0

    metrics = open(os.environ["SLUICE_METRICS"], "a")
    for step in range(done + 1, STEPS + 1):
        rows, labels = batch(step, rank)
        loss = torch.nn.functional.cross_entropy(model(rows.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        # The ranks agree on the step after which they stop, although they may be told at different times.
        shared = torch.stack([loss.detach() / world, torch.tensor(float(told_to_stop), device=device)])
        dist.all_reduce(shared)
        stop = shared[1].item() > 0
        if rank == 0:
            print(json.dumps({"step": step, "of": STEPS, "loss": shared[0].item()}), file=metrics, flush=True)
        if stop or step % SAVE_EVERY == 0:
            save(step, model, optimizer)
        if stop and step < STEPS:
            dist.barrier()  # no rank leaves before the checkpoint is complete
            return 143
    weights = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if rank == 0:
        torch.save(weights, pathlib.Path(os.environ["SLUICE_OUTPUT_DIR"], "model.pt"))
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
