#!/usr/bin/env python3
"""Ranks that train one network against as many runs that know nothing of each other, side by side, and against PyTorch's
DistributedDataParallel over Gloo, in alternation. One JSON line, the ratios last.

    .deps/venv/bin/python benchmarks/ranks_vs_torch.py --ranks 2

Each process computes with one thread, which a core should be free for; batches are of noise in memory. images_per_s: of all
processes together. ratio: composer's ranks over DistributedDataParallel, the median of the pairs; unconnected_ratio:
composer's ranks over its runs side by side. --seconds: no round begins that would probably end later.
"""
import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile

from side_by_side import add_composer, alternate, comparison, ratio_of, script

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('--ranks', type=int, default=2)
parser.add_argument('--batch_size', type=int, default=128, help='of a rank')
parser.add_argument('--steps', type=int, default=30, help='beside ten to warm up')
parser.add_argument('--pairs', type=int, default=5)
parser.add_argument('--seconds', type=float, default=float('inf'))
add_composer(parser)
args = parser.parse_args()

warmup = 10  # batches that summary.json's rate leaves out


def environment(rank, ranks, port):
    return dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks),
                MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port), OMP_NUM_THREADS='1')


def free_port():
    with socket.socket() as found:
        found.bind(('127.0.0.1', 0))
        return found.getsockname()[1]


def outputs(commands, environments):
    """Standard outputs of the commands, which run at the same time; ends this program where one fails."""
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables)
               for command, variables in zip(commands, environments)]
    ended = [process.communicate() for process in started]
    for process, (_, errors) in zip(started, ended):
        if process.returncode != 0:
            sys.exit(f'{" ".join(process.args)}\nended with status {process.returncode}:\n{errors[-2000:]}')
    return [output for output, _ in ended]


class Trainings:
    """`runs` trainings at the same time, of `ranks` each."""

    def __init__(self, folder, runs, ranks):
        self.folder, self.runs, self.ranks, self.calls = folder, runs, ranks, 0

    def recipe(self, name):
        batch_size = args.batch_size * self.ranks
        batches = warmup + args.steps
        return dict(
            model=dict(resnet_cifar=dict(model_name='resnet_20', num_classes=10)),
            train_dataset=dict(synthetic=dict(height=32, width=32, num_classes=10, samples=batch_size * batches)),
            train_batch_size=batch_size, max_duration=f'{batches}ba', eval_interval='0ep', save_interval='0ep',
            optimizer=dict(sgd=dict(lr=0.01, momentum=0.9, weight_decay=5e-5, nesterov=True)),
            algorithms=dict(channels_last=None, label_smoothing=dict(smoothing=0.1)), dataloader=dict(num_workers=0),
            log_interval=f'{batches}ba', precision='fp32', device='cpu', run_dir=self.folder, run_name=name,
            progress_bar=False)

    def __call__(self):
        self.calls += 1
        names = [f'{self.ranks}_{self.calls}_{run}' for run in range(self.runs)]
        commands, environments = [], []
        for name in names:
            path = os.path.join(self.folder, name + '.yaml')
            with open(path, 'w') as file:
                json.dump(self.recipe(name), file)  # JSON is YAML too
            port = free_port()
            for rank in range(self.ranks):
                commands.append([args.composer, 'train', '-f', path])
                environments.append(environment(rank, self.ranks, port))
        outputs(commands, environments)
        rates = []
        for name in names:
            with open(os.path.join(self.folder, name, 'summary.json')) as file:
                rates.append(json.load(file)['samples_per_second'])
        return dict(images_per_s=sum(rates))


def peer():
    port = free_port()
    command = [sys.executable, script('torch_ranks.py'), '--batch_size', str(args.batch_size), '--warmup', str(warmup),
               '--steps', str(args.steps)]
    first, *_ = outputs([command] * args.ranks, [environment(rank, args.ranks, port) for rank in range(args.ranks)])
    return json.loads(first.strip().splitlines()[-1])


with tempfile.TemporaryDirectory() as scratch:
    theirs, ours, unconnected = alternate(
        args.pairs, peer, Trainings(scratch, 1, args.ranks), Trainings(scratch, args.ranks, 1), seconds=args.seconds)
print(json.dumps(dict(ranks=args.ranks, batch_size=args.batch_size, peer=theirs[0]['peer'], pairs=len(ours),
                      unconnected_ratio=ratio_of(ours, unconnected, 'images_per_s'),
                      **comparison(ours, theirs, 'images_per_s'))))
