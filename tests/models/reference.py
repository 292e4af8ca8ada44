"""Writes what Python's PyTorch and torchvision make of the networks that reference_test.cpp compares ours with.

usage: reference.py FOLDER            all, with files of weights
       reference.py FOLDER recorded   networks.safetensors: freshly seeded networks, little of each tensor
"""
import json
import math
import struct
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torchvision.models import convnext_tiny, efficientnet_b0, mobilenet_v3_large, resnet18, resnet50, resnext50_32x4d, vgg16_bn, wide_resnet50_2

OUT = sys.argv[1]


def write_safetensors(path, tensors):
    header, chunks, offset = {}, [], 0
    names = {torch.float32: "F32", torch.int64: "I64"}
    for name, tensor in tensors.items():
        data = tensor.detach().contiguous().numpy().tobytes()
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
        chunks.append(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(chunks))


def stirred(model):
    """Running statistics and scales that are not the initial ones, so that evaluation depends on them."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
            with torch.no_grad():
                module.weight.uniform_(0.5, 1.0)
                module.bias.normal_(0, 0.1)
    return model


def wave(shape, phase, frequency):
    count = math.prod(shape)
    return torch.sin(torch.arange(count, dtype=torch.float64) * frequency + phase).float().reshape(shape)


def summary(tensors, elements=64):
    """Of each tensor its norm and first elements: a small file that still tells wrong from right."""
    return {name: torch.cat([tensor.float().norm().view(1), tensor.float().reshape(-1)[:elements]])
            for name, tensor in tensors.items()}


def training_step(name, model, x, classes, result, elements=64):
    """One step of SGD with weight decay from label-smoothed cross-entropy."""
    y = torch.arange(4) * 7 % classes
    model.train()
    logits = model(x)
    loss = F.cross_entropy(logits, y, label_smoothing=0.1)
    loss.backward()
    gradients = {key: p.grad.clone() for key, p in model.named_parameters()}
    torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.01).step()
    result |= {f"{name}/input": x, f"{name}/classes": y, f"{name}/logits": logits, f"{name}/loss": loss}
    result |= {f"{name}/gradient/{key}": value for key, value in summary(gradients, elements).items()}
    result |= {f"{name}/after/{key}": value for key, value in summary(model.state_dict(), elements).items()}


class BasicBlock(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        self.downsample = None
        if stride != 1 or channels != width:
            self.downsample = nn.Sequential(nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width))
        self.conv1, self.bn1 = nn.Conv2d(channels, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet20(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        channels = 16
        for stage, width in enumerate([16, 32, 64]):
            blocks = [BasicBlock(channels if i == 0 else width, width, 2 if stage > 0 and i == 0 else 1) for i in range(3)]
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
            channels = width
        self.fc = nn.Linear(64, 10)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(F.relu(self.bn1(self.conv1(x))))))
        return self.fc(x.mean((2, 3)))


class PreActivationBlock(nn.Module):
    """Of wide residual networks (Zagoruyko and Komodakis 2016)."""

    def __init__(self, channels, width, stride):
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(channels), nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.bn2, self.conv2 = nn.BatchNorm2d(width), nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.convShortcut = None if channels == width else nn.Conv2d(channels, width, 1, stride, bias=False)

    def forward(self, x):
        active = F.relu(self.bn1(x))
        y = self.conv2(F.relu(self.bn2(self.conv1(active))))
        return y + (x if self.convShortcut is None else self.convShortcut(active))


class WideResNetStage(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.layer = nn.Sequential(*blocks)

    def forward(self, x):
        return self.layer(x)


class WideResNet(nn.Module):
    def __init__(self, depth, width, num_classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        channels = 16
        for stage in range(3):
            blocks = []
            for i in range((depth - 4) // 6):
                blocks.append(PreActivationBlock(channels, 16 * width << stage, 2 if stage > 0 and i == 0 else 1))
                channels = 16 * width << stage
            setattr(self, f"block{stage + 1}", WideResNetStage(blocks))
        self.bn1, self.fc = nn.BatchNorm2d(channels), nn.Linear(channels, num_classes)

    def forward(self, x):
        x = self.block3(self.block2(self.block1(self.conv1(x))))
        return self.fc(F.relu(self.bn1(x)).mean((2, 3)))


def resnet50d(num_classes):
    """timm's names and layers, out of torchvision's."""
    model = resnet50(num_classes=num_classes)
    model.conv1 = nn.Sequential(
        nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, 1, 1, bias=False))
    for stage, stride in ((model.layer1, 1), (model.layer2, 2), (model.layer3, 2), (model.layer4, 2)):
        conv, norm = stage[0].downsample
        pool = nn.Identity() if stride == 1 else nn.AvgPool2d(2, 2, ceil_mode=True, count_include_pad=False)
        stage[0].downsample = nn.Sequential(pool, nn.Conv2d(conv.in_channels, conv.out_channels, 1, bias=False), norm)
    return model


def noise(shape, phase):
    """Numbers in [-1, 1) without order, the same in C++."""
    x = torch.sin(torch.arange(math.prod(shape), dtype=torch.float64) * 12.9898 + phase) * 43758.5453
    return (2 * (x - torch.floor(x)) - 1).reshape(shape)


def filled(model):
    """Numbers that follow from the tensors' names alone, in double precision."""
    model = model.double()
    with torch.no_grad():
        for k, (name, tensor) in enumerate(sorted(model.state_dict().items())):
            if not tensor.is_floating_point():
                continue
            w = noise(tensor.shape, k)
            if name.endswith("layer_scale"):
                w = 0.5 + 0.2 * w
            elif tensor.dim() > 1:
                w *= 3 / math.sqrt(tensor[0].numel())
            elif name.endswith("running_var"):
                w = 1 + 0.5 * w
            elif name.endswith("weight"):
                w = 1 + 0.2 * w
            else:
                w *= 0.1
            tensor.copy_(w)
    return model


def more_networks():
    """Name, network of 10 classes, image size, whether a training step is compared."""
    yield "resnet50d", resnet50d(10), 70, False
    yield "resnext50_32x4d", resnext50_32x4d(num_classes=10), 64, False
    yield "wide_resnet50_2", wide_resnet50_2(num_classes=10), 64, False
    yield "wide_resnet_16_2", WideResNet(16, 2, 10), 32, True
    yield "mobilenet_v3_large", mobilenet_v3_large(num_classes=10, dropout=0.0), 64, True
    yield "efficientnet_b0", efficientnet_b0(num_classes=10, dropout=0.0, stochastic_depth_prob=0.0), 64, True
    yield "convnext_tiny", convnext_tiny(num_classes=10, stochastic_depth_prob=0.0), 64, True
    yield "vgg16_bn", vgg16_bn(num_classes=10), 64, False


def main():
    result = {}
    for name, make in (("resnet18", resnet18), ("resnet50", resnet50)):
        torch.manual_seed(7)
        model = make()
        result |= {f"{name}/initial/{key}": value for key, value in summary(model.state_dict()).items()}
        stirred(model).eval()
        x = torch.randn(1, 3, 224, 224)
        with torch.no_grad():
            result |= {f"{name}/input": x, f"{name}/logits": model(x)}
            with torch.autocast("cpu", torch.bfloat16):
                last = x.contiguous(memory_format=torch.channels_last)
                logits = model.to(memory_format=torch.channels_last)(last)
                result[f"{name}/bf16_logits"] = logits.float()
        torch.save(model.state_dict(), f"{OUT}/{name}.pth")
        training_step(f"{name}_step", model, torch.randn(4, 3, 64, 64), 1000, result)

    torch.manual_seed(8)
    model = ResNet20()
    write_safetensors(f"{OUT}/resnet20.safetensors", {"module." + k: v for k, v in model.state_dict().items()})
    training_step("resnet20_step", model, torch.randn(4, 3, 32, 32), 10, result)
    write_safetensors(f"{OUT}/expected.safetensors", result)

    torch.save({"epoch": 3, "model": model.state_dict(), "args": None,
                "optimizer": torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9).state_dict()},
               f"{OUT}/training.pth")
    tensors = {"strided": torch.arange(12.).view(3, 4).t()[1:], "scalar": torch.tensor(2.5),
               "bf16": torch.ones(3, dtype=torch.bfloat16), "flags": torch.tensor([True, False]),
               "tied_a": model.fc.bias, "tied_b": model.fc.bias, "parameter": nn.Parameter(torch.ones(2)),
               "empty": torch.zeros(0, 5), "u16": torch.tensor([65535], dtype=torch.uint16)}
    torch.save(tensors, f"{OUT}/kinds.pth")
    torch.save(tensors, f"{OUT}/protocol4.pth", pickle_protocol=4)
    torch.save(model.state_dict(), f"{OUT}/legacy.pth", _use_new_zipfile_serialization=False)
    torch.save(model, f"{OUT}/whole_model.pth")


def recorded():
    """Steps in double precision, so that they are the same on every processor."""
    result = {}
    for name, make, size, classes in (("resnet18", resnet18, 64, 1000), ("resnet50", resnet50, 64, 1000),
                                      ("resnet_20", ResNet20, 32, 10)):
        torch.manual_seed(7)
        model = make()
        result |= {f"{name}/initial/{key}": value for key, value in summary(model.state_dict(), 4).items()}
        training_step(f"{name}_step", model.double(), wave((4, 3, size, size), 0.3, 0.7).double(), classes, result, 4)
        del result[f"{name}_step/input"]
    for name, model, size, trained in more_networks():
        x = noise((4, 3, size, size), 0.3)
        with torch.no_grad():
            result[f"{name}/logits"] = filled(model).eval()(x)
        if trained:
            training_step(f"{name}_step", model, x, 10, result, 4)
            del result[f"{name}_step/input"]
    single = {key: value.float() if value.is_floating_point() else value for key, value in result.items()}
    write_safetensors(f"{OUT}/networks.safetensors", single)


recorded() if sys.argv[2:] == ["recorded"] else main()
