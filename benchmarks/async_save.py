#!/usr/bin/env python3
"""How long a checkpoint of ResNet-50 with momentum holds up training: with save_async, and without. One JSON line.

    python3 benchmarks/async_save.py --pairs 5

Runs in alternation, each with several checkpoints; what a run says of the seconds its training thread stood still for each
(checkpoint/stall_seconds). The first one of a run, for which host memory is taken, counts too. A step is short here, so
batches_between lie between two checkpoints: one that begins before the last one is written waits for it. ratio: of the medians of
a pair, the median over the pairs.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

from side_by_side import add_composer, alternate, median, ratio_of

recipe = '''
model: {resnet: {model_name: resnet50, num_classes: 1000}}
train_dataset: {shapes: {samples: 4096}}
optimizer: {decoupled_sgdw: {lr: 1.0e-3, momentum: 0.9, weight_decay: 5.0e-4}}
schedulers: {constant: {}}
train_batch_size: 2
eval_interval: 0ep
precision: fp32
save_num_checkpoints_to_keep: 1
'''

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('--pairs', type=int, default=5)
parser.add_argument('--saves', type=int, default=4, help='checkpoints of a run')
parser.add_argument('--batches_between', type=int, default=25)
parser.add_argument('--device', default='auto', choices=['auto', 'cpu', 'gpu'])
parser.add_argument('--folder', help='where checkpoints are written; default: a temporary folder')
add_composer(parser)
args = parser.parse_args()


def train(folder, save_async):
    """The seconds of each checkpoint."""
    run = tempfile.mkdtemp(dir=folder)
    path = os.path.join(run, 'recipe.yaml')
    with open(path, 'w') as file:
        file.write(recipe)
    subprocess.run([args.composer, 'train', '-f', path, '--save_async', str(save_async).lower(), '--run_dir', run, '--run_name', 'run',
                    '--device', args.device, '--save_interval', f'{args.batches_between}ba',
                    '--max_duration', f'{args.batches_between * args.saves}ba'], check=True, stderr=subprocess.DEVNULL)
    with open(os.path.join(run, 'run/metrics.jsonl')) as file:
        records = [json.loads(line) for line in file]
    return {'stall': statistics.median(record['checkpoint/stall_seconds'] for record in records if record['event'] == 'save')}


with tempfile.TemporaryDirectory(dir=args.folder) as folder:
    behind, at_once = alternate(args.pairs, lambda: train(folder, True), lambda: train(folder, False))
print(json.dumps(dict(
    pairs=args.pairs, saves=args.saves, stall_seconds=round(median(behind, 'stall'), 4),
    synchronous_seconds=round(median(at_once, 'stall'), 4), ratio=ratio_of(behind, at_once, 'stall'))))
