#!/usr/bin/env python3
"""A training step replayed as a CUDA graph against the same step without, in alternation. One JSON line, the ratio last.

    python3 benchmarks/graph_cost.py --model resnet50 --batch_size 256 --precision amp_bf16 --device gpu

ratio: images/s with the graph over those without, the median of the pairs; memory_ratio: likewise of the peak memory.
--seconds: no pair begins that would probably end later.
"""
import argparse
import json

from side_by_side import add_composer, add_step, alternate, comparison, last_json, median, step_options

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
add_step(parser)
parser.add_argument('--seconds', type=float, default=float('inf'))
add_composer(parser)
args = parser.parse_args()


def step(cuda_graph):
    return last_json([args.composer, 'bench', 'step', '--json', '--cuda_graph', cuda_graph] + step_options(args))


without, replayed = alternate(args.pairs, lambda: step('false'), lambda: step('true'), seconds=args.seconds)
print(json.dumps(dict(
    model=args.model, batch_size=args.batch_size, resolution=args.resolution, precision=args.precision,
    device=replayed[0]['device'], pairs=len(replayed), peak_memory_mb=median(replayed, 'peak_memory_mb'),
    memory_ratio=round(median(replayed, 'peak_memory_mb') / max(median(without, 'peak_memory_mb'), 1), 3),
    **comparison(replayed, without, 'images_per_s'))))
