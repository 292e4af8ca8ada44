"""Trains a small network with Accelerate: python accelerate_train.py DATA [EPOCHS], or accelerate launch accelerate_train.py ...

DATA has train/ and val/ with a folder for each class; of a folder without val/ and of a .beton file a fifth is evaluated on.
Where the folder state/ is there, the training goes on from it.
"""
import os
import sys

import torch
from accelerate import Accelerator
from composer_loader import Loader
from torch import nn

data, epochs = (sys.argv[1:] + ["3"])[:2]
accelerator = Accelerator()
common = dict(batch_size=32, size=64, output="float32", device=accelerator.device)
common["split"] = None if os.path.isdir(os.path.join(data, "val")) else 0.2
train, val = Loader(data, pipeline="train", **common), Loader(data, pipeline="eval", **common)
model = nn.Sequential(nn.Conv2d(3, 32, 3, 2), nn.ReLU(), nn.Conv2d(32, 64, 3, 2), nn.ReLU(),
                      nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, train.num_classes))
model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), 2e-3))
accelerator.register_for_checkpointing(train)  # load_state() goes on with the next batch
if os.path.isdir("state"):
    accelerator.load_state("state")
for epoch in range(train.state_dict()["epoch"], int(epochs)):
    for images, labels in train:
        loss = nn.functional.cross_entropy(model(images), labels)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    right = torch.zeros((), device=accelerator.device)
    with torch.no_grad():
        for images, labels in val:  # a process's slice of the last batch may be smaller, or empty: sums, and no gather()
            right += (model(images).argmax(1) == labels).sum()
    accelerator.print(f"epoch {epoch}: accuracy {accelerator.reduce(right).item() / len(val.dataset):.1%}", flush=True)
    accelerator.save_state("state")
accelerator.end_training()
