#!/usr/bin/env python3
"""The peer of image_ops_vs_pillow.py: the operations of `composer bench image` in Pillow, on one thread. One JSON line.

Needs nothing but Pillow, or Pillow-SIMD in its place.
"""
import argparse
import io
import json
import math
import os
import statistics
import time

import PIL
from PIL import Image

parser = argparse.ArgumentParser()
parser.add_argument('--source', required=True)
parser.add_argument('--images', type=int, default=100)
parser.add_argument('--resolution', type=int, default=224)
parser.add_argument('--repeats', type=int, default=5)
args = parser.parse_args()

paths = sorted(os.path.join(folder, name) for folder, _, names in os.walk(args.source) for name in names
               if name.lower().endswith(('.jpg', '.jpeg')))[:args.images]
files = [open(path, 'rb').read() for path in paths]
size = (args.resolution, args.resolution)


def decode(i):
    return Image.open(io.BytesIO(files[i])).convert('RGB')


decoded = [decode(i) for i in range(len(files))]


def crop_of(i):
    """(left, top, right, bottom), as cli/bench_image.cpp has it."""
    def part(step):
        return (i + 1) * step % 1
    width, height = decoded[i].size
    area = height * width * (0.08 + 0.92 * part(0.6180339887))
    ratio = math.exp((2 * part(0.7548776662) - 1) * math.log(4 / 3))
    w = int(min(width, max(1, math.sqrt(area * ratio))))
    h = int(min(height, max(1, math.sqrt(area / ratio))))
    top, left = int(part(0.5698402910) * (height - h)), int(part(0.4301597090) * (width - w))
    return left, top, left + w, top + h


def resize(i):
    return decoded[i].resize(size, Image.Resampling.BILINEAR)


def finish(i, image):
    result = image.crop(crop_of(i)).resize(size, Image.Resampling.BILINEAR)
    return result.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if i % 2 == 0 else result


ops = dict(decode=decode, resize=resize, crop_resize_flip=lambda i: finish(i, decoded[i]),
           decode_crop_resize_flip=lambda i: finish(i, decode(i)))


def images_per_s(op):
    rates = []
    for repeat in range(args.repeats + 1):
        begin = time.perf_counter()
        for i in range(len(files)):
            op(i)
        if repeat > 0:
            rates.append(len(files) / (time.perf_counter() - begin))
    return statistics.median(rates)


print(json.dumps(dict(peer='Pillow ' + PIL.__version__, images=len(files),
                      images_per_s={name: images_per_s(op) for name, op in ops.items()})))
