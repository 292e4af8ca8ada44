#!/usr/bin/env python3
"""The recipe mild against the plain recipe, at a small size: ResNet-18, from .beton files. One JSON line.

    python3 benchmarks/mild_vs_plain.py --source TINY_IMAGENET_10 --seeds 1 2 3

TINY_IMAGENET_10 has train/ and val/ with class folders of images of 64 x 64. Both train with the same batches and learning
rate, and for the same number of epochs unless --mild_epochs says otherwise (the time ratio of equal epochs tells how many take
as long as plain's). mild: its five algorithms, its loss and its smaller training images (48 of 64 as 176 of 224), the average's
half-life scaled with the length of the run; plain: resnet18's recipe. accuracy: at the end; seconds: of training and
evaluation at the end, in alternation on the same machine.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

from side_by_side import add_composer

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('--source', required=True)
parser.add_argument('--seeds', type=int, nargs='+', default=[1, 2, 3])
parser.add_argument('--epochs', type=int, default=20)
parser.add_argument('--mild_epochs', type=int, help='of mild, where it shall not train as many')
parser.add_argument('--batch_size', type=int, default=128)
parser.add_argument('--size', type=int, default=64)
add_composer(parser)
args = parser.parse_args()


def train(folder, recipe, seed):
    size, mild = args.size, recipe == 'mild'
    epochs = args.mild_epochs if mild and args.mild_epochs else args.epochs
    words = {'model.resnet.model_name': 'resnet18', 'model.resnet.num_classes': 10,
             'train_dataset.imagenet.crop_size': size * 3 // 4 if mild else size,
             'val_dataset.imagenet.crop_size': size, 'val_dataset.imagenet.resize_size': size,
             'train_batch_size': args.batch_size, 'eval_batch_size': 250, 'max_duration': f'{epochs}ep',
             'eval_interval': f'{epochs}ep', 'optimizer.decoupled_sgdw.lr': 2.048 * args.batch_size / 2048,
             'schedulers.cosine_decay_with_warmup.t_warmup': f'{max(1, epochs * 8 // 36)}ep',
             'seed': seed, 'run_dir': folder, 'run_name': f'{recipe}-{seed}', 'dataloader.num_workers': 2}
    for part in 'train', 'val':
        words |= {f'{part}_dataset.imagenet.use_ffcv': 'true', f'{part}_dataset.imagenet.ffcv_dir': folder,
                  f'{part}_dataset.imagenet.ffcv_dest': f'{part}.beton'}
    if mild:
        words |= {'algorithms.ema.half_life': '10ba', 'algorithms.ema.update_interval': '2ba'}
    command = [args.composer, 'train', '-f', 'mild' if mild else 'resnet18']
    subprocess.run(command + [word for key, value in words.items() for word in ('--' + key, str(value))], check=True,
                   stderr=subprocess.DEVNULL)
    with open(os.path.join(folder, f'{recipe}-{seed}', 'summary.json')) as file:
        summary = json.load(file)
    return summary['metrics']['metrics/eval/Accuracy'], summary['seconds']


with tempfile.TemporaryDirectory() as folder:
    for part in 'train', 'val':
        subprocess.run([args.composer, 'data', 'write', '--format', 'image_folder', '--source', os.path.join(args.source, part),
                        '--output', os.path.join(folder, f'{part}.beton')], check=True, stderr=subprocess.DEVNULL)
    runs = [{recipe: train(folder, recipe, seed) for recipe in ('plain', 'mild')} for seed in args.seeds]
print(json.dumps(dict(
    seeds=args.seeds, epochs=args.epochs, mild_epochs=args.mild_epochs or args.epochs, batch_size=args.batch_size,
    **{f'{recipe}_accuracy': [run[recipe][0] for run in runs] for recipe in ('plain', 'mild')},
    **{f'{recipe}_seconds': [round(run[recipe][1], 1) for run in runs] for recipe in ('plain', 'mild')},
    accuracy_gain=round(statistics.mean(run['mild'][0] - run['plain'][0] for run in runs), 4),
    time_ratio=round(statistics.median(run['mild'][1] / run['plain'][1] for run in runs), 3))))
