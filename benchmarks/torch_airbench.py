#!/usr/bin/env python3
"""The steps of the CIFAR-10 speedrun airbench94 in PyTorch, eager. The last line is one JSON object.

The network, the two groups of SGD and the averaging every five steps of Keller Jordan's airbench94, on random images: the
reading and augmentation of images, which its peer does beside, are left out. --precision bf16: the weights are bf16, batch
norm excepted, as the source has them in fp16; autocast: the weights are fp32.
"""
import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('--batch_size', type=int, default=1024)
parser.add_argument('--steps', type=int, default=5)
parser.add_argument('--precision', choices=['bf16', 'autocast'], default='bf16')
args = parser.parse_args()


def norm(channels):
    layer = nn.BatchNorm2d(channels, eps=1e-12, momentum=0.4)
    layer.weight.requires_grad = False
    return layer


def group(channels_in, channels_out):
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False), nn.MaxPool2d(2), norm(channels_out), nn.GELU(),
        nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False), norm(channels_out), nn.GELU())


net = nn.Sequential(nn.Conv2d(3, 24, 2), nn.GELU(), group(24, 64), group(64, 256), group(256, 256), nn.MaxPool2d(3),
                    nn.Flatten(), nn.Linear(256, 10, bias=False)).to(memory_format=torch.channels_last)
net[0].weight.requires_grad = False
dtype = torch.float32
if args.precision == 'bf16':
    dtype = torch.bfloat16
    net = net.to(dtype)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.float()

biases = [m.bias for m in net.modules() if isinstance(m, nn.BatchNorm2d)]
others = [p for p in net.parameters() if p.requires_grad and all(p is not b for b in biases)]
lr = 1.4648e-3
optimizer = torch.optim.SGD([dict(params=biases, lr=lr * 64, weight_decay=1.9956e-3 / lr / 64),
                             dict(params=others, lr=lr, weight_decay=1.9956e-3 / lr)], momentum=0.85, nesterov=True)
state = [t for t in net.state_dict().values() if t.is_floating_point()]
average = [t.clone() for t in state]
images = torch.randn(args.batch_size, 3, 32, 32, dtype=dtype).to(memory_format=torch.channels_last)
labels = torch.randint(10, (args.batch_size,))


def step(index):
    with torch.autocast('cpu', torch.bfloat16, enabled=args.precision == 'autocast'):
        loss = F.cross_entropy(net(images) / 9, labels, label_smoothing=0.2, reduction='sum')
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if index % 5 == 0:
        with torch.no_grad():
            for slow, fast in zip(average, state):
                slow.lerp_(fast, 0.5)
                fast.copy_(slow)


step(0)
times = []
for i in range(args.steps):
    begin = time.perf_counter()
    step(i)
    times.append(time.perf_counter() - begin)
print(json.dumps(dict(peer=f'torch {torch.__version__}', precision=args.precision,
                      images_per_s=args.batch_size / statistics.median(times))))
