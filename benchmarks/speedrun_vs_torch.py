#!/usr/bin/env python3
"""The steps of the recipe airbench94 against the same steps in PyTorch, in alternation. One JSON line, the ratio last.

    .deps/venv/bin/python benchmarks/speedrun_vs_torch.py --datadir DIR_OF_THE_CIFAR_BINARIES

ratio: composer's images/s over PyTorch's, the median of the pairs. composer's steps include loading and augmentation,
PyTorch's do not. --precision: of the peer (torch_airbench.py).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from side_by_side import add_composer, alternate, comparison, last_json, options, script

warmup = 2
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('--datadir', required=True)
parser.add_argument('--steps', type=int, default=5)
parser.add_argument('--pairs', type=int, default=5)
parser.add_argument('--precision', choices=['bf16', 'autocast'], default='bf16')
add_composer(parser)
args = parser.parse_args()


def ours():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([args.composer, 'train', '-f', 'airbench94', '--train_dataset.cifar10.datadir', args.datadir,
                        '--val_dataset', 'none', '--max_duration', f'{warmup + args.steps}ba', '--log_interval', '1ba',
                        '--run_dir', folder, '--run_name', 'run'], check=True, stderr=subprocess.DEVNULL)
        with open(os.path.join(folder, 'run/metrics.jsonl')) as file:
            ends = [line['seconds'] for line in map(json.loads, file) if line['event'] == 'batch']
    times = [end - begin for begin, end in zip(ends[warmup - 1:], ends[warmup:])]
    return dict(images_per_s=1024 / statistics.median(times))


results, theirs = alternate(
    args.pairs, ours, lambda: last_json([sys.executable, script('torch_airbench.py')] + options(args, 'steps', 'precision')))
print(json.dumps(dict(peer=theirs[0]['peer'], precision=args.precision, pairs=args.pairs,
                      **comparison(results, theirs, 'images_per_s'))))
