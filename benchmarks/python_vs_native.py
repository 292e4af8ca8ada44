#!/usr/bin/env python3
"""The loader from Python (composer_loader) against `composer bench loader` on the same set, in alternation: what Python costs.
One JSON line, the ratio last.

    .deps/venv/bin/python benchmarks/python_vs_native.py --source photos.beton

images_per_s is the median over the epochs after the first, ratio the median over the pairs.
"""
import argparse
import json
import os
import sys

from side_by_side import add_composer, alternate, comparison, last_json, median, options, script

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('--source', required=True)
parser.add_argument('--batch_size', type=int, default=256)
parser.add_argument('--num_workers', type=int, default=2)
parser.add_argument('--resolution', type=int, default=224, help='of 32 x 32 images 32')
parser.add_argument('--epochs', type=int, default=4, help='the first one included')
parser.add_argument('--pipeline', default='train', choices=['train', 'eval'])
parser.add_argument('--output', default='uint8', choices=['uint8', 'float32'])
parser.add_argument('--pairs', type=int, default=5)
parser.add_argument('--python', default=sys.executable, help='interpreter of the loader')
add_composer(parser)
args = parser.parse_args()
settings = options(args, 'source', 'batch_size', 'num_workers', 'resolution', 'epochs', 'pipeline', 'output')


def native():
    return last_json([args.composer, 'bench', 'loader', '--json'] + settings)


def python():
    return last_json([args.python, script('python_loader.py')] + settings)


theirs, ours = alternate(args.pairs, native, python)
print(json.dumps(dict(
    source=os.path.basename(args.source), pipeline=args.pipeline, resolution=args.resolution, batch_size=args.batch_size,
    num_workers=args.num_workers, output=args.output, pairs=args.pairs, peer='composer bench loader',
    first_batch_s=round(median(ours, 'first_batch_s'), 3), max_rss_mb=median(ours, 'max_rss_mb'),
    peer_max_rss_mb=median(theirs, 'max_rss_mb'), **comparison(ours, theirs, 'images_per_s'))))
