#!/usr/bin/env python3
"""What 8 bits cost: accuracy and cross-entropy of networks that are trained here, before and after `composer quantize`.

    python3 benchmarks/quantized_accuracy.py --cifar CIFAR --tiny TINY_IMAGENET_10

CIFAR: CIFAR-10's binary files; ResNet-20 trains for --epochs epochs, its weights are quantized after a calibration on 512 training
images, evaluated on the 10,000 test images; likewise within --max_drop, and after --aware_epochs more epochs with the algorithm
quantization_aware. TINY_IMAGENET_10: class folders below train/ and val/; ResNet-18 at 64 pixels. Either may be left out. A line each,
then one JSON line: the metrics in float32 and in 8 bits, and change, how much more these are.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

from side_by_side import add_composer

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('--cifar', help="folder of CIFAR-10's binary files")
parser.add_argument('--tiny', help='class folders of images of 64 x 64 pixels, in train/ and val/')
parser.add_argument('--epochs', type=int, default=20, help='of the trainings')
parser.add_argument('--aware_epochs', type=int, default=2, help='of quantization_aware')
parser.add_argument('--max_drop', type=float, default=0.001)
parser.add_argument('--samples', type=int, default=512, help='of the calibration')
parser.add_argument('--seed', type=int, default=17)
add_composer(parser)
args = parser.parse_args()
if not args.cifar and not args.tiny:
    parser.error('--cifar or --tiny: one of them is needed')


def call(words):
    done = subprocess.run([args.composer] + [str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)


def train(folder, name, epochs, words):
    """The checkpoint of a run."""
    call(['train', '--max_duration', f'{epochs}ep', '--eval_interval', f'{epochs}ep', '--save_interval', '0ep', '--seed', args.seed,
          '--run_dir', folder, '--run_name', name, '--progress_bar', 'false', '--dataloader.num_workers', 2] + words)
    return os.path.join(folder, name, 'checkpoints', 'latest')


def quantize(checkpoint, calibration, evaluation, words=()):
    """What the report says of the evaluation, float32 and int8, and how much more the latter is."""
    output = checkpoint + '_int8'
    call(['quantize', checkpoint, '--calibration', calibration, '--evaluate', evaluation, '--samples', args.samples,
          '--output', output, *words])
    with open(os.path.join(output, 'quantization.json')) as file:
        report = json.load(file)
    found = {kind: report['evaluation'][kind] for kind in ('float32', 'int8')}
    change = {metric: round(value - found['float32'][metric], 4) for metric, value in found['int8'].items()}
    return dict(found, change=change, activation_bits=report['activation_bits'])


results = {}
with tempfile.TemporaryDirectory() as folder:
    if args.cifar:
        data = ['--train_dataset.cifar10.datadir', args.cifar, '--val_dataset.cifar10.datadir', args.cifar,
                '--train_batch_size', 256, '--optimizer.decoupled_sgdw.weight_decay', 5e-4]
        recipe = ['-f', 'resnet20_cifar10', '--schedulers.multistep_with_warmup.t_warmup', '1ep']
        plain = train(folder, 'resnet20', args.epochs, recipe + data + [
            '--optimizer.decoupled_sgdw.lr', 0.3, '--schedulers.multistep_with_warmup.milestones', '0.6dur', '0.85dur'])
        results['resnet20'] = quantize(plain, args.cifar, args.cifar)
        results['resnet20_max_drop'] = quantize(plain, args.cifar, args.cifar, ['--max_drop', args.max_drop])
        aware = train(folder, 'resnet20_aware', args.aware_epochs, recipe + data + [
            '--optimizer.decoupled_sgdw.lr', 0.003, '--schedulers.multistep_with_warmup.milestones', 'none', '--load_path', plain, '--load_weights_only', 'true',
            '--algorithms', 'quantization_aware', '--algorithms.quantization_aware.start', '0dur'])
        results['resnet20_quantization_aware'] = quantize(aware, args.cifar, args.cifar)
    if args.tiny:
        plain = train(folder, 'resnet18', args.epochs, [
            '-f', 'resnet18', '--model.resnet.num_classes', 10, '--train_batch_size', 128, '--eval_batch_size', 250,
            '--train_dataset.imagenet.datadir', args.tiny, '--val_dataset.imagenet.datadir', args.tiny,
            '--train_dataset.imagenet.crop_size', 64, '--val_dataset.imagenet.crop_size', 64, '--val_dataset.imagenet.resize_size', 64,
            '--optimizer.decoupled_sgdw.lr', 0.128, '--schedulers.cosine_decay_with_warmup.t_warmup', '1ep'])
        results['resnet18'] = quantize(plain, os.path.join(args.tiny, 'train'), os.path.join(args.tiny, 'val'))
for name, result in results.items():
    columns = [f"{metric} {value:.4f} -> {result['int8'][metric]:.4f} ({result['change'][metric]:+.4f})"
               for metric, value in result['float32'].items()]
    print(f"{name}: {', '.join(columns)}")
print(json.dumps(dict(epochs=args.epochs, aware_epochs=args.aware_epochs, samples=args.samples, **results)))
