#!/usr/bin/env python3
"""The peer of augmentation_vs_torchvision.py: one of torchvision's augmentations, image by image, in processes and in
threads, on tensors and on Pillow's images. One JSON line with the quicker's images/s: the median of the repeats.
"""
import argparse
import concurrent.futures
import json
import multiprocessing
import statistics
import time

import numpy
import torch
import torchvision
from PIL import Image
from torchvision import transforms

transform_of = dict(
    randaugment=transforms.RandAugment, autoaugment=transforms.AutoAugment, trivialaugment=transforms.TrivialAugmentWide,
    augmix=transforms.AugMix, random_erasing=lambda: transforms.RandomErasing(p=0.25, scale=(0.02, 1 / 3)))
images, transform = [], None


def change(share):
    """Changes the images of the range `share`."""
    for i in share:
        transform(images[i])


def start_worker():
    torch.set_num_threads(1)


def rate(pool, repeats):
    """Images a second; each worker has many small shares, so that none waits for another."""
    shares = [range(i, min(i + 8, len(images))) for i in range(0, len(images), 8)]
    rates = []
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        list(pool.map(change, shares))
        rates.append(len(images) / (time.perf_counter() - begin))
    return statistics.median(rates[1:])


def quicker(args):
    """Of processes, which are forked and so have the images, and threads."""
    fork = multiprocessing.get_context('fork')
    rates = []
    for pool in (concurrent.futures.ProcessPoolExecutor(args.num_workers, fork, start_worker),
                 concurrent.futures.ThreadPoolExecutor(args.num_workers, initializer=start_worker)):
        with pool:
            rates.append(rate(pool, args.repeats))
    return max(rates)


def main():
    global images, transform
    parser = argparse.ArgumentParser()
    parser.add_argument('--algorithm', required=True, choices=transform_of)
    parser.add_argument('--pixels', required=True, help="the images' bytes")
    parser.add_argument('--batch_size', type=int, default=64)
    parser.add_argument('--batches', type=int, default=2)
    parser.add_argument('--resolution', type=int, default=224)
    parser.add_argument('--num_workers', type=int, default=2)
    parser.add_argument('--repeats', type=int, default=2)
    args = parser.parse_args()

    torch.set_num_threads(1)
    shape = (args.batches * args.batch_size, args.resolution, args.resolution, 3)
    pixels = numpy.fromfile(args.pixels, numpy.uint8).reshape(shape)
    transform = transform_of[args.algorithm]()
    images = [torch.from_numpy(image).permute(2, 0, 1).contiguous() for image in pixels]
    if args.algorithm == 'random_erasing':
        images = [image / 255 - 0.5 for image in images]
    result = dict(peer='torchvision ' + torchvision.__version__, tensor=round(quicker(args), 1), pil=None)
    if args.algorithm != 'random_erasing':
        images = [Image.fromarray(image) for image in pixels]
        result['pil'] = round(quicker(args), 1)
    print(json.dumps(result))


if __name__ == '__main__':
    main()
