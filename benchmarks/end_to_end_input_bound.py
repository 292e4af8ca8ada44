#!/usr/bin/env python3
"""Training whose step is faster than its loader: the same photographs as a folder of JPEG files, as .beton, and as .beton
with progressive resizing on the device and in the loader, in turn. One JSON line, the ratios last.

    python3 benchmarks/end_to_end_input_bound.py PHOTOS

PHOTOS: class folders, tiled --repeat times by links, and written as .beton with its index, in a temporary folder; the
folder's index is made in the first round. Rates are the samples_per_second of each run's summary.json: training only,
without the first ten batches; medians of the rounds.

On two processors none of composer's own networks is quick enough for the input to be the bottleneck, so that the program is
composer_thin_network (thin_network.cpp): composer and one network that is. What bound a run shows beside: step and
step_small are the same training on noise that is in memory, at full and at --initial_scale size; loader is `composer bench
loader` alone on the .beton. Loader and step share the processors, so that a run is slower than either alone.
OMP_WAIT_POLICY, as it is in the environment, is printed too: on a machine that others use as well, "passive" keeps the step's
threads from spinning where the loader's could work.

Ratios: beton_over_folder; device_over_full, loader_over_full: progressive resizing there over full size; loader_over_device.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

from side_by_side import add_composer, alternate, last_json, median, options, ratio_of, script, tile

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('photos')
parser.add_argument('--repeat', type=int, default=4)
parser.add_argument('--crop_size', type=int, default=224)
parser.add_argument('--batch_size', type=int, default=64)
parser.add_argument('--epochs', type=int, default=6)
parser.add_argument('--num_workers', type=int, default=2)
parser.add_argument('--write_mode', default='jpg', choices=['jpg', 'raw'])
parser.add_argument('--max_resolution', type=int, default=500)
parser.add_argument('--initial_scale', type=float, default=0.5)
parser.add_argument('--delay_fraction', type=float, default=0.5)
parser.add_argument('--finetune_fraction', type=float, default=0.2)
parser.add_argument('--rounds', type=int, default=3)
add_composer(parser)
parser.set_defaults(composer=script('../build/release/bin/composer_thin_network'))
args = parser.parse_args()


class Training:
    """One setting, trained by `composer train` into a new run folder at each call."""

    def __init__(self, folder, name, dataset, algorithms=None):
        self.folder, self.name, self.runs = folder, name, 0
        # JSON is YAML too.
        self.recipe = dict(
            model=dict(thin_network=dict(num_classes=1000)), train_dataset=dataset, train_batch_size=args.batch_size,
            max_duration=f'{args.epochs}ep', eval_interval='0ep', save_interval='0ep', precision='fp32',
            optimizer=dict(sgd=dict(lr=0.01)), algorithms=dict(channels_last=None, **(algorithms or {})),
            dataloader=dict(num_workers=args.num_workers), run_dir=folder, progress_bar=False)

    def __call__(self):
        self.runs += 1
        run = f'{self.name}_{self.runs}'
        path = os.path.join(self.folder, run + '.yaml')
        with open(path, 'w') as file:
            json.dump(dict(self.recipe, run_name=run), file)
        done = subprocess.run([args.composer, 'train', '-f', path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            sys.exit(done.stdout)
        with open(os.path.join(self.folder, run, 'summary.json')) as file:
            return json.load(file)


def progressive(where):
    return dict(progressive_resizing=dict(initial_scale=args.initial_scale, delay_fraction=args.delay_fraction,
                                          finetune_fraction=args.finetune_fraction, where=where))


def noise(samples, size):
    return dict(synthetic=dict(height=size, width=size, samples=samples))


with tempfile.TemporaryDirectory() as folder:
    tiled = tile(args.photos, os.path.join(folder, 'tiled'), args.repeat)
    beton = os.path.join(folder, 'photos.beton')
    written = last_json([args.composer, 'data', 'write', '--format', 'image_folder', '--source', tiled, '--output', beton,
                         '--json'] + options(args, 'write_mode', 'max_resolution'))
    if written['items'] // args.batch_size * args.epochs <= 20:
        sys.exit('too few batches: the first ten of a run do not count; raise --repeat or --epochs')
    in_beton = dict(imagenet=dict(crop_size=args.crop_size, use_ffcv=True, ffcv_dir=folder, ffcv_dest='photos.beton'))
    runs = dict(
        folder=Training(folder, 'folder', dict(image_folder=dict(datadir=tiled, crop_size=args.crop_size))),
        beton=Training(folder, 'beton', in_beton),
        device=Training(folder, 'device', in_beton, progressive('device')),
        loader=Training(folder, 'loader', in_beton, progressive('loader')),
        step=Training(folder, 'step', noise(written['items'], args.crop_size)),
        step_small=Training(folder, 'step_small', noise(written['items'], round(args.crop_size * args.initial_scale))),
        loader_alone=lambda: last_json([args.composer, 'bench', 'loader', '--json', '--source', beton, '--resolution',
                                        str(args.crop_size)] + options(args, 'batch_size', 'num_workers', 'epochs')))
    found = dict(zip(runs, alternate(args.rounds, *runs.values())))


def rate(name):
    return round(median(found[name], 'images_per_s' if name == 'loader_alone' else 'samples_per_second'), 1)


def over(name, other):
    return ratio_of(found[name], found[other], 'samples_per_second')


print(json.dumps(dict(
    samples=written['items'], write_mode=args.write_mode, crop_size=args.crop_size, batch_size=args.batch_size,
    epochs=args.epochs, num_workers=args.num_workers, initial_scale=args.initial_scale, rounds=args.rounds,
    device=found['beton'][0]['device'], omp_wait_policy=os.environ.get('OMP_WAIT_POLICY'),
    what_binds=dict(step=rate('step'), step_small=rate('step_small'), loader=rate('loader_alone')),
    images_per_s=dict(folder=rate('folder'), beton=rate('beton'), progressive_on_device=rate('device'),
                      progressive_in_loader=rate('loader')),
    beton_over_folder=over('beton', 'folder'), device_over_full=over('device', 'beton'),
    loader_over_full=over('loader', 'beton'), loader_over_device=over('loader', 'device'))))
