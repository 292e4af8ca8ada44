"""Trains what run.json of the folder describes with PyTorch's DistributedDataParallel over Gloo, in float64, and prints
how far its losses and weights are from those in the folder, as shares of the largest number."""
import json
import os
import pathlib
import sys

import numpy
import torch
from torch import nn


def read(folder, entry, dtype="float64"):
    numbers = numpy.fromfile(folder / entry["file"], dtype)
    return torch.from_numpy(numbers.reshape(entry["shape"]))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, 1, 1)
        self.norm1 = nn.GroupNorm(2, 8)
        self.conv2 = nn.Conv2d(8, 32, 3, 2, 1)
        self.norm2 = nn.GroupNorm(4, 32)
        self.fc = nn.Linear(32, 10)

    def forward(self, images):
        first = nn.functional.max_pool2d(self.norm1(self.conv1(images)).relu(), 3, 2, 1)
        return self.fc(self.norm2(self.conv2(first)).relu().mean((2, 3)))


def difference(a, b):
    return ((a - b).abs().max() / b.abs().max()).item()


def train(rank, folder, run):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=run["ranks"])
    net = Net().double()
    net.load_state_dict({name: read(folder, entry) for name, entry in run["before"].items()})
    model = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), run["lr"], run["momentum"], weight_decay=run["weight_decay"])
    losses = []
    for batch in run["batches"]:
        images, classes = read(folder, batch["images"]), read(folder, batch["classes"], "int64")
        share = slice(rank * len(images) // run["ranks"], (rank + 1) * len(images) // run["ranks"])
        loss = nn.functional.cross_entropy(model(images[share]), classes[share])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss = loss.detach().clone()
        torch.distributed.all_reduce(loss)
        losses.append(loss / run["ranks"])
    if rank == 0:
        after = {name: read(folder, entry) for name, entry in run["after"].items()}
        found = {
            "losses": difference(torch.stack(losses), torch.tensor(run["losses"], dtype=torch.float64)),
            "weights": max(difference(weight, after[name]) for name, weight in net.state_dict().items()),
        }
        print(json.dumps(found), flush=True)
    torch.distributed.barrier()
    # What the interpreter takes apart at its end aborts at times: threads of Gloo's that nothing joined.
    os._exit(0)


if __name__ == "__main__":
    place = pathlib.Path(sys.argv[1])
    description = json.loads((place / "run.json").read_text())
    torch.multiprocessing.spawn(train, (place, description), description["ranks"])
