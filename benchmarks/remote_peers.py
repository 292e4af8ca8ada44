#!/usr/bin/env python3
"""The peers of remote_vs_peers.py: MosaicML's streaming, litdata, s3torchconnector, each with torchvision's random resized crop
and flip and PyTorch's DataLoader, uint8 out. One JSON line.

    python3 benchmarks/remote_peers.py --write PHOTOS --to FOLDER        # FOLDER/mds, FOLDER/litdata and FOLDER/files
    python3 benchmarks/remote_peers.py --peer streaming --url http://127.0.0.1:PORT --bucket NAME --cache EMPTY_FOLDER

The store answers GET and HEAD of URL/NAME/KEY; nothing is listed. Epochs that a peer reads are timed from where it opens
the set.
"""
import argparse
import io
import json
import os
import shutil
import time

import torch
from PIL import Image
from torchvision import transforms

peers = ('streaming', 'litdata', 's3torchconnector')


def files_below(folder):
    classes = sorted(name for name in os.listdir(folder) if os.path.isdir(os.path.join(folder, name)))
    return [(os.path.join(folder, name, file), label) for label, name in enumerate(classes)
            for file in sorted(os.listdir(os.path.join(folder, name)))]


def litdata_sample(item):
    path, label = item
    with open(path, 'rb') as file:
        return dict(image=file.read(), label=label)


def write(photos, folder):
    import litdata
    import streaming
    files = files_below(photos)
    with streaming.MDSWriter(out=os.path.join(folder, 'mds'), columns=dict(image='bytes', label='int'), size_limit=1 << 26) as out:
        for item in files:
            out.write(litdata_sample(item))
    litdata.optimize(fn=litdata_sample, inputs=files, output_dir=os.path.join(folder, 'litdata'), chunk_bytes='64MB', num_workers=1)
    os.makedirs(os.path.join(folder, 'files'))
    names = []
    for number, (path, label) in enumerate(files):
        names.append(f'{label}/{number}.jpg')
        os.makedirs(os.path.join(folder, 'files', str(label)), exist_ok=True)
        shutil.copy(path, os.path.join(folder, 'files', names[-1]))
    with open(os.path.join(folder, 'files/files.txt'), 'w') as file:
        file.write('\n'.join(names) + '\n')


class Prepared:
    """Image bytes and label to tensors."""

    def __init__(self, resolution):
        self.transform = transforms.Compose([transforms.RandomResizedCrop(resolution), transforms.RandomHorizontalFlip(),
                                             transforms.PILToTensor()])

    def __call__(self, image, label):
        return self.transform(Image.open(io.BytesIO(image)).convert('RGB')), label


class FromReader:
    """Of an object of s3torchconnector, whose folder is its class."""

    def __init__(self, prepare):
        self.prepare = prepare

    def __call__(self, reader):
        return self.prepare(reader.read(), int(reader.key.split('/')[-2]))


def streaming_loader(args, prepare):
    import streaming

    class Set(streaming.StreamingDataset):
        def __getitem__(self, index):
            sample = super().__getitem__(index)
            return prepare(sample['image'], sample['label'])

    images = Set(remote=f's3://{args.bucket}/mds', local=args.cache, shuffle=True, batch_size=args.batch_size)
    return streaming.StreamingDataLoader(images, batch_size=args.batch_size, num_workers=args.num_workers, drop_last=True)


def litdata_loader(args, prepare):
    import litdata

    class Set(litdata.StreamingDataset):
        def __getitem__(self, index):
            sample = super().__getitem__(index)
            return prepare(sample['image'], sample['label'])

    images = Set(f's3://{args.bucket}/litdata', cache_dir=args.cache, shuffle=True, drop_last=True,
                 storage_options=dict(endpoint_url=args.url))
    return litdata.StreamingDataLoader(images, batch_size=args.batch_size, num_workers=args.num_workers, drop_last=True)


def s3torchconnector_loader(args, prepare):
    import urllib.request

    import s3torchconnector
    names = urllib.request.urlopen(f'{args.url}/{args.bucket}/files/files.txt').read().decode().split()
    images = s3torchconnector.S3MapDataset.from_objects(
        [f's3://{args.bucket}/files/{name}' for name in names], region='us-east-1', endpoint=args.url, transform=FromReader(prepare),
        s3client_config=s3torchconnector.S3ClientConfig(force_path_style=True))
    return torch.utils.data.DataLoader(images, batch_size=args.batch_size, shuffle=True, num_workers=args.num_workers, drop_last=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--write', metavar='PHOTOS')
    parser.add_argument('--to', metavar='FOLDER')
    parser.add_argument('--peer', choices=peers)
    parser.add_argument('--url')
    parser.add_argument('--bucket', default='photos')
    parser.add_argument('--cache', help='an empty folder')
    parser.add_argument('--batch_size', type=int, default=64)
    parser.add_argument('--num_workers', type=int, default=2)
    parser.add_argument('--resolution', type=int, default=224)
    parser.add_argument('--epochs', type=int, default=1)
    args = parser.parse_args()
    if args.write:
        return write(args.write, args.to)
    torch.set_num_threads(1)
    os.environ.update(S3_ENDPOINT_URL=args.url, AWS_ENDPOINT_URL=args.url, AWS_ACCESS_KEY_ID='key', AWS_SECRET_ACCESS_KEY='secret',
                      AWS_REGION='us-east-1', AWS_DEFAULT_REGION='us-east-1')
    loaders = dict(streaming=streaming_loader, litdata=litdata_loader, s3torchconnector=s3torchconnector_loader)
    begin, per_epoch = time.perf_counter(), []
    loader = loaders[args.peer](args, Prepared(args.resolution))
    for epoch in range(args.epochs):
        start, count = begin if epoch == 0 else time.perf_counter(), 0
        for batch, _ in loader:
            count += len(batch)
        per_epoch.append(round(count / (time.perf_counter() - start), 1))
    print(json.dumps(dict(peer=args.peer, images=count, images_per_s=per_epoch[0], per_epoch=per_epoch)))


if __name__ == '__main__':
    main()
