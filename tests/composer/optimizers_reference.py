"""Parameters after 20 steps on fixed gradients, as JSON: {case: {parameter: [values]}}.

Of torch.optim; of LARS and LAMB by the formulas of their papers with timm's options. The same parameters, gradients and
learning rates as in optimizers_test.cpp.
"""
import json
import math

import torch


class Lars(torch.optim.Optimizer):
    """You et al. 2017, arXiv:1708.03888."""

    def __init__(self, parameters, lr, momentum=0.9, weight_decay=0.0, dampening=0.0, nesterov=False, trust=1e-3,
                 eps=1e-8, clip=False, always=False):
        super().__init__(parameters, dict(lr=lr))
        self.momentum, self.decay, self.dampening, self.nesterov = momentum, weight_decay, dampening, nesterov
        self.trust, self.eps, self.clip, self.always = trust, eps, clip, always

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for w in group["params"]:
                ratio = 1.0
                if self.decay != 0 or self.always:
                    length, slope = w.norm().item(), w.grad.norm().item()
                    if length > 0 and slope > 0:
                        ratio = self.trust * length / (slope + self.decay * length + self.eps)
                    if self.clip:
                        ratio = min(ratio / group["lr"], 1.0)
                d = ratio * (w.grad + self.decay * w)
                state = self.state[w]
                if self.momentum != 0:
                    first = "m" not in state
                    state["m"] = d if first else self.momentum * state["m"] + (1 - self.dampening) * d
                    d = d + self.momentum * state["m"] if self.nesterov else state["m"]
                w -= group["lr"] * d


class Lamb(torch.optim.Optimizer):
    """You et al. 2020, arXiv:1904.00962."""

    def __init__(self, parameters, lr, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0, correct=True, average=True,
                 clip=False, always=False):
        super().__init__(parameters, dict(lr=lr))
        self.betas, self.eps, self.decay = betas, eps, weight_decay
        self.correct, self.average, self.clip, self.always, self.count = correct, average, clip, always, 0

    @torch.no_grad()
    def step(self):
        self.count += 1
        for group in self.param_groups:
            for w in group["params"]:
                beta1, beta2 = self.betas
                state = self.state[w]
                state["m"] = beta1 * state.get("m", 0) + (1 - beta1 if self.average else 1) * w.grad
                state["v"] = beta2 * state.get("v", 0) + (1 - beta2) * w.grad**2
                m, v = state["m"], state["v"]
                if self.correct:
                    m, v = m / (1 - beta1**self.count), v / (1 - beta2**self.count)
                d = m / (v.sqrt() + self.eps) + self.decay * w
                ratio = 1.0
                if self.decay != 0 or self.always:
                    length, step = w.norm().item(), d.norm().item()
                    ratio = length / step if length > 0 and step > 0 else 1.0
                    ratio = min(ratio, 1.0) if self.clip else ratio
                w -= group["lr"] * ratio * d


SHAPES = {"conv.weight": (8, 4, 3, 3), "conv.bias": (8,), "fc.weight": (5, 8)}
CASES = {
    "sgd": (torch.optim.SGD, dict(lr=0.1)),
    "sgd_momentum": (torch.optim.SGD, dict(lr=0.1, momentum=0.9, weight_decay=0.01)),
    "sgd_nesterov": (torch.optim.SGD, dict(lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True)),
    "sgd_dampening": (torch.optim.SGD, dict(lr=0.1, momentum=0.9, weight_decay=0.01, dampening=0.5)),
    "adamw": (torch.optim.AdamW, dict(lr=0.01, weight_decay=0.05)),
    "adamw_amsgrad": (torch.optim.AdamW, dict(lr=0.01, betas=(0.8, 0.95), weight_decay=0.05, amsgrad=True)),
    "adam": (torch.optim.Adam, dict(lr=0.01)),
    "adam_amsgrad": (torch.optim.Adam, dict(lr=0.01, betas=(0.8, 0.95), weight_decay=0.05, amsgrad=True)),
    "rmsprop": (torch.optim.RMSprop, dict(lr=0.01)),
    "rmsprop_momentum": (torch.optim.RMSprop, dict(lr=0.01, alpha=0.9, eps=0.0316, weight_decay=0.05, momentum=0.9)),
    "rmsprop_centered": (torch.optim.RMSprop, dict(lr=0.01, centered=True, momentum=0.5)),
    "radam": (torch.optim.RAdam, dict(lr=0.01, weight_decay=0.05)),
    "radam_decoupled": (torch.optim.RAdam, dict(lr=0.01, betas=(0.8, 0.95), weight_decay=0.05,
                                                decoupled_weight_decay=True)),
    "lars": (Lars, dict(lr=1, weight_decay=0.05)),
    "lars_nesterov": (Lars, dict(lr=1, weight_decay=0.05, nesterov=True, trust=0.02, clip=True)),
    "lars_undecayed": (Lars, dict(lr=0.01, momentum=0)),
    "lars_dampening": (Lars, dict(lr=0.01, dampening=0.5, always=True)),
    "lamb": (Lamb, dict(lr=0.01, weight_decay=0.05)),
    "lamb_plain": (Lamb, dict(lr=0.01, correct=False, average=False, clip=True, always=True)),
    "lamb_undecayed": (Lamb, dict(lr=0.01)),
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
