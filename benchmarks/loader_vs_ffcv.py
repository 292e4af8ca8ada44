#!/usr/bin/env python3
"""`composer bench loader` against FFCV's Loader on the same .beton file, in alternation, uint8 out. One JSON line, the
ratio last.

    python3 benchmarks/loader_vs_ffcv.py --source photos.beton --ffcv_python VENV/bin/python --batch_size 256

An environment with FFCV 1.0.2 (Python 3.10 or 3.11; about 2 minutes and 5 GB, on Debian or Ubuntu):

    apt-get install g++ pkg-config python3-dev libopencv-dev libturbojpeg0-dev
    python3 -m venv VENV
    VENV/bin/pip install 'numpy<2' torch==2.11.0 torchvision==0.26.0 'setuptools<82' wheel pillow
    VENV/bin/pip install --no-build-isolation --no-deps ffcv==1.0.2
    VENV/bin/pip install --no-deps numba llvmlite tbb assertpy pandas python-dateutil pytz six tqdm psutil terminaltables \\
        pytorch-pfn-extras typing-extensions packaging opencv-python-headless==4.11.0.86

train: random resized crop and flip; 32 x 32 images: flip and translate by 4. eval: the middle, 224/256. images_per_s is the
median over the epochs after the first, ratio the median over the pairs. A JPEG file without FILE.index gets one in our
first epoch, so that the later pairs begin with it.

--first_epoch REMOVES FILE.index BEFORE EACH OF OUR RUNS (the run makes it again), and compares our first epoch, opening the
file included, with the median of FFCV's later ones.
"""
import argparse
import json
import os
import re

from side_by_side import (add_ffcv, add_loader, alternate, bench_loader, comparison, last_json, median, options, require_ffcv,
                          script)

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('--source', required=True, help='a .beton file')
parser.add_argument('--batch_size', type=int, default=256)
parser.add_argument('--num_workers', type=int, default=2)
parser.add_argument('--resolution', type=int, default=224, help='of 32 x 32 images always 32')
parser.add_argument('--epochs', type=int, default=4, help='the first one included')
parser.add_argument('--pipeline', default='train', choices=['train', 'eval'])
parser.add_argument('--pairs', type=int, default=5)
parser.add_argument('--first_epoch', action='store_true', help='removes FILE.index before each of our runs')
parser.add_argument('--coefficient_cache', default='0', help='GB for coefficients that composer keeps in its first epoch')
parser.add_argument('--peer_no_flip', action='store_true', help='FFCV leaves its flip out, composer does not')
parser.add_argument('--same_script', action='store_true',
                    help="with --loader_python: both run FFCV's script, ours with composer_loader.ffcv for ffcv in its imports")
add_ffcv(parser)
add_loader(parser)
args = parser.parse_args()
require_ffcv(parser, args)
if args.same_script and not args.loader_python:
    parser.error('--same_script: needs --loader_python')
if args.epochs < 2:
    parser.error('--epochs: at least 2, of which the first is left out')
settings = options(args, 'source', 'batch_size', 'num_workers', 'resolution', 'epochs', 'pipeline')
index = args.source + '.index'


def peer():
    return last_json([args.ffcv_python, script('ffcv_loader.py')] + settings + ['--no_flip'] * args.peer_no_flip)


def product():
    if args.first_epoch and os.path.exists(index):
        os.remove(index)
    if args.same_script:
        with open(script('ffcv_loader.py')) as file:
            program = re.sub('^from ffcv', 'from composer_loader.ffcv', file.read(), flags=re.MULTILINE)
        built = os.path.abspath(script('../build/release/python'))
        return last_json([args.loader_python, '-c', f'import sys; sys.path.insert(0, {built!r})\n' + program] + settings)
    return last_json(bench_loader(args) + ['--coefficient_cache', args.coefficient_cache] + settings)


theirs, ours = alternate(args.pairs, peer, product)
if args.first_epoch:
    compared = comparison(ours, theirs, 'images_per_s', lambda run: run['per_epoch'][0], 'images_per_s')
else:
    compared = comparison(ours, theirs, 'images_per_s')
print(json.dumps(dict(
    source=os.path.basename(args.source), pipeline=args.pipeline, resolution=theirs[0]['resolution'], batch_size=args.batch_size,
    num_workers=args.num_workers, pairs=args.pairs, peer=theirs[0]['peer'] + (', no flip' if args.peer_no_flip else ''),
    ours='first epoch, index removed before' if args.first_epoch else 'epochs after the first',
    first_batch_s=round(median(ours, 'first_batch_s'), 3), peer_first_batch_s=round(median(theirs, 'first_batch_s'), 3),
    max_rss_mb=median(ours, 'max_rss_mb'), peer_max_rss_mb=median(theirs, 'max_rss_mb'), **compared)))
