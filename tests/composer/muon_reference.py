"""Parameters after 12 steps of Muon beside torch.optim.SGD on fixed gradients, as JSON: {case: {parameter: [values]}}.

The same parameters, gradients and learning rates as in muon_test.cpp.
"""
import json
import math

import torch

SHAPES = {"conv": (8, 4, 3, 3), "twin": (8, 4, 3, 3), "tall": (16, 3, 2, 2), "bias": (8,), "head": (5, 8)}
CASES = {
    "plain": dict(),
    "no_nesterov": dict(nesterov=False, steps=5),
    "no_rescaling": dict(rescale=False, momentum=0.9),
    "head": dict(head_lr=0.3, decay=0.02),
}


def wave(shape, phase, frequency):
    count = math.prod(shape)
    return torch.sin(torch.arange(count, dtype=torch.float64) * frequency + phase).float().reshape(shape)


def newton_schulz(matrix, steps):
    x = matrix / (matrix.norm() + 1e-7)
    if x.shape[0] > x.shape[1]:
        return newton_schulz_wide(x.T, steps).T
    return newton_schulz_wide(x, steps)


def newton_schulz_wide(x, steps):
    for _ in range(steps):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x


def run(nesterov=True, steps=3, rescale=True, momentum=0.6, head_lr=0.1, decay=0.0):
    parameters = {n: torch.nn.Parameter(wave(s, k, 0.1)) for k, (n, s) in enumerate(SHAPES.items())}
    filters = [p for p in parameters.values() if p.dim() == 4]
    buffers = [torch.zeros_like(p) for p in filters]
    groups = [
        dict(params=[parameters["bias"]], lr=0.1, weight_decay=decay),
        dict(params=[parameters["head"]], lr=head_lr, weight_decay=decay * 0.1 / head_lr),
    ]
    sgd = torch.optim.SGD(groups, momentum=0.85, nesterov=True)
    peaks = [group["lr"] for group in sgd.param_groups]
    for step in range(12):
        for k, parameter in enumerate(parameters.values()):
            parameter.grad = wave(parameter.shape, 3 * step + k, 0.37)
        share = 1 - step / 40
        for group, peak in zip(sgd.param_groups, peaks):
            group["lr"] = peak * share
        sgd.step()
        with torch.no_grad():
            for weight, buffer in zip(filters, buffers):
                buffer.mul_(momentum).add_(weight.grad)
                direction = weight.grad + momentum * buffer if nesterov else buffer
                if rescale:
                    weight.mul_(len(weight) ** 0.5 / weight.norm())
                update = newton_schulz(direction.reshape(len(weight), -1), steps).reshape(weight.shape)
                weight.sub_(0.24 * share * update)
    return {n: [float(f"{v:.9g}") for v in p.detach().flatten().tolist()] for n, p in parameters.items()}


print(json.dumps({case: run(**arguments) for case, arguments in CASES.items()}))
