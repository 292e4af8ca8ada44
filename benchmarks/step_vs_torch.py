#!/usr/bin/env python3
"""A training step of composer against PyTorch in Python, in alternation. One JSON line, the ratios last.

    .deps/venv/bin/python benchmarks/step_vs_torch.py --model resnet56 --batch_size 256 --resolution 32 --precision fp32

ratio: composer's images/s over PyTorch's, the median of the pairs; ratio_best: best over best; memory_ratio: composer's
peak memory over PyTorch's: resident set on the CPU, what tensors took at most on a GPU. --compile: the peer uses
torch.compile, in --compile_mode. --seconds: no pair begins
that would probably end later; pairs says how many there were.
"""
import argparse
import json
import sys

from side_by_side import add_composer, add_step, alternate, comparison, last_json, median, script, step_options

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
add_step(parser)
parser.add_argument('--compile', action='store_true')
parser.add_argument('--compile_mode', default='default', choices=['default', 'reduce-overhead', 'max-autotune'])
parser.add_argument('--seconds', type=float, default=float('inf'))
add_composer(parser)
args = parser.parse_args()
settings = step_options(args)

peer_words = ['--compile', '--compile_mode', args.compile_mode] if args.compile else []
theirs, ours = alternate(
    args.pairs,
    lambda: last_json([sys.executable, script('torch_step.py')] + settings + peer_words),
    lambda: last_json([args.composer, 'bench', 'step', '--json'] + settings),
    seconds=args.seconds)
memory = 'peak_memory_mb' if ours[0]['device'].startswith('cuda') else 'max_rss_mb'
peer = f' compile {args.compile_mode}' if args.compile else ' eager'
print(json.dumps(dict(
    model=args.model, batch_size=args.batch_size, resolution=args.resolution, precision=args.precision,
    device=ours[0]['device'], peer=theirs[0]['peer'] + peer, pairs=len(ours),
    memory_ratio=round(median(ours, memory) / median(theirs, memory), 3),
    **comparison(ours, theirs, 'images_per_s'))))
