#!/usr/bin/env python3
"""The learning curve of the recipe resnet20_cifar10 against the same recipe written in PyTorch. One JSON line.

    .deps/venv/bin/python benchmarks/curve_vs_torch.py --datadir DIR_OF_THE_CIFAR_BINARIES --epochs 2 --seeds 17 18

For each seed and epoch: mean training loss of the epoch and evaluation accuracy, of both.
"""
import argparse
import glob
import json
import os
import subprocess
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from torch_step import cifar_resnet

here = os.path.dirname(os.path.abspath(__file__))
mean = torch.tensor([0.4914, 0.4822, 0.4465]).view(1, 3, 1, 1) * 255
std = torch.tensor([0.247, 0.243, 0.261]).view(1, 3, 1, 1) * 255
batch_size, lr, momentum, decay, warmup_epochs = 1024, 1.2, 0.9, 2e-3, 5


def read(pattern):
    rows = np.concatenate([np.fromfile(f, np.uint8).reshape(-1, 3073) for f in sorted(glob.glob(pattern))])
    return torch.from_numpy(rows[:, 1:].reshape(-1, 3, 32, 32).copy()), torch.from_numpy(rows[:, 0].astype(np.int64))


def augment(images):
    padded = F.pad(images, (4, 4, 4, 4))
    out = torch.empty_like(images)
    for i in range(len(images)):
        y, x = torch.randint(9, (2,)).tolist()
        crop = padded[i, :, y:y + 32, x:x + 32]
        out[i] = crop.flip(2) if torch.rand(()) < 0.5 else crop
    return out


def torch_curve(datadir, epochs, seed):
    images, labels = read(os.path.join(datadir, 'data_batch_*.bin'))
    test_images, test_labels = read(os.path.join(datadir, 'test_batch.bin'))
    torch.manual_seed(seed)
    model = cifar_resnet(20)
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            nn.init.kaiming_normal_(module.weight)
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight)
            nn.init.zeros_(module.bias)
    model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr, momentum=momentum)
    steps, curve, step = len(images) // batch_size, [], 0
    for _ in range(epochs):
        model.train()
        order, losses = torch.randperm(len(images)), []
        for i in range(steps):
            picked = order[i * batch_size:(i + 1) * batch_size]
            batch = ((augment(images[picked]).float() - mean) / std).to(memory_format=torch.channels_last)
            share = min(1.0, step / (warmup_epochs * steps))
            optimizer.param_groups[0]['lr'] = lr * share
            optimizer.zero_grad()
            with torch.autocast('cpu', torch.bfloat16):
                loss = F.cross_entropy(model(batch), labels[picked])
            loss.backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.mul_(1 - share * decay)
            optimizer.step()
            losses.append(loss.item())
            step += 1
        model.eval()
        hits = 0
        with torch.no_grad(), torch.autocast('cpu', torch.bfloat16):
            for begin in range(0, len(test_images), 1000):
                batch = (test_images[begin:begin + 1000].float() - mean) / std
                hits += (model(batch).argmax(1) == test_labels[begin:begin + 1000]).sum().item()
        curve.append(dict(loss=round(float(np.mean(losses)), 4), accuracy=hits / len(test_images)))
    return curve


def our_curve(program, datadir, epochs, seed):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, 'train', '-f', 'resnet20_cifar10', '--train_dataset.cifar10.datadir', datadir,
                        '--val_dataset.cifar10.datadir', datadir, '--max_duration', f'{epochs}ep', '--seed', str(seed),
                        '--algorithms', 'channels_last', '--precision', 'amp_bf16', '--device', 'cpu', '--run_dir', folder,
                        '--run_name', 'run'], check=True, stderr=subprocess.DEVNULL)
        with open(os.path.join(folder, 'run/metrics.jsonl')) as file:
            lines = [json.loads(line) for line in file]
    steps = max(line['batch'] for line in lines) // epochs
    curve = []
    for epoch in range(epochs):
        losses = [line['loss/train'] for line in lines if line['event'] == 'batch' and (line['batch'] - 1) // steps == epoch]
        accuracy = [line['metrics/eval/Accuracy'] for line in lines if line['event'] == 'eval'][epoch]
        curve.append(dict(loss=round(float(np.mean(losses)), 4), accuracy=accuracy))
    return curve


parser = argparse.ArgumentParser()
parser.add_argument('--datadir', required=True)
parser.add_argument('--epochs', type=int, default=2)
parser.add_argument('--seeds', type=int, nargs='+', default=[17])
parser.add_argument('--composer', default=os.path.join(here, '../build/release/bin/composer'))
args = parser.parse_args()
print(json.dumps([dict(seed=seed, torch=torch_curve(args.datadir, args.epochs, seed),
                       composer=our_curve(args.composer, args.datadir, args.epochs, seed)) for seed in args.seeds]))
