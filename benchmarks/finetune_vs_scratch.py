#!/usr/bin/env python3
"""Fine-tuning against training from scratch for four times as long, both by the recipe finetune. A table, then one JSON line.

    python3 benchmarks/finetune_vs_scratch.py --source TINY_IMAGENET_10 --pretrain_source CIFAR_JPEG --seeds 1 2 3

Both sources have train/ and val/ with class folders, or class folders alone. First a network is trained on PRETRAIN_SOURCE, whose
classes are others, once (--weights takes a file in its place). Then for each seed one run starts from these weights and trains for
--epochs, and one starts afresh and trains for --times as many; everything else the recipe chooses by the images and by whether
weights are given. accuracy: on the evaluation images at the end; seconds: of training, on the same machine, in alternation.
verdict: whether fine-tuning is better with every seed, and by how much.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from side_by_side import add_composer

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('--source', required=True, help='images to train for')
parser.add_argument('--pretrain_source', help='images of other classes')
parser.add_argument('--weights', help='.safetensors, .pth or a checkpoint folder in place of a pretraining')
parser.add_argument('--seeds', type=int, nargs='+', default=[1, 2, 3])
parser.add_argument('--epochs', type=int, default=10, help='of fine-tuning')
parser.add_argument('--times', type=int, default=4, help='how many times as long training from scratch takes')
parser.add_argument('--pretrain_epochs', type=int, default=20)
parser.add_argument('--model_name', default='resnet18')
parser.add_argument('--more', nargs=argparse.REMAINDER, default=[], help='last: further words of all trainings')
add_composer(parser)
args = parser.parse_args()
if not args.weights and not args.pretrain_source:
    parser.error('--pretrain_source or --weights: one of them is needed')


def train(folder, name, source, epochs, seed, weights=None):
    """Accuracy and seconds of a training, whose folder is folder/name."""
    words = {'datadir': source, 'model_name': args.model_name, 'max_duration': f'{epochs}ep', 'eval_interval': f'{epochs}ep',
             'save_interval': '0ep', 'seed': seed, 'run_dir': folder, 'run_name': name, 'progress_bar': 'false'}
    if weights:
        words['load_path'] = weights
    command = [args.composer, 'train', '-f', 'finetune']
    command += [word for key, value in words.items() for word in ('--' + key, str(value))] + args.more
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    with open(os.path.join(folder, name, 'summary.json')) as file:
        summary = json.load(file)
    return summary['metrics']['metrics/eval/Accuracy'], summary['seconds']


def figures(pairs):
    accuracies, seconds = zip(*pairs)
    spread = statistics.stdev(accuracies) if len(accuracies) > 1 else 0
    return dict(accuracies=[round(a, 4) for a in accuracies], mean=round(statistics.mean(accuracies), 4), spread=round(spread, 4),
                seconds=round(statistics.median(seconds), 1))


with tempfile.TemporaryDirectory() as folder:
    weights, pretrained = args.weights, None
    if not weights:
        pretrained = train(folder, 'pretraining', args.pretrain_source, args.pretrain_epochs, 17)[0]
        weights = os.path.join(folder, 'pretraining', 'checkpoints', 'latest')
    tuned, scratch = [], []
    for seed in args.seeds:
        tuned.append(train(folder, f'tuned-{seed}', args.source, args.epochs, seed, weights))
        scratch.append(train(folder, f'scratch-{seed}', args.source, args.times * args.epochs, seed))
        print(f'seed {seed}: fine-tuned {tuned[-1][0]:.4f} in {tuned[-1][1]:.0f} s, from scratch {scratch[-1][0]:.4f} in '
              f'{scratch[-1][1]:.0f} s', file=sys.stderr)

tuned_figures, scratch_figures = figures(tuned), figures(scratch)
print(f'{"":14}{"epochs":>8}{"accuracy":>10}{"spread":>9}{"seconds":>9}')
for label, epochs, row in (('fine-tuned', args.epochs, tuned_figures),
                           ('from scratch', args.times * args.epochs, scratch_figures)):
    print(f'{label:14}{epochs:>8}{row["mean"]:>10.4f}{row["spread"]:>9.4f}{row["seconds"]:>9.1f}')
gains = [a[0] - b[0] for a, b in zip(tuned, scratch)]
print(json.dumps(dict(seeds=args.seeds, model=args.model_name, pretrained_accuracy=pretrained, epochs=args.epochs,
                      scratch_epochs=args.times * args.epochs, fine_tuned=tuned_figures, from_scratch=scratch_figures,
                      gain=round(statistics.mean(gains), 4),
                      time_ratio=round(tuned_figures['seconds'] / max(scratch_figures['seconds'], 1e-9), 3),
                      verdict='fine-tuning is better with every seed' if min(gains) > 0 else
                              'training from scratch is as good or better with some seed')))
