"""Trains a network of timm's, with composer_loader in the place of create_loader: python timm_train.py DATA [EPOCHS]

DATA has train/ and val/ with a folder for each class; of a folder without val/ and of a .beton file a fifth is evaluated on.
"""
import os
import sys

import timm
import torch
from composer_loader import Loader
from timm.data.loader import PrefetchLoader
from timm.optim import create_optimizer_v2

data, epochs = (sys.argv[1:] + ["3"])[:2]
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = timm.create_model("test_resnet")
config = timm.data.resolve_model_data_config(model)
size, colors = config["input_size"][1:], {"mean": config["mean"], "std": config["std"]}
common = dict(batch_size=32, size=size)
common.update({"output": "uint8"} if device.type == "cuda" else {"output": "float32", **colors})
common["split"] = None if os.path.isdir(os.path.join(data, "val")) else 0.2
train = Loader(data, pipeline="train", **common)
val = Loader(data, pipeline="eval", resize_size=round(min(size) / config["crop_pct"]), **common)
model.reset_classifier(train.num_classes)
model.to(device, memory_format=torch.channels_last)
if device.type == "cuda":  # bytes are copied, and normalised there
    train, val = (PrefetchLoader(one, device=device, **colors) for one in (train, val))
optimizer = create_optimizer_v2(model, "adamw", lr=1e-3)
for epoch in range(int(epochs)):
    model.train()
    for images, labels in train:
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        right = sum((model(images).argmax(1) == labels).sum().item() for images, labels in val)
    print(f"epoch {epoch}: accuracy {right / len(val.dataset):.1%}", flush=True)
