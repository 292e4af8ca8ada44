#!/usr/bin/env python3
"""The simulation of `composer plan-scale`, with trainings of one rank and of two on this machine. One JSON line.

    .deps/venv/bin/python benchmarks/scale_vs_ranks.py

Rounds, in alternation: one rank alone; one rank with twice the images; two runs of one rank side by side, that know nothing of
each other; two ranks (`composer -n 2 train`); Gloo's all-reduce between two processes (gloo_link.py). Each process computes
with one thread. The simulation is given the step of a run of one rank (--from: the one with the median rate) and the medians
of Gloo's latency and bandwidth; it is held against the median step of what was measured. error_1: of one rank, from the other
half of the rounds; error_twice: of one rank with twice the images, from the same. error_2: of two ranks, from the run that had
another beside it, as two ranks share a memory. Exit status 1 where error_1 or error_2 is beyond --limit.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from side_by_side import add_composer, alternate, script

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('--batch_size', type=int, default=64, help='of a rank')
parser.add_argument('--steps', type=int, default=40, help='beside ten to warm up')
parser.add_argument('--rounds', type=int, default=7, help='at least two')
parser.add_argument('--model', default='resnet_20', help='or resnet_56, resnet18, resnet50: the latter have more to sum')
parser.add_argument('--seconds', type=float, default=float('inf'))
parser.add_argument('--limit', type=float, default=0.15)
add_composer(parser)
args = parser.parse_args()

family = 'resnet_cifar' if '_' in args.model else 'resnet'
warmup = 10  # batches that summary.json's rate leaves out
alone = dict(os.environ, OMP_NUM_THREADS='1')


def recipe(folder, name, batch_size):
    batches = warmup + args.steps
    path = os.path.join(folder, name + '.yaml')
    with open(path, 'w') as file:
        json.dump(dict(  # JSON is YAML too
            model={family: dict(model_name=args.model, num_classes=10)},
            train_dataset=dict(synthetic=dict(height=32, width=32, num_classes=10, samples=batch_size * batches)),
            train_batch_size=batch_size, max_duration=f'{batches}ba', eval_interval='0ep', save_interval='0ep',
            optimizer=dict(sgd=dict(lr=0.01, momentum=0.9, weight_decay=5e-5, nesterov=True)),
            algorithms=dict(channels_last=None), dataloader=dict(num_workers=0), log_interval=f'{batches}ba',
            precision='fp32', device='cpu', run_dir=folder, run_name=name, progress_bar=False), file)
    return path


def finish(processes):
    for process in processes:
        _, errors = process.communicate()
        if process.returncode != 0:
            sys.exit(f'{" ".join(process.args)}\nended with status {process.returncode}:\n{errors[-2000:]}')


class Trainings:
    """`runs` trainings of `ranks` each, at the same time; the step of the first. images: of a rank."""

    def __init__(self, folder, runs, ranks, images):
        self.folder, self.runs, self.ranks, self.batch_size, self.calls = folder, runs, ranks, ranks * images, 0

    def __call__(self):
        self.calls += 1
        names = [f'{self.runs}x{self.ranks}_{self.batch_size}_{self.calls}_{run}' for run in range(self.runs)]
        start = [args.composer] + (['-n', str(self.ranks)] if self.ranks > 1 else []) + ['train', '-f']
        finish([subprocess.Popen(start + [recipe(self.folder, name, self.batch_size)], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True, env=alone) for name in names])
        with open(os.path.join(self.folder, names[0], 'summary.json')) as file:
            rate = json.load(file)['samples_per_second']
        return dict(run=os.path.join(self.folder, names[0]), step_seconds=self.batch_size / rate)


def link():
    done = subprocess.run([sys.executable, script('gloo_link.py')], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def median(results, key):
    return statistics.median(result[key] for result in results)


def simulated(folder, results, links, ranks, images):
    """The plan of `ranks` ranks with so many images each, by the run of `results` whose own step is the median."""
    middle = sorted(results, key=lambda result: result['step_seconds'])[len(results) // 2]['run']
    command = [args.composer, 'plan-scale', '-f', recipe(folder, 'planned', images * ranks), '--from', middle, '--gpu', 'cpu',
               '--gpus', str(ranks), '--link_gb_s', str(median(links, 'link_gb_s')),
               '--link_us', str(median(links, 'link_us')), '--simulated_steps', '50', '--json']
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=alone)
    plan, = json.loads(done.stdout)['plans']
    return plan


with tempfile.TemporaryDirectory() as scratch:
    images = args.batch_size
    one, twice, beside, two, links = alternate(
        args.rounds, Trainings(scratch, 1, 1, images), Trainings(scratch, 1, 1, 2 * images), Trainings(scratch, 2, 1, images),
        Trainings(scratch, 1, 2, images), link, seconds=args.seconds)
    plans = {'1': simulated(scratch, one[::2], links, 1, images), 'twice': simulated(scratch, one[::2], links, 1, 2 * images),
             '2': simulated(scratch, beside, links, 2, images)}
    measured = {'1': one[1::2], 'twice': twice, '2': two}
    shown = dict(model=args.model, batch_size=images, rounds=len(one), link_gb_s=round(median(links, 'link_gb_s'), 3),
                 link_us=round(median(links, 'link_us'), 1), sums_seconds=round(plans['2']['communication']['seconds'], 5))
    for name, plan in plans.items():
        ours, theirs = plan['simulated']['step_seconds'], median(measured[name], 'step_seconds')
        shown.update({'measured_' + name: round(theirs, 4), 'simulated_' + name: round(ours, 4),
                      'error_' + name: round(ours / theirs - 1, 3),
                      'steps_' + name: [round(result['step_seconds'], 4) for result in measured[name]]})
    print(json.dumps(shown))
    sys.exit(any(abs(shown['error_' + name]) > args.limit for name in ('1', '2')))
