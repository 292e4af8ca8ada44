#!/usr/bin/env python3
"""The peer of loader_vs_ffcv.py: FFCV's Loader on a .beton file with one image and one label field. One JSON line.

The results are uint8, channels-last. The first epoch, in which FFCV compiles its pipeline, is reported apart. Images of
32 x 32 are flipped and translated by 4 (train) or left alone (eval); others get a random resized crop and flip (train) or
the middle, 224/256 (eval).
"""
import argparse
import json
import os
import resource
import statistics
import time

from ffcv.fields import IntField, RGBImageField
from ffcv.fields.decoders import (CenterCropRGBImageDecoder, IntDecoder, RandomResizedCropRGBImageDecoder,
                                  SimpleRGBImageDecoder)
from ffcv.loader import Loader, OrderOption
from ffcv.reader import Reader
from ffcv.transforms import RandomHorizontalFlip, RandomTranslate, Squeeze, ToTensor, ToTorchImage

begin = time.perf_counter()
parser = argparse.ArgumentParser()
parser.add_argument('--source', required=True)
parser.add_argument('--batch_size', type=int, default=256)
parser.add_argument('--num_workers', type=int, default=2)
parser.add_argument('--resolution', type=int, default=224)
parser.add_argument('--epochs', type=int, default=4, help='the first one included')
parser.add_argument('--pipeline', default='train', choices=['train', 'eval'])
parser.add_argument('--no_flip', action='store_true', help='leave the flip out')
args = parser.parse_args()

reader = Reader(args.source)
columns = list(reader.handlers.items())


def column_of(kind):
    return next(i for i, (_, field) in enumerate(columns) if isinstance(field, kind))


image_column, label_column = column_of(RGBImageField), column_of(IntField)
first_image = reader.metadata[f'f{image_column}'][0]
small = (int(first_image['height']), int(first_image['width'])) == (32, 32)
train = args.pipeline == 'train'
size = (args.resolution, args.resolution)
flip = [RandomHorizontalFlip()] if train and not args.no_flip else []
if small:
    steps = [SimpleRGBImageDecoder()] + flip + ([RandomTranslate(padding=4)] if train else [])
elif train:
    steps = [RandomResizedCropRGBImageDecoder(size)] + flip
else:
    steps = [CenterCropRGBImageDecoder(size, ratio=224 / 256)]

loader = Loader(args.source, batch_size=args.batch_size, num_workers=args.num_workers, seed=0, drop_last=True,
                order=OrderOption.RANDOM if train else OrderOption.SEQUENTIAL,
                pipelines={columns[image_column][0]: steps + [ToTensor(), ToTorchImage()],
                           columns[label_column][0]: [IntDecoder(), ToTensor(), Squeeze()]})
first_batch, per_epoch = None, []
for epoch in range(args.epochs):
    start, images = begin if epoch == 0 else time.perf_counter(), 0
    for batch in loader:
        first_batch = first_batch or time.perf_counter() - begin
        images += len(batch[0])
    per_epoch.append(round(images / (time.perf_counter() - start), 1))
print(json.dumps(dict(peer='ffcv 1.0.2', source=os.path.basename(args.source), pipeline=args.pipeline,
                      resolution=32 if small else args.resolution, flip=bool(flip), batch_size=args.batch_size,
                      num_workers=args.num_workers, images_per_s=statistics.median(per_epoch[1:] or per_epoch),
                      per_epoch=per_epoch, first_batch_s=round(first_batch, 3),
                      max_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)))
