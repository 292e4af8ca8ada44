#!/usr/bin/env python3
"""ResNet-50 at 224 x 224 in use, fp32 and 8 bits, with ONNX Runtime, OpenVINO and PyTorch in turn. One JSON line for each number
of threads and batch size.

    python3 benchmarks/infer_vs_peers.py --photos PHOTOS --python VENV/bin/python

PHOTOS: class folders of pictures, for calibration. --python: an interpreter with torch, torchvision, onnxruntime and openvino.
The network's weights are what it begins with: they do not change the time. Its exports are made in --work, once.

<engine>_ms: medians of the rounds' p50 latencies. Ratios are medians over the rounds, above 1 where composer is quicker:
int8_gain, the fp32 latency over the 8-bit one here; openvino_int8_gain, the same of OpenVINO; gain_ratio, the first over the second;
fp32_vs_onnxruntime, int8_vs_onnxruntime (from the QDQ file), int8_vs_torch (PyTorch's x86 engine), and so on.
"""
import argparse
import json
import os
import statistics
import subprocess

import side_by_side

recipe = ['-f', 'resnet50', '--train_dataset.imagenet.use_synthetic', '--val_dataset.imagenet.use_synthetic', '--max_duration', '1ba', '--train_batch_size', '2', '--eval_interval', '0ep',
          '--device', 'cpu', '--algorithms', 'none', '--precision', 'fp32']


def add_exports(parser):
    """What the exports are made of and by, where they are kept, and the peers' interpreter."""
    side_by_side.add_composer(parser)
    parser.add_argument('--photos', required=True)
    parser.add_argument('--python', default=os.environ.get('COMPOSER_INFERENCE_PYTHON', 'python3'))
    parser.add_argument('--work', default='build/infer_vs_peers')


def made(composer, photos, work):
    """The exports' paths by name."""
    os.makedirs(work, exist_ok=True)
    paths = {name: os.path.join(work, file) for name, file in dict(
        fp32='fp32', int8='int8', fp32_onnx='fp32.onnx', int8_onnx='int8.onnx', torchscript='fp32.pt').items()}
    checkpoint = os.path.join(work, 'runs/resnet50/checkpoints/latest')

    def make(path, *words):
        if not os.path.exists(path):
            subprocess.run([composer, *words], check=True)

    make(checkpoint, 'train', *recipe, '--run_dir', os.path.join(work, 'runs'), '--run_name', 'resnet50')
    make(paths['fp32'], 'export', checkpoint, '--format', 'safetensors', '--output', paths['fp32'])
    make(paths['int8'], 'quantize', checkpoint, '--calibration', photos, '--samples', '32', '--output', paths['int8'])
    make(paths['fp32_onnx'], 'export', checkpoint, '--format', 'onnx', '--output', paths['fp32_onnx'])
    make(paths['int8_onnx'], 'export', paths['int8'], '--format', 'onnx', '--output', paths['int8_onnx'])
    make(paths['torchscript'], 'export', checkpoint, '--format', 'torchscript', '--output', paths['torchscript'])
    return paths


def compared(args, paths, threads, batch_size):
    given = ['--batch_size', str(batch_size), '--threads', str(threads), '--seconds', str(args.seconds)]

    def here(name):
        return lambda: side_by_side.last_json([args.composer, 'bench', 'infer', '--model', paths[name], '--json', *given])

    def peer(engine, name=None):
        model = ['--model', paths[name]] if name else []
        return lambda: side_by_side.last_json([args.python, side_by_side.script('infer_peers.py'), engine, *model, *given])

    names = ['fp32', 'int8', 'openvino_fp32', 'openvino_int8', 'onnxruntime_fp32', 'onnxruntime_int8', 'torchscript_fp32',
             'torch_int8']
    runs = [here('fp32'), here('int8'), peer('openvino', 'fp32_onnx'), peer('openvino', 'int8_onnx'),
            peer('onnxruntime', 'fp32_onnx'), peer('onnxruntime', 'int8_onnx'), peer('torch', 'torchscript'), peer('torch_int8')]
    results = dict(zip(names, side_by_side.alternate(args.rounds, *runs)))
    times = {name: side_by_side.figures(found, 'p50_ms') for name, found in results.items()}

    def ratios(slower, quicker):
        return [a / b for a, b in zip(times[slower], times[quicker])]

    gain, peer_gain = ratios('fp32', 'int8'), ratios('openvino_fp32', 'openvino_int8')
    line = dict(threads=threads, batch_size=batch_size, rounds=len(times['fp32']))
    line |= {name + '_ms': round(statistics.median(found), 2) for name, found in times.items()}
    compared = dict(int8_gain=gain, openvino_int8_gain=peer_gain, gain_ratio=[a / b for a, b in zip(gain, peer_gain)])
    for name in names[2:]:
        engine, precision = name.rsplit('_', 1)
        compared[f'{precision}_vs_{engine}'] = ratios(name, precision)
    line |= {name: round(statistics.median(found), 3) for name, found in compared.items()}
    line['spread'] = {name: [round(min(found), 3), round(max(found), 3)] for name, found in compared.items()}
    return line


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_exports(parser)
    parser.add_argument('--threads', type=int, nargs='+', default=[1, 2])
    parser.add_argument('--batch_sizes', type=int, nargs='+', default=[1, 32])
    parser.add_argument('--seconds', type=float, default=3, help='of each measurement')
    parser.add_argument('--rounds', type=int, default=5)
    args = parser.parse_args()
    paths = made(args.composer, args.photos, args.work)
    for threads in args.threads:
        for batch_size in args.batch_sizes:
            print(json.dumps(compared(args, paths, threads, batch_size)), flush=True)
