#!/usr/bin/env python3
"""The peer of loader_vs_torchvision.py: torchvision's ImageFolder and PyTorch's DataLoader, normalised float32 out. One
JSON line; the first epoch, in which the worker processes start, is reported apart.
"""
import argparse
import json
import statistics
import time

import torch
import torchvision
from torchvision import transforms


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--source', required=True)
    parser.add_argument('--batch_size', type=int, default=256)
    parser.add_argument('--num_workers', type=int, default=2)
    parser.add_argument('--resolution', type=int, default=224)
    parser.add_argument('--epochs', type=int, default=3, help='the first one included')
    args = parser.parse_args()

    begin = time.perf_counter()
    images = torchvision.datasets.ImageFolder(args.source, transforms.Compose([
        transforms.RandomResizedCrop(args.resolution),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
    ]))
    loader = torch.utils.data.DataLoader(images, batch_size=args.batch_size, shuffle=True, drop_last=True,
                                         num_workers=args.num_workers, persistent_workers=args.num_workers > 0)
    first_batch, per_epoch = None, []
    for epoch in range(args.epochs):
        start, count = begin if epoch == 0 else time.perf_counter(), 0
        for batch, _ in loader:
            first_batch = first_batch or time.perf_counter() - begin
            count += len(batch)
        per_epoch.append(round(count / (time.perf_counter() - start), 1))
    print(json.dumps(dict(peer='torchvision ' + torchvision.__version__, batch_size=args.batch_size,
                          num_workers=args.num_workers, resolution=args.resolution,
                          images_per_s=statistics.median(per_epoch[1:] or per_epoch), per_epoch=per_epoch,
                          first_batch_s=round(first_batch, 3))))


if __name__ == '__main__':
    main()
