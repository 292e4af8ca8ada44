#!/usr/bin/env python3
"""RandAugment, AutoAugment, TrivialAugment, AugMix and RandomErasing on the same images and cores: ours in the loader's
threads and ours on batches, against torchvision's image by image, on tensors and on Pillow's images, in alternation.
One JSON line, images/s.

    .deps/venv/bin/python benchmarks/augmentation_vs_torchvision.py PHOTOS

PHOTOS: a folder with JPEG files in it or below; the middle of the first ones, resized, is what is changed. The peer runs
in as many processes and in as many threads as ours, without gathering batches; the quicker counts. ratio_loader,
ratio_device: ours over the quicker of torchvision's two, the median of the pairs. RandomErasing has bytes in our loader,
and normalised float32 in our batches and in torchvision, which has none for Pillow's images.
"""
import argparse
import json
import os
import sys
import tempfile

from PIL import Image, ImageOps

from side_by_side import add_composer, alternate, last_json, median, options, ratio_of, script

names = ('randaugment', 'autoaugment', 'trivialaugment', 'augmix', 'random_erasing')
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('photos')
parser.add_argument('--algorithms', nargs='+', default=names, choices=names)
parser.add_argument('--batch_size', type=int, default=64)
parser.add_argument('--batches', type=int, default=2, help='a repeat')
parser.add_argument('--resolution', type=int, default=224)
parser.add_argument('--num_workers', type=int, default=2)
parser.add_argument('--repeats', type=int, default=2, help='within a run, after one for warming up')
parser.add_argument('--pairs', type=int, default=5)
parser.add_argument('--python', default=sys.executable, help='interpreter with torchvision')
add_composer(parser)
args = parser.parse_args()


def photos():
    """Paths of as many JPEG files as are needed, the same ones again where there are too few."""
    found = sorted(os.path.join(folder, file) for folder, _, files in os.walk(args.photos) for file in files
                   if file.lower().endswith(('.jpg', '.jpeg')))
    if not found:
        parser.error('no file ends in .jpg or .jpeg below ' + args.photos)
    count = args.batch_size * args.batches
    return (found * (count // len(found) + 1))[:count]


def faster(result):
    return max(result['tensor'], result['pil'] or 0)


def compare(name, settings):
    def ours(where):
        return lambda: last_json([args.composer, 'bench', 'augment', '--json', '--algorithm', name, '--where', where] +
                                 settings)

    theirs, loader, device = alternate(
        args.pairs, lambda: last_json([args.python, script('torchvision_augment.py'), '--algorithm', name] + settings),
        ours('loader'), ours('device'))
    pil = None if theirs[0]['pil'] is None else round(median(theirs, 'pil'), 1)
    return theirs[0]['peer'], dict(
        loader=round(median(loader, 'images_per_s'), 1), device=round(median(device, 'images_per_s'), 1),
        torchvision_tensor=round(median(theirs, 'tensor'), 1), torchvision_pil=pil,
        ratio_loader=ratio_of(loader, theirs, 'images_per_s', faster),
        ratio_device=ratio_of(device, theirs, 'images_per_s', faster))


with tempfile.NamedTemporaryFile(suffix='.rgb') as pixels:
    for path in photos():
        with Image.open(path) as photo:
            pixels.write(ImageOps.fit(photo.convert('RGB'), (args.resolution, args.resolution)).tobytes())
    pixels.flush()
    settings = ['--pixels', pixels.name] + options(args, 'batch_size', 'batches', 'resolution', 'num_workers', 'repeats')
    compared = {name: compare(name, settings) for name in args.algorithms}

print(json.dumps(dict(
    peer=compared[args.algorithms[0]][0], resolution=args.resolution, batch_size=args.batch_size,
    num_workers=args.num_workers, pairs=args.pairs,
    images_per_s={name: figures for name, (_, figures) in compared.items()})))
