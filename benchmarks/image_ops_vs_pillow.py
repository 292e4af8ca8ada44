#!/usr/bin/env python3
"""Decode, resize, crop + resize + flip of composer against Pillow, in alternation, on one thread. One JSON line, the
ratios last.

    .deps/venv/bin/python benchmarks/image_ops_vs_pillow.py --source FOLDER_OF_JPEGS
    python3 -m venv simd && simd/bin/pip install pillow-simd
    python3 benchmarks/image_ops_vs_pillow.py --source FOLDER_OF_JPEGS --python simd/bin/python

--python: an interpreter with the peer, by default the one that runs this. The results are the same to the bit for
decoded images (tests/data/resize_test.cpp). ratio: composer's images/s over the peer's, the median of the pairs.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
parser = argparse.ArgumentParser()
parser.add_argument('--source', required=True)
parser.add_argument('--images', default='100')
parser.add_argument('--resolution', default='224')
parser.add_argument('--repeats', default='3')
parser.add_argument('--pairs', type=int, default=5)
parser.add_argument('--python', default=sys.executable)
parser.add_argument('--composer', default=os.path.join(here, '../build/release/bin/composer'))
args = parser.parse_args()


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


common = []
for name in ('source', 'images', 'resolution', 'repeats'):
    common += ['--' + name, getattr(args, name)]
ours, theirs = [], []
for _ in range(args.pairs):
    theirs.append(run([args.python, os.path.join(here, 'pillow_image_ops.py')] + common))
    ours.append(run([args.composer, 'bench', 'image', '--json'] + common))


def per_op(value):
    return {op: value(op) for op in ours[0]['images_per_s']}


def median(results, op):
    return round(statistics.median(result['images_per_s'][op] for result in results), 1)


print(json.dumps(dict(
    peer=theirs[0]['peer'], images=ours[0]['images'], resolution=int(args.resolution), pairs=args.pairs,
    images_per_s=per_op(lambda op: median(ours, op)), peer_images_per_s=per_op(lambda op: median(theirs, op)),
    ratio=per_op(lambda op: round(statistics.median(
        a['images_per_s'][op] / b['images_per_s'][op] for a, b in zip(ours, theirs)), 2)))))
