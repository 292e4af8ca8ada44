"""Prints what Python's PyTorch counts for two images in the networks of cost_test.cpp, as JSON."""
import json

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from torchvision.models import resnet18, resnet50


class BasicBlock(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.downsample = None
        if stride != 1 or channels != width:
            self.downsample = nn.Sequential(nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)), inplace=True)))
        y += x if self.downsample is None else self.downsample(x)
        return F.relu(y, inplace=True)


class ResNetCifar(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        layers, channels = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True)], 16
        for stage, width in enumerate([16, 32, 64]):
            for i in range(blocks):
                layers.append(BasicBlock(channels, width, 2 if stage > 0 and i == 0 else 1))
                channels = width
        self.layers, self.fc = nn.Sequential(*layers), nn.Linear(64, 10)

    def forward(self, x):
        return self.fc(self.layers(x).mean((2, 3)))


def counted(model, x, backward):
    with FlopCounterMode(display=False) as counter:
        y = model(x)
        if backward:
            y.sum().backward()
    return counter.get_total_flops()


def saved_bytes(model, x):
    """Of the memory behind the tensors that autograd saves, each once, but for parameters and buffers."""
    ours = {tensor.untyped_storage().data_ptr() for tensor in model.state_dict().values()}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in ours and tensor.dim() > 0:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = model(x)
    del y
    return sum(kept.values())


def main():
    result = {}
    networks = {"resnet18": (resnet18, 224), "resnet50": (resnet50, 224),
                "resnet_20": (lambda: ResNetCifar(3), 32), "resnet_56": (lambda: ResNetCifar(9), 32)}
    for name, (make, size) in networks.items():
        model, shape = make(), (2, 3, size, size)
        activation_bytes = saved_bytes(model, torch.randn(shape))
        model, x = model.to("meta"), torch.randn(shape, device="meta")
        result[name] = {"parameters": sum(p.numel() for p in model.parameters()),
                        "flops_forward": counted(model, x, backward=False),
                        "flops_step": counted(model, x, backward=True),
                        "activation_bytes": activation_bytes}
    print(json.dumps(result))


main()
