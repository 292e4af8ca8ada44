#!/usr/bin/env python3
"""Decode, resize, crop + resize + flip of composer against Pillow, in alternation, on one thread. One JSON line, the
ratios last.

    .deps/venv/bin/python benchmarks/image_ops_vs_pillow.py --source FOLDER_OF_JPEGS
    python3 -m venv simd && simd/bin/pip install pillow-simd
    python3 benchmarks/image_ops_vs_pillow.py --source FOLDER_OF_JPEGS --python simd/bin/python

--python: an interpreter with the peer, by default the one that runs this. The results are the same to the bit for
decoded images (tests/data/resize_test.cpp). ratio: composer's images/s over the peer's, the median of the pairs.
"""
import argparse
import json
import sys

from side_by_side import add_composer, alternate, last_json, median, options, ratio_of, script

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('--source', required=True)
parser.add_argument('--images', type=int, default=100)
parser.add_argument('--resolution', type=int, default=224)
parser.add_argument('--repeats', type=int, default=3)
parser.add_argument('--pairs', type=int, default=5)
parser.add_argument('--python', default=sys.executable)
add_composer(parser)
args = parser.parse_args()
settings = options(args, 'source', 'images', 'resolution', 'repeats')

theirs, ours = alternate(args.pairs,
                         lambda: last_json([args.python, script('pillow_image_ops.py')] + settings),
                         lambda: last_json([args.composer, 'bench', 'image', '--json'] + settings))


def per_op(value):
    """value: of the figure that picks one operation's rate from a result."""
    return {op: value(lambda result, op=op: result['images_per_s'][op]) for op in ours[0]['images_per_s']}


print(json.dumps(dict(
    peer=theirs[0]['peer'], images=ours[0]['images'], resolution=args.resolution, pairs=args.pairs,
    images_per_s=per_op(lambda rate: round(median(ours, rate), 1)),
    peer_images_per_s=per_op(lambda rate: round(median(theirs, rate), 1)),
    ratio=per_op(lambda rate: ratio_of(ours, theirs, rate)))))
