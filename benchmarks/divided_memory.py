#!/usr/bin/env python3
"""Memory that a rank takes to train on large images whose rows 1, 2 and 4 ranks divide (spatial_ranks). One JSON line.

    python3 benchmarks/divided_memory.py --resolution 1024 --batch_size 2

For each number of ranks: peak_memory_bytes of rank 0's summary.json in MiB, and without what the program takes for images of 32
pixels; the loss of the last batch; seconds a batch, which on one machine's processors say nothing of several devices. ratio: such
memory of one rank over that of the most ranks.
"""
import argparse
import json
import os
import subprocess
import tempfile

from side_by_side import add_composer

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('--model', default='resnet18')
parser.add_argument('--resolution', type=int, default=1024)
parser.add_argument('--batch_size', type=int, default=2)
parser.add_argument('--batches', type=int, default=3)
parser.add_argument('--ranks', type=int, nargs='+', default=[1, 2, 4])
parser.add_argument('--precision', default='fp32')
parser.add_argument('--algorithms', nargs='*', default=[])
parser.add_argument('--device', default='cpu', choices=['cpu', 'gpu'])
add_composer(parser)
args = parser.parse_args()


def train(ranks, resolution):
    """Peak memory in MiB, the last loss and seconds a batch of rank 0."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'recipe.yaml')
        with open(path, 'w') as file:
            json.dump({'model': {'resnet': {'model_name': args.model, 'num_classes': 10}},
                       'train_dataset': {'synthetic': {'height': resolution, 'width': resolution, 'num_classes': 10,
                                                       'samples': 1000}},
                       'optimizer': {'sgd': {'lr': 0.01, 'momentum': 0.9}},
                       'algorithms': {name: {} for name in args.algorithms},
                       'train_batch_size': args.batch_size, 'max_duration': f'{args.batches}ba', 'log_interval': '1ba',
                       'eval_interval': '0ep', 'precision': args.precision, 'device': args.device, 'spatial_ranks': ranks,
                       'dataloader': {'num_workers': 1}, 'run_dir': folder, 'run_name': 'run', 'save_interval': '0ep'}, file)
        start = ['-n', str(ranks)] if ranks > 1 else []
        subprocess.run([args.composer, *start, 'train', '-f', path], check=True, stderr=subprocess.DEVNULL)
        with open(os.path.join(folder, 'run/summary.json')) as file:
            summary = json.load(file)
        with open(os.path.join(folder, 'run/metrics.jsonl')) as file:
            losses = [record['loss/train'] for record in map(json.loads, file) if 'loss/train' in record]
    return summary['peak_memory_bytes'] / 2**20, losses[-1], args.batch_size / summary['samples_per_second']


results = []
for ranks in args.ranks:
    program = train(ranks, 32)[0]
    peak, loss, seconds = train(ranks, args.resolution)
    results.append(dict(ranks=ranks, peak_mib=round(peak), images_mib=round(peak - program), loss=round(loss, 5),
                        seconds_a_batch=round(seconds, 2)))
print(json.dumps(dict(model=args.model, resolution=args.resolution, batch_size=args.batch_size, precision=args.precision,
                      algorithms=args.algorithms, results=results,
                      ratio=round(results[0]['images_mib'] / results[-1]['images_mib'], 2))))
