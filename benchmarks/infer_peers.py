#!/usr/bin/env python3
"""A peer's calls with a ResNet-50 on random images in memory; prints one JSON line: p50_ms and engine's version.

engine: onnxruntime or openvino, of --model FILE.onnx; torch, of --model FILE.pt (TorchScript, frozen); torch_int8: torchvision's
network quantized by PyTorch's own x86 engine (FX, its default settings).
"""
import argparse
import json
import time
import warnings

import numpy

warnings.simplefilter('ignore')


def onnxruntime_call(args, images):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    session = onnxruntime.InferenceSession(args.model, options, providers=['CPUExecutionProvider'])
    name = session.get_inputs()[0].name
    return lambda: session.run(None, {name: images}), onnxruntime.__version__


def openvino_call(args, images):
    import openvino
    network = openvino.Core().compile_model(args.model, 'CPU', {
        'INFERENCE_PRECISION_HINT': 'f32', 'INFERENCE_NUM_THREADS': args.threads, 'PERFORMANCE_HINT': args.hint})
    return lambda: network([images]), openvino.__version__


def torch_call(args, images):
    import torch
    torch.set_num_threads(args.threads)
    network = torch.jit.freeze(torch.jit.load(args.model).eval())
    return in_torch(torch, network, images)


def torch_int8_call(args, images):
    import torch
    import torchvision
    from torch.ao.quantization import get_default_qconfig_mapping, quantize_fx
    torch.set_num_threads(args.threads)
    some = torch.from_numpy(images[:1])
    network = quantize_fx.prepare_fx(torchvision.models.resnet50().eval(), get_default_qconfig_mapping('x86'), (some,))
    network(some)
    network = torch.jit.freeze(torch.jit.trace(quantize_fx.convert_fx(network), some))
    return in_torch(torch, network, images)


def in_torch(torch, network, images):
    images = torch.from_numpy(images).to(memory_format=torch.channels_last)

    def call():
        with torch.inference_mode():
            network(images)
    return call, torch.__version__


calls = dict(onnxruntime=onnxruntime_call, openvino=openvino_call, torch=torch_call, torch_int8=torch_int8_call)

if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('engine', choices=calls)
    parser.add_argument('--model')
    parser.add_argument('--batch_size', type=int, default=1)
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--seconds', type=float, default=5)
    parser.add_argument('--hint', default='LATENCY', help="OpenVINO's performance hint")
    args = parser.parse_args()
    images = numpy.random.default_rng(0).standard_normal((args.batch_size, 3, 224, 224), dtype=numpy.float32)
    call, version = calls[args.engine](args, images)
    for _ in range(3):
        call()
    times, end = [], time.perf_counter() + args.seconds
    while time.perf_counter() < end or len(times) < 5:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    print(json.dumps(dict(p50_ms=1e3 * sorted(times)[len(times) // 2], version=version)))
