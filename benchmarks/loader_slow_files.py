#!/usr/bin/env python3
"""A folder of JPEG files that answer late, each time they are opened and read, through `composer bench loader`. One JSON
line, the ratio last: over the rate of threads that wait for their files themselves, or of another build (--peer).

    python3 benchmarks/loader_slow_files.py PHOTOS --milliseconds 30

PHOTOS: class folders, tiled --repeat times by links in a temporary folder.
"""
import argparse
import json
import os
import tempfile

from side_by_side import add_composer, alternate, comparison, here, last_json, options, tile

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('photos')
parser.add_argument('--milliseconds', type=int, default=30, help='of an opening, and of a reading')
parser.add_argument('--batch_size', type=int, default=64)
parser.add_argument('--num_workers', type=int, default=8)
parser.add_argument('--resolution', type=int, default=224)
parser.add_argument('--epochs', type=int, default=3, help='the first one included')
parser.add_argument('--repeat', type=int, default=2)
parser.add_argument('--pairs', type=int, default=3)
parser.add_argument('--peer', help='another composer; default: what threads that wait come to at most')
parser.add_argument('--library', default=os.path.join(here, '../build/release/bin/libslow_folder.so'))
add_composer(parser)
args = parser.parse_args()

with tempfile.TemporaryDirectory() as folder:
    photos = tile(args.photos, os.path.join(folder, 'photos'), args.repeat)
    settings = ['--source', photos] + options(args, 'batch_size', 'num_workers', 'resolution', 'epochs')
    late = ['env', 'LD_PRELOAD=' + os.path.abspath(args.library), f'COMPOSER_SLOW_FOLDER={photos}/',
            f'COMPOSER_SLOW_MS={args.milliseconds}', 'XDG_CACHE_HOME=' + folder]

    def measure(program):
        return last_json(late + [program, 'bench', 'loader', '--json'] + settings)

    def peer():
        if args.peer:
            return measure(args.peer)
        return dict(images_per_s=args.num_workers / (2 * args.milliseconds / 1000))

    theirs, ours = alternate(args.pairs, peer, lambda: measure(args.composer))

print(json.dumps(dict(
    milliseconds=args.milliseconds, resolution=args.resolution, batch_size=args.batch_size, num_workers=args.num_workers,
    pairs=args.pairs, peer=args.peer or 'threads that wait', first_epoch_per_s=[run['per_epoch'][0] for run in ours],
    **comparison(ours, theirs, 'images_per_s'))))
