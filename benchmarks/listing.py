#!/usr/bin/env python3
"""Listing class folders of many files: the first start, the next one, which takes the kept list, and several ranks at once;
the memory of each, after some epochs too. One JSON line, the ratio last: the first start's time over the next one's.

    python3 benchmarks/listing.py --folders 1000 --files 1300

The files are empty and made in a temporary folder (--in: on another disk), which is removed at the end. They take an inode
each. With --peer_python the time of torchvision's ImageFolder on the same files is there too.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

from side_by_side import here, last_json

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('--folders', type=int, default=1000)
parser.add_argument('--files', type=int, default=1300, help='in each folder')
parser.add_argument('--ranks', type=int, default=8)
parser.add_argument('--epochs', type=int, default=3, help='orders gone through, to see what memory they take')
parser.add_argument('--starts', type=int, default=3, help='after the first one; the slowest counts')
parser.add_argument('--in', dest='folder', help='a folder on the disk to measure')
parser.add_argument('--images', help='class folders that are there, in place of those made')
parser.add_argument('--program', default=os.path.join(here, '../build/release/bin/list_folder'))
parser.add_argument('--peer_python', help='a Python with torchvision')
args = parser.parse_args()

status = os.statvfs(args.folder or tempfile.gettempdir())
if not args.images and 0 < status.f_favail < 1.1 * args.folders * args.files:
    sys.exit(f'{args.folders * args.files} files need more inodes than the {status.f_favail} that are left')


def make(root):
    for i in range(args.folders):
        name = os.path.join(root, f'n{i:08d}')
        os.makedirs(name)
        folder = os.open(name, os.O_RDONLY)
        for k in range(args.files):
            os.close(os.open(f'n{i:08d}_{k * 7919 % 100000}.JPEG', os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=folder))
        os.close(folder)


with tempfile.TemporaryDirectory(dir=args.folder) as scratch:
    images, cache = args.images or os.path.join(scratch, 'images'), os.path.join(scratch, 'cache')
    if not args.images:
        make(images)
        time.sleep(2.5)  # what changed just before is not kept
    command = ['env', 'XDG_CACHE_HOME=' + cache, args.program, images]

    first = last_json(command)
    next_ones = [last_json(command) for _ in range(args.starts)]
    shutil.rmtree(cache)

    def ranks(epochs):
        running = [subprocess.Popen(command + [str(epochs)], stdout=subprocess.PIPE, text=True) for _ in range(args.ranks)]
        return [json.loads(process.communicate()[0]) for process in running]

    together, later = ranks(0), ranks(args.epochs)
    table, = (os.path.getsize(os.path.join(cache, 'composer', name)) for name in os.listdir(os.path.join(cache, 'composer')))
    peer = None
    if args.peer_python:
        peer = last_json([args.peer_python, '-c', 'import sys, time, torchvision\nbegin = time.time()\n'
                          'torchvision.datasets.ImageFolder(sys.argv[1])\nprint(time.time() - begin)', images])

slowest = max(one['seconds'] for one in next_ones)
print(json.dumps(dict(
    files=first['samples'], folders=len(os.listdir(args.images)) if args.images else args.folders, first_s=first['seconds'], next_s=slowest, own_mb=next_ones[0]['own_mb'],
    table_mb=table / 2**20, ranks=args.ranks, ranks_first_s=max(one['seconds'] for one in together),
    ranks_own_mb=max(one['own_mb'] for one in later),
    own_mb_after_epochs=[max(values) for values in zip(*(one['own_mb_after_epochs'] for one in later))],
    torchvision_s=peer, ratio=first['seconds'] / slowest)))
