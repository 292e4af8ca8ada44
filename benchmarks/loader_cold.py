#!/usr/bin/env python3
"""A .beton file that is not in the system's cache, through one epoch of `composer bench loader`, against reading the same
file from start to end in blocks of 8 MiB, as dd does, in alternation. One JSON line, the ratio last.

    python3 benchmarks/loader_cold.py --source raw256.beton --resolution 64 --order random

Images should be cheap to decode (pixels, a small --resolution): else the processor is measured. The file should be larger
than what the disk itself keeps.
"""
import argparse
import json
import os
import time

from side_by_side import add_composer, alternate, comparison, last_json, options

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('--source', required=True, help='a .beton file')
parser.add_argument('--order', default='random', choices=['sequential', 'random', 'quasi_random'])
parser.add_argument('--batch_size', type=int, default=256)
parser.add_argument('--num_workers', type=int, default=2)
parser.add_argument('--resolution', type=int, default=64)
parser.add_argument('--pairs', type=int, default=5)
add_composer(parser)
args = parser.parse_args()
settings = options(args, 'source', 'order', 'batch_size', 'num_workers', 'resolution')
megabytes = os.path.getsize(args.source) / 1e6
samples = last_json([args.composer, 'data', 'info', args.source, '--json'])['samples']


def drop():
    """Out of the system's cache, once what was written is on the disk."""
    file = os.open(args.source, os.O_RDONLY)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    return file


def disk():
    file, block = drop(), bytearray(8 << 20)
    begin = time.monotonic()
    while os.readv(file, [block]) > 0:
        pass
    seconds = time.monotonic() - begin
    os.close(file)
    return dict(mb_per_s=megabytes / seconds)


def loader():
    os.close(drop())
    done = last_json([args.composer, 'bench', 'loader', '--json', '--epochs', '1', '--crop_index', 'off'] + settings)
    return dict(mb_per_s=done['images_per_s'] / samples * megabytes)


theirs, ours = alternate(args.pairs, disk, loader)
print(json.dumps(dict(
    source=os.path.basename(args.source), megabytes=round(megabytes), order=args.order, resolution=args.resolution,
    num_workers=args.num_workers, pairs=args.pairs, peer='read', **comparison(ours, theirs, 'mb_per_s'))))
