#!/usr/bin/env python3
"""Writing a .beton file by composer against FFCV's writer, in alternation. One JSON line, the ratio last.

    python3 benchmarks/writer_vs_ffcv.py PHOTOS --ffcv_python VENV/bin/python --max_resolution 500

PHOTOS: class folders, tiled --repeat times by links for both. loader_vs_ffcv.py says how to make an environment with FFCV.
ratio: composer's items/min over FFCV's, the median of the pairs. --passthrough true: JPEG files are taken over without loss
where they are small enough, which FFCV cannot do; false: both decode and encode each image.
"""
import argparse
import json
import os
import tempfile

from side_by_side import add_composer, add_ffcv, alternate, comparison, last_json, options, require_ffcv, script, tile

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('photos')
parser.add_argument('--mode', default='jpg', choices=['jpg', 'raw', 'proportion'])
parser.add_argument('--max_resolution', type=int)
parser.add_argument('--quality', type=int, default=90)
parser.add_argument('--passthrough', default='true', choices=['true', 'false'])
parser.add_argument('--index', default='true', choices=['true', 'false'])
parser.add_argument('--repeat', type=int, default=4)
parser.add_argument('--num_workers', type=int, default=2)
parser.add_argument('--pairs', type=int, default=3)
add_ffcv(parser)
add_composer(parser)
args = parser.parse_args()
require_ffcv(parser, args)

with tempfile.TemporaryDirectory() as folder:
    tiled = tile(args.photos, os.path.join(folder, 'tiled'), args.repeat)
    output = os.path.join(folder, 'photos.beton')
    settings = options(args, 'max_resolution', 'num_workers')
    theirs, ours = alternate(
        args.pairs,
        lambda: last_json([args.ffcv_python, script('ffcv_write.py'), tiled, output, '--mode', args.mode, '--quality',
                           str(args.quality)] + settings),
        lambda: last_json([args.composer, 'data', 'write', '--format', 'image_folder', '--source', tiled, '--output', output,
                           '--write_mode', args.mode, '--jpeg_quality', str(args.quality), '--passthrough', args.passthrough,
                           '--index', args.index, '--overwrite', '--json'] + settings))

print(json.dumps(dict(
    items=ours[0]['items'], mode=args.mode, max_resolution=args.max_resolution, quality=args.quality,
    passthrough=args.passthrough == 'true', index=args.index == 'true', passed_through=ours[0]['passed_through'],
    encoded=ours[0]['encoded'], num_workers=args.num_workers, pairs=args.pairs, peer=theirs[0]['peer'], bytes=ours[0]['bytes'],
    peer_bytes=theirs[0]['bytes'], **comparison(ours, theirs, 'items_per_min'))))
