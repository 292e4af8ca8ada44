#!/usr/bin/env python3
"""A training step of composer against PyTorch in Python, in alternation. One JSON line, the ratios last.

    .deps/venv/bin/python benchmarks/step_vs_torch.py --model resnet56 --batch_size 256 --resolution 32 --precision fp32

ratio: composer's images/s over PyTorch's, the median of the pairs; ratio_best: best over best; memory_ratio: composer's
peak memory over PyTorch's (resident set, on the CPU). --compile: the peer uses torch.compile.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


parser = argparse.ArgumentParser()
parser.add_argument('--model', default='resnet50')
parser.add_argument('--batch_size', default='16')
parser.add_argument('--resolution', default='224')
parser.add_argument('--precision', default='amp_bf16')
parser.add_argument('--steps', default='5')
parser.add_argument('--repeats', default='1')
parser.add_argument('--pairs', type=int, default=5)
parser.add_argument('--compile', action='store_true')
parser.add_argument('--composer', default=os.path.join(here, '../build/release/bin/composer'))
args = parser.parse_args()

common = []
for name in ('model', 'batch_size', 'resolution', 'precision', 'steps', 'repeats'):
    common += ['--' + name, getattr(args, name)]
ours, theirs = [], []
for _ in range(args.pairs):
    theirs.append(run([sys.executable, os.path.join(here, 'torch_step.py')] + common + ['--compile'] * args.compile))
    ours.append(run([args.composer, 'bench', 'step', '--json'] + common))


def rates(results):
    return [result['images_per_s'] for result in results]


def memory(results):
    return statistics.median(result['max_rss_mb'] for result in results)


print(json.dumps(dict(
    model=args.model, batch_size=int(args.batch_size), resolution=int(args.resolution), precision=args.precision,
    device=ours[0]['device'], peer=theirs[0]['peer'] + (' compile' if args.compile else ' eager'), pairs=args.pairs,
    images_per_s=statistics.median(rates(ours)), peer_images_per_s=statistics.median(rates(theirs)),
    memory_ratio=round(memory(ours) / memory(theirs), 3),
    ratio_best=round(max(rates(ours)) / max(rates(theirs)), 3),
    ratio=round(statistics.median(a / b for a, b in zip(rates(ours), rates(theirs))), 3))))
