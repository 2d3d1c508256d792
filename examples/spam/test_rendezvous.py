"""Two ranks on one machine find each other, and nobody else can reach them."""

import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

RANK = """
import os, pathlib
import torch, torch.distributed as dist
import rendezvous

dist.init_process_group("gloo", **rendezvous.arguments(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])))
total = torch.tensor([int(os.environ["RANK"]) + 1])
dist.all_reduce(total)

mine = {os.readlink(f) for f in pathlib.Path("/proc/self/fd").iterdir() if f.is_symlink()}
for table in ["/proc/self/net/tcp", "/proc/self/net/tcp6"]:
    for line in pathlib.Path(table).read_text().splitlines()[1:]:
        local, state, inode = line.split()[1], line.split()[3], line.split()[9]
        if state == "0A" and f"socket:[{inode}]" in mine and local.split(":")[0] != "0100007F":
            print("listens", local)
dist.barrier()
dist.destroy_process_group()
print("total", total.item())
"""


class Rendezvous(unittest.TestCase):
    def test_two_ranks(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with tempfile.TemporaryDirectory() as folder:
            ranks = []
            for rank in [1, 0]:
                env = os.environ | {
                    "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo",
                    "PYTHONPATH": str(pathlib.Path(__file__).parent), "PYTHONDONTWRITEBYTECODE": "1",
                }
                ranks.append(subprocess.Popen([sys.executable, "-c", RANK], env=env, cwd=folder, stdout=subprocess.PIPE, text=True))
            for rank, said in [(rank, rank.communicate(timeout=120)[0]) for rank in ranks]:
                self.assertEqual(0, rank.returncode)
                self.assertIn("total 3", said)
                self.assertNotIn("listens", said)


if __name__ == "__main__":
    unittest.main()
