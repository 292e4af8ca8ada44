#!/usr/bin/env python3
"""Settings of compute and loader threads against the default: one training each in turn. One JSON line a work.

    python3 benchmarks/threads.py --photos PHOTOS --cifar CIFAR
    python3 benchmarks/threads.py --works quickstart resnet20 ranks --settings unbounded passive --beside

Works: quickstart; resnet20 (on drawn images of CIFAR-10's size); resnet50 (on drawn images of 64 pixels); ranks (the quickstart
by two ranks of one thread each); beton (ResNet-18 at 64 pixels from a .beton of PHOTOS); airbench94 (its recipe on CIFAR). Without
--works: quickstart, and those of the last two whose data are given. Settings: of OpenMP's waiting (OMP_WAIT_POLICY,
GOMP_SPINCOUNT), of the number of compute threads (OMP_NUM_THREADS) and of loader threads (num_workers); --settings names some of
them.

Of each: seconds and cpu_seconds (user and system) a run, medians of the rounds; ratio: the default's seconds over the setting's,
median of the pairs, above 1 where the setting is faster; spread: least and greatest of these; cpu_ratio likewise of cpu_seconds.
share, with --beside: the seconds of a run alone over those of a run beside a second one, both under the setting; two programs
that share the cores without loss have 0.5 each.
faster: the settings of which three quarters of the pairs are above 1 and the median is at least 1.03.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from side_by_side import add_composer, alternate, last_json, median, pair_ratios, ratio_of, tile

cores = len(os.sched_getaffinity(0))
settings = {
    'default': ({}, []),
    'unbounded': ({'GOMP_SPINCOUNT': '300000'}, []),  # what OpenMP does by itself
    'passive': ({'OMP_WAIT_POLICY': 'passive'}, []),
    'active': ({'OMP_WAIT_POLICY': 'active'}, []),
    'spin_500': ({'GOMP_SPINCOUNT': '500'}, []),
    'spin_1000': ({'GOMP_SPINCOUNT': '1000'}, []),
    'spin_10000': ({'GOMP_SPINCOUNT': '10000'}, []),
    'spin_30000': ({'GOMP_SPINCOUNT': '30000'}, []),
    'workers_0': ({}, ['--num_workers', '0']),
    'workers_1': ({}, ['--num_workers', '1']),
    'workers_cores': ({}, ['--num_workers', str(cores)]),
    'workers_1_passive': ({'OMP_WAIT_POLICY': 'passive'}, ['--num_workers', '1']),
    'compute_less_1': ({'OMP_NUM_THREADS': str(max(1, cores - 1))}, []),
    'compute_less_1_workers_1': ({'OMP_NUM_THREADS': str(max(1, cores - 1))}, ['--num_workers', '1']),
}

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('--photos', help='class folders with JPEG files, for the work beton')
parser.add_argument('--repeat', type=int, default=4, help='uses each of the photographs so often')
parser.add_argument('--cifar', help="a folder with CIFAR-10's binary files, for airbench94")
parser.add_argument('--works', nargs='+', choices=['quickstart', 'resnet20', 'resnet50', 'ranks', 'beton', 'airbench94'])
parser.add_argument('--settings', nargs='+', choices=[name for name in settings if name != 'default'],
                    default=[name for name in settings if name != 'default'])
parser.add_argument('--beside', action='store_true', help='measures each setting beside a second run, too')
parser.add_argument('--rounds', type=int, default=5)
parser.add_argument('--batches', type=int, default=40, help='of each run')
add_composer(parser)
args = parser.parse_args()


class Training:
    """A work under a setting, trained anew at each call, in so many runs at once."""

    def __init__(self, words, setting, copies=1):
        environment, more = settings[setting]
        self.environment = {**os.environ, **environment}
        self.words = [args.composer, *words, *more, '--run_dir', 'none', '--progress_bar', 'false', '--eval_interval', '0ep',
                      '--max_duration', f'{args.batches}ba']
        self.copies = copies

    def __call__(self):
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        running = [subprocess.Popen(self.words, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                   for _ in range(self.copies)]
        for process in running:
            output, _ = process.communicate()
            if process.returncode != 0:
                for other in running:
                    other.kill()
                sys.exit(f'{" ".join(self.words)}\nended with status {process.returncode}:\n{output[-2000:]}')
        seconds, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
        return dict(seconds=seconds, cpu_seconds=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def works(folder):
    """The words of each work that can run; by default of all whose data are there."""
    wanted = args.works or ['quickstart'] + ['beton'] * bool(args.photos) + ['airbench94'] * bool(args.cifar)
    for name, argument in dict(beton='photos', airbench94='cifar').items():
        if name in wanted and not getattr(args, argument):
            parser.error(f'{name} needs --{argument}')
    found = {}
    if 'quickstart' in wanted:
        found['quickstart'] = ['train', '-f', 'quickstart']
    if 'resnet20' in wanted:
        found['resnet20'] = ['train', '-f', 'resnet20_cifar10', '--train_dataset.cifar10.use_synthetic', 'true', '--val_dataset', 'none']
    if 'resnet50' in wanted:
        found['resnet50'] = ['train', '-f', 'resnet50', '--use_synthetic', 'true', '--train_dataset.imagenet.crop_size', '64',
                             '--val_dataset', 'none', '--train_batch_size', '16']
    if 'ranks' in wanted:
        found['ranks'] = ['-n', '2', 'train', '-f', 'quickstart']
    if 'beton' in wanted:
        beton = os.path.join(folder, 'photos.beton')
        last_json([args.composer, 'data', 'write', '--format', 'image_folder', '--source',
                   tile(args.photos, os.path.join(folder, 'tiled'), args.repeat), '--output', beton, '--max_resolution', '256', '--json'])
        found['beton'] = ['train', '-f', 'resnet18', '--precision', 'amp', '--train_dataset.imagenet.use_ffcv', 'true',
                          '--train_dataset.imagenet.ffcv_dir', folder, '--train_dataset.imagenet.ffcv_dest', 'photos.beton',
                          '--train_dataset.imagenet.crop_size', '64', '--val_dataset', 'none', '--train_batch_size', '64']
    if 'airbench94' in wanted:
        found['airbench94'] = ['train', '-f', 'airbench94', '--train_dataset.cifar10.datadir', args.cifar, '--val_dataset', 'none']
    return found


with tempfile.TemporaryDirectory() as folder:
    for work, words in works(folder).items():
        names = ['default', *args.settings]
        runs = [(name, copies) for name in names for copies in ([1, 2] if args.beside else [1])]
        measured = dict(zip(runs, alternate(args.rounds, *(Training(words, *run) for run in runs))))
        found = {name: measured[name, 1] for name in names}
        shares = {name: ratio_of(found[name], measured[name, 2], 'seconds') for name in names if args.beside}
        rows = {}
        for name in args.settings:
            ratios = pair_ratios(found['default'], found[name], 'seconds')
            rows[name] = dict(seconds=round(median(found[name], 'seconds'), 2), cpu_seconds=round(median(found[name], 'cpu_seconds'), 2),
                              cpu_ratio=ratio_of(found['default'], found[name], 'cpu_seconds'),
                              spread=[round(min(ratios), 3), round(max(ratios), 3)], ratio=round(statistics.median(ratios), 3))
            if args.beside:
                rows[name]['share'] = shares[name]
            rows[name]['faster'] = rows[name]['ratio'] >= 1.03 and sum(ratio > 1 for ratio in ratios) >= 0.75 * len(ratios)
        print(json.dumps(dict(work=work, cores=cores, rounds=args.rounds, batches=args.batches,
                              seconds=round(median(found['default'], 'seconds'), 2),
                              cpu_seconds=round(median(found['default'], 'cpu_seconds'), 2),
                              **(dict(share=shares['default']) if args.beside else {}), settings=rows,
                              faster=[name for name, row in rows.items() if row['faster']])), flush=True)
