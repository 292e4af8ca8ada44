#!/usr/bin/env python3
"""composer_loader's Loader on a set, as `composer bench loader` measures: one JSON line. For the comparisons' --loader_python.

The package is that of build/release/python, or the installed one where that is not built. framework: uint8 PyTorch tensors
where PyTorch is installed, else NumPy's arrays.
"""
import argparse
import json
import os
import resource
import statistics
import sys
import time

built = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../build/release/python')
if os.path.exists(os.path.join(built, 'composer_loader')):
    sys.path.insert(0, built)

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('--source', required=True)
parser.add_argument('--batch_size', type=int, default=256)
parser.add_argument('--num_workers', type=int, default=2)
parser.add_argument('--resolution', type=int, default=224, help='of 32 x 32 images 32')
parser.add_argument('--epochs', type=int, default=3, help='the first one included, which is left out')
parser.add_argument('--pipeline', default='train', choices=['train', 'eval'])
parser.add_argument('--output', default='uint8')
parser.add_argument('--framework')
parser.add_argument('--crop_index', default='cache')
parser.add_argument('--coefficient_cache', type=float, default=0)
parser.add_argument('--held', type=float, default=0, help='seconds of each step for which the loop holds the GIL')
parser.add_argument('--json', action='store_true', help='as always')
args = parser.parse_args()

from composer_loader import Loader

if args.framework != 'numpy':
    try:
        import torch  # noqa: F401  the time until the first batch begins after it
    except ImportError:
        pass
begin = time.perf_counter()
size = args.resolution if args.resolution != 224 else None  # the default, which is 32 for small images
loader = Loader(args.source, args.batch_size, size=size, pipeline=args.pipeline, num_workers=args.num_workers,
                drop_last=True, output=args.output, framework=args.framework, crop_index=args.crop_index,
                coefficient_cache=args.coefficient_cache)
first_batch, per_epoch = None, []
for epoch in range(args.epochs):
    start, images = begin if epoch == 0 else time.perf_counter(), 0
    for batch in loader:
        images += len(batch[0])
        if first_batch is None:
            first_batch = time.perf_counter() - begin
        if args.held:
            until = time.perf_counter() + args.held
            while time.perf_counter() < until:
                pass
    per_epoch.append(images / (time.perf_counter() - start))
print(json.dumps(dict(
    images_per_s=statistics.median(per_epoch[1:] or per_epoch), per_epoch=per_epoch, first_batch_s=first_batch,
    max_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)))
