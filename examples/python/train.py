"""Trains a small network in PyTorch, and goes on where it was stopped: python train.py DATA [STATE]

DATA has train/ and val/ with a folder for each class; of a folder without val/ and of a .beton file a fifth is evaluated on.
STATE keeps the network, the optimizer and the loader's place; where it is there, the training goes on.
"""
import os
import sys

import torch
from composer_loader import Loader
from torch import nn

data, state_file = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "state.pt"
device = "cuda" if torch.cuda.is_available() else "cpu"
common = dict(batch_size=32, size=64, output="float32", device=device)
common["split"] = None if os.path.isdir(os.path.join(data, "val")) else 0.2
train, val = Loader(data, pipeline="train", **common), Loader(data, pipeline="eval", **common)
model = nn.Sequential(nn.Conv2d(3, 32, 3, 2), nn.BatchNorm2d(32), nn.ReLU(),
                      nn.Conv2d(32, 64, 3, 2), nn.BatchNorm2d(64), nn.ReLU(),
                      nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, train.num_classes))
model.to(device, memory_format=torch.channels_last)
optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
parts = {"model": model, "optimizer": optimizer, "loader": train}
if os.path.exists(state_file):
    for name, state in torch.load(state_file).items():
        parts[name].load_state_dict(state)
    print(f"{state_file}: {train.state_dict()['epoch']} epochs are done")
for epoch in range(train.state_dict()["epoch"], 3):
    model.train()
    for images, labels in train:
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        right = sum((model(images).argmax(1) == labels).sum().item() for images, labels in val)
    print(f"epoch {epoch}: loss {loss.item():.3f}, accuracy {right / len(val.dataset):.1%}", flush=True)
    torch.save({name: part.state_dict() for name, part in parts.items()}, state_file)
