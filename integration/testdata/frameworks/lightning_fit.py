"""Trains with Lightning. It writes no $SLUICE_METRICS: Sluice reads ModelCheckpoint's files and the CSVLogger's metrics."""

import signal

told_to_stop = False


def on_notice(*_):
    global told_to_stop
    told_to_stop = True


signal.signal(signal.SIGTERM, on_notice)  # before the slow imports: a notice may come at any time

import os
import pathlib
import sys
import time

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger

STEPS = 200
CHECKPOINTS = pathlib.Path(os.environ["SLUICE_CHECKPOINT_DIR"])


class OnNotice(lightning.Callback):
    """Saves a checkpoint and stops when any rank has been told to; the ranks agree on the step."""

    def on_train_start(self, trainer, module):
        signal.signal(signal.SIGTERM, on_notice)  # not Lightning's, which broadcasts whatever else the ranks do

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.strategy.reduce_boolean_decision(told_to_stop, all=False):
            trainer.save_checkpoint(CHECKPOINTS / f"notice-step={trainer.global_step}.ckpt")
            trainer.should_stop = True


class Batches(torch.utils.data.IterableDataset):
    """Stands in for your data. Lightning does not skip what a resumed training has seen, so it starts at a step."""

    def __init__(self, rank, start):
        self.rank, self.start = rank, start

    def __iter__(self):
        for step in range(self.start, STEPS):
            time.sleep(0.03)  # as long as reading it takes
            rows = torch.randn(64, 32, generator=torch.Generator().manual_seed(1000 * step + self.rank))
            yield rows, (rows[:, 0] * rows[:, 1] > 0).long()


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(32, 128), torch.nn.ReLU(), torch.nn.Linear(128, 2))

    def training_step(self, batch, batch_idx):
        rows, labels = batch
        loss = torch.nn.functional.cross_entropy(self.layers(rows), labels)
        self.log("train_loss", loss, sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)

    def train_dataloader(self):
        return torch.utils.data.DataLoader(Batches(self.global_rank, self.trainer.global_step), batch_size=None)


def main():
    lightning.seed_everything(0)
    local = int(os.environ["LOCAL_WORLD_SIZE"])
    trainer = lightning.Trainer(
        max_steps=STEPS, strategy="ddp", num_nodes=int(os.environ["WORLD_SIZE"]) // local, devices=local,
        accelerator="gpu" if torch.cuda.is_available() else "cpu", enable_progress_bar=False, log_every_n_steps=1,
        logger=CSVLogger(".", flush_logs_every_n_steps=5),
        callbacks=[ModelCheckpoint(CHECKPOINTS, monitor="step", mode="max", every_n_train_steps=25, save_top_k=10), OnNotice()])
    model = Classifier()
    trainer.fit(model, ckpt_path=os.environ.get("SLUICE_RESUME_DIR"))
    if trainer.global_step < STEPS:
        return 143  # stopped: there is nothing to export yet
    if trainer.is_global_zero:
        torch.save(model.state_dict(), pathlib.Path(os.environ["SLUICE_OUTPUT_DIR"], "model.pt"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
