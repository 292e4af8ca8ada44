"""Trains a small network in PyTorch on several processes: torchrun --nproc_per_node 2 ddp_train.py DATA [EPOCHS]

DATA has train/ and val/ with a folder for each class; of a folder without val/ and of a .beton file a fifth is evaluated on.
"""
import os
import sys

import torch
from composer_loader import Loader
from torch import distributed, nn

data, epochs = (sys.argv[1:] + ["3"])[:2]
gpu = torch.cuda.is_available()
device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
distributed.init_process_group("nccl" if gpu else "gloo")
common = dict(batch_size=16, size=64, output="float32", device=device)  # a rank's batch
common["split"] = None if os.path.isdir(os.path.join(data, "val")) else 0.2
train, val = Loader(data, pipeline="train", **common), Loader(data, pipeline="eval", **common)
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 32, 3, 2), nn.ReLU(), nn.Conv2d(32, 64, 3, 2), nn.ReLU(),
                      nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, train.num_classes)).to(device)
trained = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
for epoch in range(int(epochs)):
    for images, labels in train:
        loss = nn.functional.cross_entropy(trained(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    right = torch.zeros((), device=device)
    with torch.no_grad():
        for images, labels in val:  # a rank's slice of the last batch may be smaller, or empty
            right += (model(images).argmax(1) == labels).sum()
    distributed.all_reduce(right)
    if train.rank == 0:
        print(f"epoch {epoch}: accuracy {right.item() / len(val.dataset):.1%}", flush=True)
distributed.destroy_process_group()
