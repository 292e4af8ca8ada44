#!/usr/bin/env python3
"""The peer of `composer bench step`: the same training step in Python PyTorch. One JSON line.

SGD with Nesterov momentum, channels_last, label smoothing 0.1, one fixed batch in memory. Precision amp: fp16 with loss
scaling on CUDA, bf16 on the CPU.
"""
import argparse
import json
import resource
import statistics
import time

import torch
import torch.nn.functional as F
import torchvision
from torch import nn


class Block(nn.Module):
    def __init__(self, width_in, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = nn.Identity()
        if stride != 1 or width_in != width:
            self.downsample = nn.Sequential(nn.Conv2d(width_in, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return F.relu(self.bn2(self.conv2(y)) + self.downsample(x), inplace=True)


def cifar_resnet(depth):
    widths, count = [16] + [16, 32, 64], (depth - 2) // 6
    layers = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True)]
    for stage in (1, 2, 3):
        for index in range(count):
            first = index == 0
            layers.append(Block(widths[stage - 1] if first else widths[stage], widths[stage], 2 if first and stage > 1 else 1))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--model', default='resnet50')
    parser.add_argument('--batch_size', type=int, default=16)
    parser.add_argument('--resolution', type=int, default=224)
    parser.add_argument('--precision', default='amp_bf16', choices=['fp32', 'amp', 'amp_bf16'])
    parser.add_argument('--device', default='auto', choices=['auto', 'cpu', 'gpu'])
    parser.add_argument('--steps', type=int, default=5)
    parser.add_argument('--repeats', type=int, default=3)
    parser.add_argument('--compile', action='store_true')
    parser.add_argument('--compile_mode', default='default', help='of torch.compile, for instance max-autotune')
    args = parser.parse_args()
    device = 'cuda' if args.device == 'gpu' or args.device == 'auto' and torch.cuda.is_available() else 'cpu'
    dtype = torch.float16 if args.precision == 'amp' and device == 'cuda' else torch.bfloat16
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(0)

    cifar = args.model in ('resnet20', 'resnet56')
    model = cifar_resnet(int(args.model[6:])) if cifar else getattr(torchvision.models, args.model)()
    model = model.to(device, memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=5e-5, nesterov=True)
    images = torch.randn(args.batch_size, 3, args.resolution, args.resolution, device=device)
    images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(10 if cifar else 1000, (args.batch_size,), device=device)
    forward = torch.compile(model, mode=args.compile_mode) if args.compile else model
    scaler = torch.amp.GradScaler(device, enabled=dtype == torch.float16)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, dtype, enabled=args.precision != 'fp32'):
            loss = F.cross_entropy(forward(images), labels, label_smoothing=0.1)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    def wait():
        if device == 'cuda':
            torch.cuda.synchronize()

    for _ in range(3):
        step()
    rates = []
    for _ in range(args.repeats):
        wait()
        begin = time.perf_counter()
        for _ in range(args.steps):
            step()
        wait()
        rates.append(args.batch_size * args.steps / (time.perf_counter() - begin))
    peak = torch.cuda.max_memory_allocated() >> 20 if device == 'cuda' else None
    print(json.dumps(dict(peer='torch ' + torch.__version__, compile=args.compile, peak_memory_mb=peak, model=args.model, device=device,
                          batch_size=args.batch_size, resolution=args.resolution, precision=args.precision,
                          images_per_s=statistics.median(rates), all=rates,
                          max_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)))


if __name__ == "__main__":
    main()
