#!/usr/bin/env python3
"""`composer predict --model` on a folder of JPEG files, fp32 and 8 bits, against torchvision's ResNet-50 behind PyTorch's
DataLoader, in alternation; and the loading alone. One JSON line, the ratios last: above 1 where composer is quicker.

    python3 benchmarks/predict_vs_torch.py --photos PHOTOS --python VENV/bin/python

PHOTOS: class folders, whose files are linked under other names until there are --files of them. --python: an interpreter with torch
and torchvision. images_per_s of composer counts from the start of its process to its end; the peer's from its first batch on.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

import infer_vs_peers
import side_by_side


def files_of(photos, folder, count):
    """Links so many files into the folder."""
    found = [os.path.join(place, name) for place, _, names in sorted(os.walk(photos)) for name in sorted(names)
             if name.lower().endswith(('.jpg', '.jpeg'))]
    for i in range(count):
        os.symlink(os.path.abspath(found[i % len(found)]), os.path.join(folder, f'{i:05}.jpg'))


def predicting(args, model, source):
    def run():
        begin = time.perf_counter()
        done = subprocess.run([args.composer, 'predict', '--model', model, '--source', source, '--num_workers',
                               str(args.num_workers)], stdout=subprocess.PIPE, check=True,
                              env=os.environ | {'OMP_NUM_THREADS': str(args.threads)})
        lines = done.stdout.count(b'\n')
        assert lines == args.files, f'{lines} lines of {args.files} images'
        return dict(images_per_s=lines / (time.perf_counter() - begin))
    return run


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    infer_vs_peers.add_exports(parser)
    parser.add_argument('--files', type=int, default=5000)
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--num_workers', type=int, default=2)
    parser.add_argument('--pairs', type=int, default=5)
    args = parser.parse_args()
    paths = infer_vs_peers.made(args.composer, args.photos, args.work)
    with tempfile.TemporaryDirectory() as folder:
        files_of(args.photos, folder, args.files)
        given = ['--source', folder, '--num_workers', str(args.num_workers)]
        peer = [args.python, side_by_side.script('torch_predict.py'), '--threads', str(args.threads), *given]

        def loading():
            found = side_by_side.last_json([args.composer, 'bench', 'loader', '--json', '--pipeline', 'eval', '--batch_size',
                                            '32', '--resolution', '224', '--epochs', '1', '--crop_index', 'off', *given])
            return dict(images_per_s=found['per_epoch'][0])

        names = ['loading', 'torch_loading', 'fp32', 'int8', 'torch_fp32']
        runs = [loading, lambda: side_by_side.last_json([*peer, '--loading']), predicting(args, paths['fp32'], folder),
                predicting(args, paths['int8'], folder), lambda: side_by_side.last_json(peer)]
        results = dict(zip(names, side_by_side.alternate(args.pairs, *runs)))
    rates = {name: side_by_side.figures(found, 'images_per_s') for name, found in results.items()}
    line = dict(files=args.files, threads=args.threads, num_workers=args.num_workers, pairs=args.pairs)
    line |= {name + '_images_per_s': round(statistics.median(found), 1) for name, found in rates.items()}
    for name, other in dict(loading='torch_loading', fp32='torch_fp32', int8='torch_fp32').items():
        ratios = [a / b for a, b in zip(rates[name], rates[other])]
        line[f'{name}_ratio'] = round(statistics.median(ratios), 2)
        line[f'{name}_spread'] = [round(min(ratios), 2), round(max(ratios), 2)]
    print(json.dumps(line))
