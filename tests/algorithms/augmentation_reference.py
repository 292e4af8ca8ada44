"""Writes what torchvision makes of images and which magnitudes its augmentations have, for the tests of image_op,
autoaugment and trivialaugment.

usage: augmentation_reference.py pixels FOLDER   the files cases.txt (op, interpolation, magnitude, height, width,
                                                 channels), before.bin and a file for each of PRODUCTS, images in the
                                                 order of the cases
       augmentation_reference.py tables FOLDER   tables.txt
"""
import contextlib
import sys

import numpy
import torch
from torchvision.transforms import InterpolationMode
from torchvision.transforms import autoaugment

OPS = ("Identity ShearX ShearY TranslateX TranslateY Rotate Brightness Color Contrast Sharpness Posterize Solarize "
       "AutoContrast Equalize Invert").split()
GEOMETRIC = OPS[1:6]
SHEARS = [0, 0.04, -0.04, 0.12, 0.2, -0.2, 0.27, 0.3, -0.3, 0.99, -0.99]
SHIFTS = [0, 1, -5.7, 5.7, -32, 300]
FACTORS = [0, 0.09, -0.45, 0.9, -0.9, -1, 2.3, 8]
MAGNITUDES = {
    **dict.fromkeys(["ShearX", "ShearY"], SHEARS),
    **dict.fromkeys(["TranslateX", "TranslateY"], SHIFTS),
    "Rotate": [0, 1, -13.37, 30, -30, 45, 90, 135, 180],
    **dict.fromkeys(["Brightness", "Color", "Contrast", "Sharpness"], FACTORS),
    "Posterize": list(range(1, 9)),
    "Solarize": [0, 1, 17.5, 128, 255],
}
NATIVE = torch.Tensor.bmm


def stepwise(points, matrix):
    """In float32, every product and sum rounded."""
    a, b, c = (points[:, :, i:i + 1] * matrix[:, i:i + 1] for i in range(3))
    return a + b + c


def fused(points, matrix):
    """In float32, a product and the sum that it goes into rounded once."""
    points, matrix = points.double(), matrix.double()
    total = 0
    for i in range(3):
        total = (points[:, :, i:i + 1] * matrix[:, i:i + 1] + total).float().double()
    return total.float()


def backwards(points, matrix):
    """As fused, the last term first."""
    return fused(points.flip(2), matrix.flip(1))


# How processors differ in the product that gives the positions of moved pixels.
PRODUCTS = {"native": NATIVE, "stepwise": stepwise, "fused": fused, "backwards": backwards}
SIZES = [(48, 48, 3), (31, 47, 3), (37, 20, 1), (1, 1, 3), (2, 5, 3), (3, 3, 1)]


def images():
    """Of each size one with noise and one with smooth colours in a part of the range; one of a single colour."""
    random = numpy.random.default_rng(17)
    for height, width, channels in SIZES:
        yield random.integers(0, 256, (height, width, channels), dtype=numpy.uint8)
        y, x = numpy.mgrid[:height, :width]
        waves = [60 + 100 * numpy.sin(x / 9 + c) ** 2 + 50 * numpy.cos(y / 7) for c in range(channels)]
        yield numpy.stack(waves, -1).astype(numpy.uint8)
    yield numpy.full((31, 47, 3), 77, numpy.uint8)


def changed(tensor, op, magnitude, mode, product):
    torch.Tensor.bmm = product
    try:
        return autoaugment._apply_op(tensor, op, magnitude, mode, None).permute(1, 2, 0).contiguous()
    finally:
        torch.Tensor.bmm = NATIVE


def pixels(folder):
    torch.set_num_threads(1)
    with contextlib.ExitStack() as files:
        cases = files.enter_context(open(f"{folder}/cases.txt", "w"))
        before = files.enter_context(open(f"{folder}/before.bin", "wb"))
        after = {name: files.enter_context(open(f"{folder}/{name}.bin", "wb")) for name in PRODUCTS}
        for image in images():
            tensor = torch.from_numpy(image).permute(2, 0, 1)
            for number, op in enumerate(OPS):
                for mode in (InterpolationMode.NEAREST, InterpolationMode.BILINEAR)[:2 if op in GEOMETRIC else 1]:
                    for magnitude in MAGNITUDES.get(op, [0]):
                        print(number, int(mode is InterpolationMode.BILINEAR), repr(float(magnitude)), *image.shape,
                              file=cases)
                        before.write(image.tobytes())
                        for name, product in PRODUCTS.items():
                            after[name].write(changed(tensor, op, magnitude, mode, product).numpy().tobytes())


def tables(folder):
    """Lines "policy NAME OP PROBABILITY LEVEL", "auto OP LEVEL HEIGHT WIDTH MAGNITUDE SIGNED" and
    "trivial OP BINS BIN MAGNITUDE SIGNED". Probabilities of a pair lie side by side."""
    with open(f"{folder}/tables.txt", "w") as out:
        for policy in autoaugment.AutoAugmentPolicy:
            augment = autoaugment.AutoAugment(policy)
            for pair in augment.policies:
                for op, probability, level in pair:
                    print("policy", policy.value, OPS.index(op), probability, level or 0, file=out)
        for height, width in ((32, 32), (224, 224), (200, 333)):
            for op, (magnitudes, signed) in augment._augmentation_space(10, (height, width)).items():
                for level in range(10):
                    magnitude = float(magnitudes[level]) if magnitudes.ndim else 0.0
                    print("auto", OPS.index(op), level, height, width, repr(magnitude), int(signed), file=out)
        for bins in (2, 10, 31):
            for op, (magnitudes, signed) in autoaugment.TrivialAugmentWide()._augmentation_space(bins).items():
                for number in range(bins):
                    magnitude = float(magnitudes[number]) if magnitudes.ndim else 0.0
                    print("trivial", OPS.index(op), bins, number, repr(magnitude), int(signed), file=out)


if __name__ == "__main__":
    {"pixels": pixels, "tables": tables}[sys.argv[1]](sys.argv[2])
