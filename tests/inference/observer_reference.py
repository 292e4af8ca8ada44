"""What torch.ao's observers choose for the numbers that histogram_test.cpp makes, as JSON."""

import json

import numpy
import torch
from torch.ao.quantization.observer import HistogramObserver, PerChannelMinMaxObserver


def numbers(seed, count, scale, shift):
    u = ((numpy.arange(count) * 7919 + seed * 104729) % 10007) / 5003.5 - 1
    return torch.from_numpy((u * u * u * scale + shift).astype(numpy.float32))


CASES = {
    "one batch": [(1, 5000, 1, 0)],
    "not negative": [(2, 5000, 3, 3)],
    "negative": [(3, 3000, 0.5, -4)],
    "same range": [(4, 10007, 2, 0), (5, 10007, 2, 0)],
    "growing": [(6, 4000, 1, 0), (7, 4000, 1.5, 0.25), (8, 4000, 9, -1), (9, 4000, 2, 0)],
    "within": [(10, 4000, 5, 0), (11, 4000, 1, 0)],
    "constant": [(12, 100, 0, 0)],
    "constant, then more": [(13, 100, 0, 0.5), (14, 5000, 1, 0)],
    "rare and far": [(15, 20000, 1, 0), (16, 3, 100, 0)],
}


def observed(batches, reduce_range):
    observer = HistogramObserver(reduce_range=reduce_range)
    for batch in batches:
        observer(numbers(*batch))
    scale, zero_point = observer.calculate_qparams()
    return {"scale": scale.item(), "zero_point": zero_point.item()}


def weight():
    codes = PerChannelMinMaxObserver(dtype=torch.qint8, qscheme=torch.per_channel_symmetric)
    given = numbers(20, 4 * 3 * 3 * 3, 1, 0.1).reshape(4, 3, 3, 3).clone()
    given[1] *= 20
    given[2] = 0
    codes(given)
    scales, zero_points = codes.calculate_qparams()
    quantized = torch.quantize_per_channel(given, scales, zero_points, 0, torch.qint8)
    return {"scales": scales.tolist(), "codes": quantized.int_repr().flatten().tolist()}


print(
    json.dumps(
        {
            "histograms": {
                name: {"batches": batches, "8": observed(batches, False), "7": observed(batches, True)}
                for name, batches in CASES.items()
            },
            "weight": weight(),
        },
        indent=1,
    )
)
