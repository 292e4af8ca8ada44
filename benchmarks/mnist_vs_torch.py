#!/usr/bin/env python3
"""The recipe classify_mnist, start to end, against the same network in PyTorch with torchvision's loading, in alternation.
One JSON line, the ratio last.

    .deps/venv/bin/python benchmarks/mnist_vs_torch.py --datadir DIR_OF_THE_IDX_FILES

ratio: PyTorch's seconds over composer's, the median of the pairs; both count from the program's start to its end, evaluations
included. --epochs: fewer than the recipe's ten. --num_workers: of PyTorch's loader.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

from side_by_side import add_composer, alternate, comparison, last_json, median, options, script

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('--datadir', required=True)
parser.add_argument('--epochs', type=int, default=10)
parser.add_argument('--precision', choices=['fp32', 'amp_bf16'], default='amp_bf16')
parser.add_argument('--num_workers', type=int, default=2)
parser.add_argument('--pairs', type=int, default=5)
add_composer(parser)
args = parser.parse_args()


def ours():
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        subprocess.run([args.composer, 'train', '-f', 'classify_mnist', '--train_dataset.mnist.datadir', args.datadir,
                        '--val_dataset.mnist.datadir', args.datadir, '--max_duration', f'{args.epochs}ep', '--precision',
                        args.precision, '--run_dir', folder, '--run_name', 'run'],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seconds = time.perf_counter() - begin
        with open(os.path.join(folder, 'run/summary.json')) as file:
            metrics = json.load(file)['metrics']
    return dict(runs_per_hour=3600 / seconds, accuracy=metrics['metrics/eval/Accuracy'])


def theirs():
    words = options(args, 'datadir', 'epochs', 'precision', 'num_workers')
    found = last_json([sys.executable, script('torch_mnist.py')] + words)
    return dict(found, runs_per_hour=3600 / found['seconds'])


results, peers = alternate(args.pairs, ours, theirs)
print(json.dumps(dict(peer=peers[0]['peer'], epochs=args.epochs, precision=args.precision, pairs=args.pairs,
                      accuracy=median(results, 'accuracy'), peer_accuracy=median(peers, 'accuracy'),
                      **comparison(results, peers, 'runs_per_hour'))))
