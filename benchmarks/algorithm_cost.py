#!/usr/bin/env python3
"""What algorithms cost: a training step with each against the step without, in alternation. One JSON line an algorithm.

    python3 benchmarks/algorithm_cost.py --model resnet50 --algorithms ema sam mixup

step_ratio: time of a step with the algorithm over the time without, the median of the pairs; below 1 where it saves time.
hook_fraction: what part of the step its own hooks take, measured inside the program: steadier, but without what it changes in
the network, the loss or the backward pass. The other steps have channels_last and label_smoothing, as `composer bench step`.
An algorithm with values: 'gradient_clipping: {clipping_type: norm, clipping_threshold: 1.0}'.
"""
import argparse
import json
import statistics

from side_by_side import add_composer, add_step, alternate, last_json, step_options

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
add_step(parser)
parser.add_argument('--algorithms', nargs='+', required=True)
add_composer(parser)
args = parser.parse_args()
settings = step_options(args)


def step(*algorithms):
    return last_json([args.composer, 'bench', 'step', '--json'] + settings + ['--algorithms', *algorithms] * bool(algorithms))


for algorithm in args.algorithms:
    name = algorithm.split(':')[0]
    plain, changed = alternate(args.pairs, step, lambda: step(algorithm))
    ratios = [a['images_per_s'] / b['images_per_s'] for a, b in zip(plain, changed)]
    hooks = statistics.median(run['hook_fractions'][name] for run in changed)
    print(json.dumps(dict(algorithm=name, model=args.model, batch_size=args.batch_size, resolution=args.resolution,
                          precision=args.precision, device=plain[0]['device'], pairs=args.pairs, hook_fraction=round(hooks, 5),
                          step_ratio=round(statistics.median(ratios), 3))), flush=True)
