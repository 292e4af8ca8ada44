#!/usr/bin/env python3
"""A folder of JPEG files through `composer bench loader` against torchvision's ImageFolder and PyTorch's DataLoader, in
alternation: random resized crop, flip, normalised float32 out. One JSON line, the ratio last.

    .deps/venv/bin/python benchmarks/loader_vs_torchvision.py PHOTOS --batch_size 64

PHOTOS: class folders, tiled --repeat times by links in a temporary folder, which holds our index too: each of our runs
begins without one. images_per_s: the epochs after the first; first_epoch_per_s, first_epoch_ratio: our first epoch, in
which the index is made, over the peer's later ones.
"""
import argparse
import json
import os
import sys
import tempfile

from side_by_side import (add_loader, alternate, bench_loader, comparison, last_json, median, options, ratio_of, script, tile)

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('photos')
parser.add_argument('--batch_size', type=int, default=64)
parser.add_argument('--num_workers', type=int, default=2)
parser.add_argument('--resolution', type=int, default=224)
parser.add_argument('--epochs', type=int, default=3, help='the first one included')
parser.add_argument('--repeat', type=int, default=2)
parser.add_argument('--pairs', type=int, default=5)
parser.add_argument('--python', default=sys.executable, help='interpreter with torchvision')
add_loader(parser)
args = parser.parse_args()
if args.epochs < 2:
    parser.error('--epochs: at least 2, of which the first is reported apart')

with tempfile.TemporaryDirectory() as folder:
    tile(args.photos, folder, args.repeat)
    settings = ['--source', folder] + options(args, 'batch_size', 'num_workers', 'resolution', 'epochs')
    index = os.path.join(folder, '.composer-index')

    def peer():
        return last_json([args.python, script('torchvision_loader.py')] + settings)

    def product():
        if os.path.exists(index):
            os.remove(index)
        return last_json(bench_loader(args) + ['--output', 'float32', '--crop_index', 'beside'] + settings)

    theirs, ours = alternate(args.pairs, peer, product)


def first_epoch(run):
    return run['per_epoch'][0]


print(json.dumps(dict(
    resolution=args.resolution, batch_size=args.batch_size, num_workers=args.num_workers, pairs=args.pairs,
    peer=theirs[0]['peer'], first_batch_s=round(median(ours, 'first_batch_s'), 3),
    peer_first_batch_s=round(median(theirs, 'first_batch_s'), 3), first_epoch_per_s=round(median(ours, first_epoch), 1),
    first_epoch_ratio=ratio_of(ours, theirs, first_epoch, 'images_per_s'), **comparison(ours, theirs, 'images_per_s'))))
