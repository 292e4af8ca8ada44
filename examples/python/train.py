"""Trains a small network in PyTorch on a folder of images, and goes on where it was stopped.

    python train.py FOLDER [STATE]

FOLDER has a folder of images for each class. A fifth of each class is evaluated on. STATE keeps the network, the optimizer
and the loader's place after each epoch; where it is there already, the training goes on from it.
"""

import os
import sys

import torch
from composer_loader import Loader
from torch import nn

folder, state_file = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "state.pt"
device = "cuda" if torch.cuda.is_available() else "cpu"
common = dict(batch_size=32, size=64, split=0.2, output="float32", device=device)
train = Loader(folder, pipeline="train", seed=1, **common)
evaluate = Loader(folder, pipeline="eval", **common)

model = nn.Sequential(
    nn.Conv2d(3, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
    nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
    nn.Conv2d(64, 64, 3, stride=2, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, train.num_classes),
).to(device, memory_format=torch.channels_last)
optimizer = torch.optim.AdamW(model.parameters(), 2e-3)

first = 0
if os.path.exists(state_file):
    state = torch.load(state_file)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    train.load_state_dict(state["loader"])
    first = state["loader"]["epoch"]
    print(f"{state_file}: {first} epochs are done")

for epoch in range(first, 3):
    model.train()
    for images, labels in train:
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        right = sum((model(images).argmax(1) == labels).sum().item() for images, labels in evaluate)
    print(f"epoch {epoch}: loss {loss.item():.3f}, accuracy {right / len(evaluate.dataset):.1%}", flush=True)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "loader": train.state_dict()}, state_file)
