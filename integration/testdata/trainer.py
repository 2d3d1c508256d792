"""Stands in for a training script: it keeps the script's contract and does no training.

Every rank counts steps. Ranks other than 0 hold a connection to rank 0 and fail when it breaks, as collective operations do. They agree
through it to stop: one that is told passes it on, and leaves only after rank 0 has written its checkpoint.
TRACE names a file that each step is written to before it is reported, for an account that owes nothing to Sluice, and TRACE.reported one
that it is written to after that: of a step that is in the first only, a rank was killed while it reported it. TRACE.losses has the loss of each
step, which follows from that of the step before, and from it alone: a step that is missed or counted twice changes all that come after.
"""

import json
import os
import pathlib
import shutil
import signal
import socket
import sys
import threading
import time

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
total, pause = int(os.environ["STEPS"]), float(os.environ["STEP_SECONDS"])
every = int(os.environ.get("COMMIT_STEPS", "10"))
checkpoints = pathlib.Path(os.environ["SLUICE_CHECKPOINT_DIR"])
output = pathlib.Path(os.environ["SLUICE_OUTPUT_DIR"])
resume = os.environ.get("SLUICE_RESUME_DIR")
stopped = int(os.environ.get("STOPPED_CODE", "143"))

stop, told, agreed = threading.Event(), threading.Event(), threading.Event()
signal.signal(signal.SIGTERM, lambda *_: (told.set(), stop.set()))
print(f"rank {rank} has {os.environ.get('CUDA_VISIBLE_DEVICES', 'no GPU')}", flush=True)
assert not any(name.startswith(("TEMPORAL_", "SLUICE_TEMPORAL")) for name in os.environ), "a credential reached a rank"


def peers():
    """Connects the ranks; where a connection breaks the rank fails."""
    if rank == 0:
        server = socket.create_server(address)
        connections = [server.accept()[0] for _ in range(world - 1)]
    else:
        deadline = time.monotonic() + 30
        while True:
            try:
                connections = [socket.create_connection(address)]
                break
            except ConnectionRefusedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
    def listen(connection):
        try:
            data = connection.recv(1)
        except ConnectionResetError:
            data = b""
        if data == b"" and not agreed.is_set():
            print(f"rank {rank}: connection closed by peer", flush=True)
            os._exit(1)
        if data == b"s":
            if rank != 0:
                os._exit(stopped)
            stop.set()
    for connection in connections:
        threading.Thread(target=listen, args=(connection,), daemon=True).start()
    return connections


def checkpoint(step):
    if rank != 0 or (checkpoints / f"step-{step}").exists():
        return
    new = checkpoints / f".new-{step}"
    new.mkdir()
    (new / "state.json").write_text(json.dumps({"step": step, "loss": loss}))
    new.rename(checkpoints / f"step-{step}")
    old = checkpoints / f"step-{step - 2 * every}"
    shutil.rmtree(old, ignore_errors=True)


state = json.loads((pathlib.Path(resume) / "state.json").read_text()) if resume else {"step": 0, "loss": 0.3}
step, loss = state["step"], state["loss"]
if resume and "RESUMED_STEP_SECONDS" in os.environ:
    pause = float(os.environ["RESUMED_STEP_SECONDS"])
fail_at = int(os.environ.get("FAIL_AT", "0"))
connections = peers()
print(f"rank {rank} of {world} from step {step}", flush=True)
while step < total:
    if stop.is_set():
        checkpoint(step)
        agreed.set()
        for connection in connections:
            connection.send(b"s")
        if rank != 0:
            threading.Event().wait()  # until rank 0 agrees
        if stopped == 0:
            told.wait()  # who leaves with 0 before it is told has finished
        os._exit(stopped)
    time.sleep(pause)
    step += 1
    loss = 3.99 * loss * (1 - loss)
    if fail_at and step == fail_at and rank == world - 1:
        print("this is the reason", flush=True)
        sys.exit(3)
    if rank == 0:
        with open(os.environ["TRACE"], "a") as trace:
            trace.write(f"{step}\n")
        with open(os.environ["SLUICE_METRICS"], "a") as metrics:
            metrics.write(json.dumps({"step": step, "of": total, "loss": loss}) + "\n")
        with open(os.environ["TRACE"] + ".reported", "a") as trace:
            trace.write(f"{step}\n")
        with open(os.environ["TRACE"] + ".losses", "a") as trace:
            trace.write(f"{step} {loss.hex()}\n")
    if step % every == 0:
        checkpoint(step)
if rank == 0:
    (output / "model").mkdir()
    (output / "model" / "weights").write_text(str(step))
    with open(os.environ["SLUICE_METRICS"], "a") as metrics:
        metrics.write(json.dumps({"step": step, "f1": 0.5}) + "\n")
for connection in connections:
    connection.send(b".")
