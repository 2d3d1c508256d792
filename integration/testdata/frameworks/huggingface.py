"""Trains a language model with the Trainer of transformers. It writes no $SLUICE_METRICS: Sluice reads the Trainer's checkpoints."""

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

import torch
import torch.distributed as dist
import transformers


class OnNotice(transformers.TrainerCallback):
    """Saves a checkpoint and stops when any rank has been told to; the ranks agree on the step."""

    def on_step_end(self, args, state, control, **kwargs):
        stop = torch.tensor(float(told_to_stop), device=args.device)
        if dist.is_initialized():
            dist.all_reduce(stop)
        if stop.item() > 0:
            control.should_save = control.should_training_stop = True
        return control


class Sequences(torch.utils.data.Dataset):
    """Stands in for your data: sequences that count upwards."""

    def __len__(self):
        return 4096

    def __getitem__(self, i):
        time.sleep(0.004)  # as long as reading it takes
        tokens = (torch.arange(32) * (1 + i % 5) + i) % 64
        return {"input_ids": tokens, "labels": tokens}


def main():
    transformers.set_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=64, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, use_cache=False))
    arguments = transformers.TrainingArguments(
        output_dir=os.environ["SLUICE_CHECKPOINT_DIR"], max_steps=200, per_device_train_batch_size=8, learning_rate=1e-3,
        logging_steps=5, save_steps=25, save_total_limit=10, use_cpu=not torch.cuda.is_available(), report_to="none",
        disable_tqdm=True)
    trainer = transformers.Trainer(model=model, args=arguments, train_dataset=Sequences(), callbacks=[OnNotice()])
    trainer.train(resume_from_checkpoint=os.environ.get("SLUICE_RESUME_DIR"))
    if trainer.state.global_step < trainer.state.max_steps:
        return 143  # stopped: there is nothing to export yet
    if trainer.is_world_process_zero():  # without the arguments, which save_model adds: they name folders of this node
        trainer.model.save_pretrained(pathlib.Path(os.environ["SLUICE_OUTPUT_DIR"], "model"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
