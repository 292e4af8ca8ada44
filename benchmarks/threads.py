#!/usr/bin/env python3
"""Settings of compute and loader threads against the default: one training each in turn. One JSON line a work.

    python3 benchmarks/threads.py --photos PHOTOS --cifar CIFAR

Works: quickstart; beton (ResNet-18 at 64 pixels from a .beton of PHOTOS); airbench94 (its recipe on CIFAR). Works whose data
are not given are left out; --works names others. Settings: of OpenMP's waiting (OMP_WAIT_POLICY, GOMP_SPINCOUNT), of the number
of compute threads (OMP_NUM_THREADS) and of loader threads (num_workers); --settings names some of them.

Of each: seconds and cpu_seconds (user and system) a run, medians of the rounds; ratio: the default's seconds over the setting's,
median of the pairs, above 1 where the setting is faster; spread: least and greatest of these; cpu_ratio likewise of cpu_seconds.
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
    'passive': ({'OMP_WAIT_POLICY': 'passive'}, []),
    'active': ({'OMP_WAIT_POLICY': 'active'}, []),
    'spin_1000': ({'GOMP_SPINCOUNT': '1000'}, []),
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
parser.add_argument('--works', nargs='+', choices=['quickstart', 'beton', 'airbench94'])
parser.add_argument('--settings', nargs='+', choices=[name for name in settings if name != 'default'],
                    default=[name for name in settings if name != 'default'])
parser.add_argument('--rounds', type=int, default=5)
parser.add_argument('--batches', type=int, default=40, help='of each run')
add_composer(parser)
args = parser.parse_args()


class Training:
    """A work under a setting, trained anew at each call."""

    def __init__(self, words, setting):
        environment, more = settings[setting]
        self.environment = {**os.environ, **environment}
        self.words = [args.composer, 'train', *words, *more, '--run_dir', 'none', '--progress_bar', 'false', '--eval_interval', '0ep',
                      '--max_duration', f'{args.batches}ba']

    def __call__(self):
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        done = subprocess.run(self.words, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        seconds, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode != 0:
            sys.exit(f'{" ".join(self.words)}\nended with status {done.returncode}:\n{done.stdout[-2000:]}')
        return dict(seconds=seconds, cpu_seconds=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def works(folder):
    """The words of each work that can run; by default of all whose data are there."""
    wanted = args.works or ['quickstart'] + ['beton'] * bool(args.photos) + ['airbench94'] * bool(args.cifar)
    for name, argument in dict(beton='photos', airbench94='cifar').items():
        if name in wanted and not getattr(args, argument):
            parser.error(f'{name} needs --{argument}')
    found = {}
    if 'quickstart' in wanted:
        found['quickstart'] = ['-f', 'quickstart']
    if 'beton' in wanted:
        beton = os.path.join(folder, 'photos.beton')
        last_json([args.composer, 'data', 'write', '--format', 'image_folder', '--source',
                   tile(args.photos, os.path.join(folder, 'tiled'), args.repeat), '--output', beton, '--max_resolution', '256', '--json'])
        found['beton'] = ['-f', 'resnet18', '--precision', 'amp', '--train_dataset.imagenet.use_ffcv', 'true',
                          '--train_dataset.imagenet.ffcv_dir', folder, '--train_dataset.imagenet.ffcv_dest', 'photos.beton',
                          '--train_dataset.imagenet.crop_size', '64', '--val_dataset', 'none', '--train_batch_size', '64']
    if 'airbench94' in wanted:
        found['airbench94'] = ['-f', 'airbench94', '--train_dataset.cifar10.datadir', args.cifar, '--val_dataset', 'none']
    return found


with tempfile.TemporaryDirectory() as folder:
    for work, words in works(folder).items():
        names = ['default', *args.settings]
        found = dict(zip(names, alternate(args.rounds, *(Training(words, name) for name in names))))
        rows = {}
        for name in args.settings:
            ratios = pair_ratios(found['default'], found[name], 'seconds')
            rows[name] = dict(seconds=round(median(found[name], 'seconds'), 2), cpu_seconds=round(median(found[name], 'cpu_seconds'), 2),
                              cpu_ratio=ratio_of(found['default'], found[name], 'cpu_seconds'),
                              spread=[round(min(ratios), 3), round(max(ratios), 3)], ratio=round(statistics.median(ratios), 3))
            rows[name]['faster'] = rows[name]['ratio'] >= 1.03 and sum(ratio > 1 for ratio in ratios) >= 0.75 * len(ratios)
        print(json.dumps(dict(work=work, cores=cores, rounds=args.rounds, batches=args.batches,
                              seconds=round(median(found['default'], 'seconds'), 2),
                              cpu_seconds=round(median(found['default'], 'cpu_seconds'), 2), settings=rows,
                              faster=[name for name, row in rows.items() if row['faster']])), flush=True)
