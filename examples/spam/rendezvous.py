"""How the ranks of a training find each other.

By itself PyTorch has rank 0 serve the addresses of all on MASTER_PORT: on every interface of the machine, to anybody. Ranks that share a
machine need no such store, a file does. Its path goes over the loopback interface.
"""

import ipaddress
import os
import pathlib
import socket
import tempfile
import time

import torch.distributed as dist

PATIENCE = 120  # seconds that the ranks wait for each other


def arguments(rank: int, world: int) -> dict:
    """What init_process_group must be told to find the other ranks."""
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    torchrun = "TORCHELASTIC_RUN_ID" in os.environ  # it has served the store before it started the ranks
    if torchrun or not ipaddress.ip_address(host).is_loopback:
        return {}
    path = hand_out((host, port), world) if rank == 0 else ask_for((host, port))
    return {"store": dist.FileStore(path, world), "rank": rank, "world_size": world}


def hand_out(address: tuple, world: int) -> str:
    """Make a file and tell the other ranks where it is. It lies in the working folder, which goes with the node."""
    path = str(pathlib.Path(tempfile.mkdtemp(prefix="rendezvous-", dir=pathlib.Path.cwd()), "store"))
    with socket.create_server(address) as server:
        server.settimeout(PATIENCE)
        for _ in range(world - 1):
            with server.accept()[0] as rank:
                rank.sendall(path.encode())
    return path


def ask_for(address: tuple) -> str:
    """Ask rank 0 where the file is, as soon as it answers."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with socket.create_connection(address, timeout=PATIENCE) as first, first.makefile() as answer:
                if path := answer.read():
                    return path
        except OSError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)
