"""Train the spam filter on the nodes that there are, and survive the loss of any.

Started once per rank with torchrun's environment. What a run needs from this script is in the environment too:

  SLUICE_CHECKPOINT_DIR    where checkpoints appear, each a folder step-<n>
  SLUICE_CHECKPOINT_EVERY  how often, such as "5s"
  SLUICE_RESUME_DIR        the checkpoint to go on from; unset at the start
  SLUICE_METRICS           file that rank 0 appends a line to for each step
  SLUICE_OUTPUT_DIR        where the finished model goes

A SIGTERM says that a node will go away: all ranks agree on the step after which they stop, rank 0 writes a checkpoint, and all
exit with 143. Exit 0 means that the model is trained and exported.
"""

import signal

stop_requested = False


def request_stop(*_) -> None:
    global stop_requested
    stop_requested = True


signal.signal(signal.SIGTERM, request_stop)  # before the slow imports: a notice may come at any time

import argparse  # noqa: E402
import datetime  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import pathlib  # noqa: E402
import re  # noqa: E402
import shutil  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

import dataset  # noqa: E402
import model as spam  # noqa: E402
import rendezvous  # noqa: E402

LEARNING_RATE = 3e-3  # at the first step; it falls to nothing at the last
BATCH = 64  # rows of a step over all ranks, so that a step is the same on any number of nodes
SEED = 20021121
STOPPED = 143  # what a shell says of a process that SIGTERM ended
KEEP = 2  # checkpoints left in the folder


def main() -> int:
    arguments = parse_arguments()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if torch.cuda.is_available() else torch.device("cpu")
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, timeout=datetime.timedelta(minutes=2), **rendezvous.arguments(rank, world))

    training = Training(arguments, rank, world, device)
    training.resume()
    finished = training.run()
    if finished and rank == 0:
        spam.export(training.model, training.vocabulary, pathlib.Path(os.environ["SLUICE_OUTPUT_DIR"], "export", "model.onnx"))
    dist.barrier()  # whatever a rank's exit says is then true of all of them
    dist.destroy_process_group()
    return 0 if finished else STOPPED


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=pathlib.Path, required=True, help="folder of the cleaned dataset")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--flip-labels", action="store_true", help="learn that spam is ham: a model that must never be released")
    return parser.parse_args()


class Training:
    """The state of one rank: the same model, optimiser and step on all of them."""

    def __init__(self, arguments: argparse.Namespace, rank: int, world: int, device: torch.device):
        self.rank, self.world, self.device = rank, world, device
        rows = dataset.read(arguments.data / "train")
        if len(rows) < BATCH:
            sys.exit(f"{arguments.data}/train has {len(rows)} rows; a step needs {BATCH}")
        self.vocabulary = spam.build_vocabulary([row["text"] for row in rows])
        self.encoder = spam.Encoder(self.vocabulary)
        self.ids = [self.encoder.encode(row["text"]) for row in rows]
        self.labels = torch.tensor([int(row["spam"] != arguments.flip_labels) for row in rows])
        self.dev = dataset.read(arguments.data / "dev")[rank::world]

        torch.manual_seed(SEED)
        self.model = spam.SpamFilter(len(self.vocabulary)).to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=LEARNING_RATE)
        self.steps_per_epoch = len(rows) // BATCH
        self.total = arguments.epochs * self.steps_per_epoch
        self.step = 0

    def resume(self) -> None:
        if not (folder := os.environ.get("SLUICE_RESUME_DIR")):
            return
        state = torch.load(pathlib.Path(folder, "state.pt"), map_location=self.device)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step = state["step"]

    def run(self) -> bool:
        """Steps until training is finished, which is True, or all ranks agreed to stop."""
        parallel = torch.nn.parallel.DistributedDataParallel(self.model)
        metrics = open(os.environ["SLUICE_METRICS"], "a") if self.rank == 0 else None
        checkpoint_every = seconds(os.environ.get("SLUICE_CHECKPOINT_EVERY", "30s"))
        saved_step, saved_at = self.step, time.monotonic()
        while self.step < self.total:
            loss, stop = self.one_step(parallel)
            line = {"step": self.step, "of": self.total, "loss": round(loss, 5)}
            if self.step % self.steps_per_epoch == 0:
                line["f1"] = round(self.dev_f1(), 5)
            if self.rank == 0:
                print(json.dumps(line), file=metrics, flush=True)
            if self.rank == 0 and (stop or time.monotonic() - saved_at >= checkpoint_every) and self.step > saved_step:
                self.save()
                saved_step, saved_at = self.step, time.monotonic()
            if stop:
                return self.step == self.total
        return True

    def one_step(self, parallel: torch.nn.Module) -> tuple[float, bool]:
        """Does the next step; returns the loss over all ranks, and whether any rank was asked to stop.

        The batch and the dropout follow from the step alone, so a resumed training does what an undisturbed one would have done.
        """
        epoch, number = divmod(self.step, self.steps_per_epoch)
        order = torch.randperm(len(self.ids), generator=torch.Generator().manual_seed(SEED + epoch))
        mine = order[number * BATCH : (number + 1) * BATCH][self.rank :: self.world]
        torch.manual_seed(SEED + self.step * self.world + self.rank)

        for group in self.optimizer.param_groups:
            group["lr"] = LEARNING_RATE * (1 - self.step / self.total)
        parallel.train()
        logits = parallel(spam.pad([self.ids[i] for i in mine]).to(self.device))
        losses = torch.nn.functional.cross_entropy(logits, self.labels[mine].to(self.device), reduction="sum") / BATCH
        self.optimizer.zero_grad()
        (losses * self.world).backward()  # DistributedDataParallel divides by the number of ranks
        self.optimizer.step()
        self.step += 1

        shared = torch.stack([losses.detach(), torch.tensor(float(stop_requested), device=self.device)])
        dist.all_reduce(shared)
        return shared[0].item(), shared[1].item() > 0

    def dev_f1(self) -> float:
        """F1 of spam on the dev split, each rank having judged its share."""
        self.model.eval()
        counts = torch.zeros(3, device=self.device)  # true positives, false positives, false negatives
        with torch.no_grad():
            for start in range(0, len(self.dev), BATCH):
                rows = self.dev[start : start + BATCH]
                ids = spam.pad([self.encoder.encode(row["text"]) for row in rows])
                for row, guess in zip(rows, self.model(ids.to(self.device)).argmax(1).tolist()):
                    if row["spam"] or guess:
                        counts[0 if row["spam"] and guess else 1 if guess else 2] += 1
        dist.all_reduce(counts)
        true_positive, false_positive, false_negative = counts.tolist()
        return 2 * true_positive / max(2 * true_positive + false_positive + false_negative, 1)

    def save(self) -> None:
        """Writes a checkpoint that is whole or not there: a folder under a temporary name, then renamed."""
        folder = pathlib.Path(os.environ["SLUICE_CHECKPOINT_DIR"])
        folder.mkdir(parents=True, exist_ok=True)
        temporary, final = folder / f".step-{self.step}", folder / f"step-{self.step}"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        with open(temporary / "state.pt", "wb") as file:
            torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "step": self.step}, file)
            file.flush()
            os.fsync(file.fileno())
        sync(temporary)
        temporary.rename(final)
        sync(folder)
        old = sorted(folder.glob("step-*"), key=lambda path: int(path.name.removeprefix("step-")))[:-KEEP]
        for path in old:
            shutil.rmtree(path)


def sync(folder: pathlib.Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def seconds(duration: str) -> float:
    """Reads a duration as Go writes it: 90s, 1m30s, 500ms."""
    units = {"h": 3600, "m": 60, "s": 1, "ms": 1e-3}
    if not re.fullmatch(r"([0-9.]+(h|ms|m|s))+", duration):
        sys.exit(f"SLUICE_CHECKPOINT_EVERY={duration} is no duration such as 90s or 1m30s")
    return sum(float(number) * units[unit] for number, unit in re.findall(r"([0-9.]+)(h|ms|m|s)", duration))


if __name__ == "__main__":
    sys.exit(main())
