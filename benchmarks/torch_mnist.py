#!/usr/bin/env python3
"""The peer of the recipe classify_mnist: the same network, updates and evaluations in PyTorch, the data through torchvision's
MNIST and DataLoader. One JSON line; seconds from the start of Python to the end of the run.
"""
import argparse
import gzip
import json
import os
import shutil
import tempfile
import time

begin = time.perf_counter()
import torch  # noqa: E402: counts as part of the run
import torch.nn.functional as F  # noqa: E402
import torchvision  # noqa: E402
from torch import nn  # noqa: E402
from torchvision import transforms  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('--datadir', required=True, help='a folder with the four idx files, gzipped or not')
parser.add_argument('--epochs', type=int, default=10)
parser.add_argument('--precision', choices=['fp32', 'amp_bf16'], default='amp_bf16')
parser.add_argument('--num_workers', type=int, default=2)
args = parser.parse_args()


def unpacked(folder):
    """torchvision's order of folders, with the files of datadir."""
    raw = os.path.join(folder, 'MNIST', 'raw')
    os.makedirs(raw)
    for name in os.listdir(args.datadir):
        if 'idx' not in name:
            continue
        source = os.path.join(args.datadir, name)
        opened = gzip.open(source) if name.endswith('.gz') else open(source, 'rb')
        with opened as packed, open(os.path.join(raw, name.removesuffix('.gz')), 'wb') as file:
            shutil.copyfileobj(packed, file)
    return folder


network = nn.Sequential(
    nn.Conv2d(1, 16, 3), nn.ReLU(inplace=True), nn.Conv2d(16, 32, 3), nn.BatchNorm2d(32), nn.ReLU(inplace=True),
    nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, 32), nn.ReLU(inplace=True), nn.Linear(32, 10))
network = network.to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(network.parameters(), 0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)


def autocast():
    return torch.autocast('cpu', torch.bfloat16, enabled=args.precision == 'amp_bf16')


def train(batches, schedule):
    network.train()
    for images, labels in batches:
        images = images.to(memory_format=torch.channels_last)
        optimizer.zero_grad(set_to_none=True)
        with autocast():
            loss = F.cross_entropy(network(images), labels)
        loss.backward()
        optimizer.step()
        schedule.step()


def accuracy(batches):
    network.eval()
    right = total = 0
    with torch.inference_mode(), autocast():
        for images, labels in batches:
            right += (network(images.to(memory_format=torch.channels_last)).argmax(1) == labels).sum().item()
            total += len(labels)
    return right / total


with tempfile.TemporaryDirectory() as folder:
    root = unpacked(folder)
    to_tensor = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
    sets = [torchvision.datasets.MNIST(root, train=train_set, transform=to_tensor) for train_set in (True, False)]
    workers = dict(num_workers=args.num_workers, persistent_workers=args.num_workers > 0)
    training = torch.utils.data.DataLoader(sets[0], 128, shuffle=True, drop_last=True, **workers)
    evaluation = torch.utils.data.DataLoader(sets[1], 1000, **workers)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(training))
    for _ in range(args.epochs):
        train(training, schedule)
        found = accuracy(evaluation)
print(json.dumps(dict(peer=f'torch {torch.__version__}', epochs=args.epochs, precision=args.precision, accuracy=found,
                      seconds=time.perf_counter() - begin)))
