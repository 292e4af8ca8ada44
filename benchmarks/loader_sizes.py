#!/usr/bin/env python3
"""What smaller images gain in the loader: `composer bench loader` at a size against the full one, in alternation. One JSON
line, the ratio last.

    python3 benchmarks/loader_sizes.py --source photos.beton --resolution 112 --full 224
"""
import argparse
import json
import os

from side_by_side import add_composer, alternate, comparison, last_json, options

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('--source', required=True, help='a .beton file, or a folder of class folders')
parser.add_argument('--resolution', type=int, default=112)
parser.add_argument('--full', type=int, default=224)
parser.add_argument('--batch_size', type=int, default=256)
parser.add_argument('--num_workers', type=int, default=2)
parser.add_argument('--epochs', type=int, default=4, help='the first one included, which is left out')
parser.add_argument('--pairs', type=int, default=5)
add_composer(parser)
args = parser.parse_args()
settings = options(args, 'source', 'batch_size', 'num_workers', 'epochs')


def at(resolution):
    return lambda: last_json([args.composer, 'bench', 'loader', '--json', '--resolution', str(resolution)] + settings)


full, small = alternate(args.pairs, at(args.full), at(args.resolution))
print(json.dumps(dict(
    source=os.path.basename(args.source), resolution=args.resolution, full=args.full, batch_size=args.batch_size,
    num_workers=args.num_workers, pairs=args.pairs, peer=f'composer at {args.full}', **comparison(small, full, 'images_per_s'))))
