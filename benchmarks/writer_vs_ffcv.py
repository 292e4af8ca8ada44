#!/usr/bin/env python3
"""Writing a .beton file by composer against FFCV's writer, in alternation. One JSON line, the ratio last.

    .deps/venv/bin/python benchmarks/writer_vs_ffcv.py PHOTOS --ffcv_python VENV/bin/python --ffcv_write ffcv_write.py

PHOTOS: class folders; they are tiled --repeat times, by links here and by FFCV's script itself (ffcv_write.py SOURCE OUTPUT
--mode M --max_resolution N --quality Q --repeat K --workers W, which prints a JSON line with items_per_min).
ratio: composer's items/min over FFCV's, the median of the pairs. --passthrough true: JPEG files are taken over without loss
where they are small enough, which FFCV cannot do; false: both decode and encode each image.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

here = os.path.dirname(os.path.abspath(__file__))


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def tile(source, folder, repeat):
    for name in sorted(os.listdir(source)):
        if not os.path.isdir(os.path.join(source, name)):
            continue
        os.makedirs(os.path.join(folder, name))
        for file in os.listdir(os.path.join(source, name)):
            for k in range(repeat):
                os.symlink(os.path.abspath(os.path.join(source, name, file)), os.path.join(folder, name, f'{k}_{file}'))


parser = argparse.ArgumentParser()
parser.add_argument('photos')
parser.add_argument('--ffcv_python', default=os.environ.get('COMPOSER_FFCV_PYTHON'))
parser.add_argument('--ffcv_write', default=os.path.join(here, '../../shared/peers/ffcv_write.py'))
parser.add_argument('--mode', default='jpg', choices=['jpg', 'raw', 'proportion'])
parser.add_argument('--max_resolution', type=int, default=None)
parser.add_argument('--quality', default='90')
parser.add_argument('--passthrough', default='true', choices=['true', 'false'])
parser.add_argument('--index', default='true', choices=['true', 'false'])
parser.add_argument('--repeat', type=int, default=4)
parser.add_argument('--workers', default='2')
parser.add_argument('--pairs', type=int, default=3)
parser.add_argument('--composer', default=os.path.join(here, '../build/release/bin/composer'))
args = parser.parse_args()
if not args.ffcv_python:
    parser.error('--ffcv_python, or the variable COMPOSER_FFCV_PYTHON, must name a Python with FFCV')

ours, theirs = [], []
with tempfile.TemporaryDirectory() as folder:
    tiled = os.path.join(folder, 'tiled')
    tile(args.photos, tiled, args.repeat)
    size = [] if args.max_resolution is None else ['--max_resolution', str(args.max_resolution)]
    output = os.path.join(folder, 'photos.beton')
    for _ in range(args.pairs):
        theirs.append(run([args.ffcv_python, args.ffcv_write, args.photos, output, '--mode', args.mode, '--quality', args.quality,
                           '--repeat', str(args.repeat), '--workers', args.workers] + size))
        ours.append(run([args.composer, 'data', 'write', '--format', 'image_folder', '--source', tiled, '--output', output,
                         '--write_mode', args.mode, '--jpeg_quality', args.quality, '--passthrough', args.passthrough, '--index', args.index,
                         '--num_workers', args.workers, '--overwrite', '--json'] + size))


def rates(results):
    return [result['items_per_min'] for result in results]


print(json.dumps(dict(
    items=ours[0]['items'], mode=args.mode, max_resolution=args.max_resolution, quality=int(args.quality),
    passthrough=args.passthrough == 'true', index=args.index == 'true', passed_through=ours[0]['passed_through'], encoded=ours[0]['encoded'],
    workers=int(args.workers), pairs=args.pairs, peer=theirs[0]['peer'], items_per_min=statistics.median(rates(ours)),
    peer_items_per_min=statistics.median(rates(theirs)), bytes=ours[0]['bytes'], peer_bytes=theirs[0]['bytes'],
    ratio_best=round(max(rates(ours)) / max(rates(theirs)), 3),
    ratio=round(statistics.median(a / b for a, b in zip(rates(ours), rates(theirs))), 3))))
