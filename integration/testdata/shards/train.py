"""Trains with weights and optimizer divided over the ranks, as ZeRO does: each updates its slice of them, and saves it as its shard.

The argument is where the paths begin of what the test looks at: .losses gets the loss of each step, to the bit, and before a step n the ranks wait
while there is a file .hold-n.
"""

import json
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.utils import parameters_to_vector, vector_to_parameters

STEPS = 60
SAVE_EVERY = 10
CHECKPOINTS = pathlib.Path(os.environ["SLUICE_CHECKPOINT_DIR"])


def batch(step, rank):
    """Stands in for data; it depends only on the step and the rank."""
    rows = torch.randn(64, 32, generator=torch.Generator().manual_seed(1000 * step + rank))
    return rows, (rows[:, 0] * rows[:, 1] > 0).long()


class Slices:
    """The parameters of a model as one vector, of which each rank owns a slice of the same length."""

    def __init__(self, model, rank, world):
        self.model, self.rank, self.world = model, rank, world
        vector = parameters_to_vector(model.parameters()).detach()
        self.size, self.length = vector.numel(), -(-vector.numel() // world)
        self.own = torch.nn.Parameter(self.cut(vector))

    def cut(self, vector):
        """The own slice of a vector."""
        padded = torch.nn.functional.pad(vector, (0, self.world * self.length - self.size))
        return padded[self.rank * self.length:][:self.length].clone()

    def gather(self):
        """The whole vector, of the slices of all ranks."""
        slices = [torch.empty(self.length) for _ in range(self.world)]
        dist.all_gather(slices, self.own.detach())
        return torch.cat(slices)[:self.size]

    def load(self):
        """Gives the model the parameters of all ranks."""
        vector_to_parameters(self.gather(), self.model.parameters())

    def differentiate(self):
        """Gives the own slice its gradient, averaged over the ranks."""
        gradient = parameters_to_vector(p.grad for p in self.model.parameters()) / self.world
        dist.all_reduce(gradient)
        self.own.grad = self.cut(gradient)


def save(step, rank, state):
    """Writes the shard of this rank, the only one of its node, under another name and renames it."""
    new = CHECKPOINTS / f".step-{step}"
    new.mkdir()
    torch.save(state, new / f"shard-{rank}.pt")
    new.rename(CHECKPOINTS / f"step-{step}")


def main(prefix):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 128), torch.nn.ReLU(), torch.nn.Linear(128, 2))
    slices = Slices(model, rank, world)
    optimizer = torch.optim.AdamW([slices.own], lr=1e-2)
    done = 0
    if resume := os.environ.get("SLUICE_RESUME_DIR"):
        there = sorted(os.listdir(resume))
        assert there == [f"shard-{r}.pt" for r in range(world)], there
        state = torch.load(pathlib.Path(resume, f"shard-{rank}.pt"))
        slices.own.data.copy_(state["weights"])
        optimizer.load_state_dict(state["optimizer"])
        done = state["step"]

    for step in range(done + 1, STEPS + 1):
        while os.path.exists(f"{prefix}.hold-{step}"):
            time.sleep(0.02)
        slices.load()
        rows, labels = batch(step, rank)
        model.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(rows), labels)
        loss.backward()
        slices.differentiate()
        optimizer.step()
        mean = loss.detach() / world
        dist.all_reduce(mean)
        if rank == 0:
            with open(prefix + ".losses", "a") as losses:
                losses.write(f"{step} {mean.item().hex()}\n")
            with open(os.environ["SLUICE_METRICS"], "a") as metrics:
                metrics.write(json.dumps({"step": step, "of": STEPS, "loss": mean.item()}) + "\n")
        if step % SAVE_EVERY == 0:
            save(step, rank, {"weights": slices.own.detach(), "optimizer": optimizer.state_dict(), "step": step})
    weights = slices.gather()
    if rank == 0:
        torch.save(weights, pathlib.Path(os.environ["SLUICE_OUTPUT_DIR"], "model.pt"))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
