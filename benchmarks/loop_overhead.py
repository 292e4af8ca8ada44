#!/usr/bin/env python3
"""What the loop adds to a step: medians over repeated runs of `composer bench overhead`. One JSON line.

    python3 benchmarks/loop_overhead.py --pairs 5

spread: least and greatest share with ten algorithms. --pairs: runs, under the name that the other scripts have for it.
"""
import argparse
import json

from side_by_side import add_composer, alternate, figures, last_json, median

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('--pairs', type=int, default=5)
add_composer(parser)
args = parser.parse_args()

runs, = alternate(args.pairs, lambda: last_json([args.composer, 'bench', 'overhead', '--json']))
shares = figures(runs, 'overhead_fraction_10_algorithms')
print(json.dumps(dict(
    pairs=args.pairs, step_seconds=median(runs, 'step_seconds'),
    overhead_fraction_0_algorithms=median(runs, 'overhead_fraction_0_algorithms'),
    overhead_fraction_10_algorithms=median(runs, 'overhead_fraction_10_algorithms'), spread=[min(shares), max(shares)])))
