#!/usr/bin/env python3
"""The peer of writer_vs_ffcv.py: FFCV's writer on a folder of class folders. One JSON line.

    VENV/bin/python benchmarks/ffcv_write.py FOLDER photos.beton --mode jpg --max_resolution 500
"""
import argparse
import json
import os
import time

from PIL import Image
from ffcv.fields import IntField, RGBImageField
from ffcv.writer import DatasetWriter

parser = argparse.ArgumentParser()
parser.add_argument('folder')
parser.add_argument('output')
parser.add_argument('--mode', default='jpg', choices=['jpg', 'raw', 'proportion', 'smart'])
parser.add_argument('--max_resolution', type=int)
parser.add_argument('--quality', type=int, default=90)
parser.add_argument('--num_workers', type=int, default=2)
args = parser.parse_args()


class ClassFolders:
    def __init__(self, root):
        names = sorted(entry.name for entry in os.scandir(root) if entry.is_dir() and not entry.name.startswith('.'))
        self.samples = [(os.path.join(root, name, file), label) for label, name in enumerate(names)
                        for file in sorted(os.listdir(os.path.join(root, name)))]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        path, label = self.samples[index]
        with Image.open(path) as image:
            return image.convert('RGB'), label


images = ClassFolders(args.folder)
begin = time.perf_counter()
fields = dict(image=RGBImageField(args.mode, max_resolution=args.max_resolution, jpeg_quality=args.quality), label=IntField())
DatasetWriter(args.output, fields, num_workers=args.num_workers).from_indexed_dataset(images)
seconds = time.perf_counter() - begin
print(json.dumps(dict(peer='ffcv 1.0.2', items=len(images), items_per_min=round(60 * len(images) / seconds),
                      bytes=os.path.getsize(args.output))))
