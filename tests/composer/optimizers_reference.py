"""Parameters after 20 steps of torch.optim on fixed gradients, as JSON: {case: {parameter: [values]}}.

The same parameters, gradients and learning rates as in optimizers_test.cpp.
"""
import json
import math

import torch

SHAPES = {"conv.weight": (8, 4, 3, 3), "conv.bias": (8,), "fc.weight": (5, 8)}
CASES = {
    "sgd": (torch.optim.SGD, dict(lr=0.1)),
    "sgd_momentum": (torch.optim.SGD, dict(lr=0.1, momentum=0.9, weight_decay=0.01)),
    "sgd_nesterov": (torch.optim.SGD, dict(lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True)),
    "sgd_dampening": (torch.optim.SGD, dict(lr=0.1, momentum=0.9, weight_decay=0.01, dampening=0.5)),
    "adamw": (torch.optim.AdamW, dict(lr=0.01, weight_decay=0.05)),
    "adamw_amsgrad": (torch.optim.AdamW, dict(lr=0.01, betas=(0.8, 0.95), weight_decay=0.05, amsgrad=True)),
}


def wave(shape, phase, frequency):
    count = math.prod(shape)
    return torch.sin(torch.arange(count, dtype=torch.float64) * frequency + phase).float().reshape(shape)


def run(optimizer_type, options):
    parameters = {n: torch.nn.Parameter(wave(s, k, 0.1)) for k, (n, s) in enumerate(SHAPES.items())}
    optimizer = optimizer_type(parameters.values(), **options)
    for step in range(20):
        for k, parameter in enumerate(parameters.values()):
            parameter.grad = wave(parameter.shape, 3 * step + k, 0.37)
        for group in optimizer.param_groups:
            group["lr"] = options["lr"] * (1 - step / 40)
        optimizer.step()
    return {n: [float(f"{v:.9g}") for v in p.detach().flatten().tolist()] for n, p in parameters.items()}


print(json.dumps({case: run(*arguments) for case, arguments in CASES.items()}))
