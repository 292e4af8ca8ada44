"""Trains a small network in JAX: python jax_train.py DATA [EPOCHS]

DATA has train/ and val/ with a folder for each class; of a folder without val/ and of a .beton file a fifth is evaluated on.
"""
import os
import sys

import jax
from composer_loader import Loader
from jax import lax, nn

data, epochs = (sys.argv[1:] + ["3"])[:2]
common = dict(batch_size=32, size=64, output="float32", framework="jax")  # images [N, 64, 64, 3] and int32 labels
common["split"] = None if os.path.isdir(os.path.join(data, "val")) else 0.2
train, val = Loader(data, pipeline="train", **common), Loader(data, pipeline="eval", **common)
shapes = (3, 3, 3, 32), (3, 3, 32, 64), (64, train.num_classes)
weights = [0.1 * jax.random.normal(jax.random.key(0), shape) for shape in shapes]


@jax.jit
def logits(weights, images):
    for kernel in weights[:2]:
        images = nn.relu(lax.conv_general_dilated(images, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))
    return images.mean((1, 2)) @ weights[2]


@jax.jit
def step(weights, images, labels):
    def loss(weights):
        return -jax.numpy.take_along_axis(nn.log_softmax(logits(weights, images)), labels[:, None], 1).mean()

    return [weight - 0.1 * gradient for weight, gradient in zip(weights, jax.grad(loss)(weights))]


for epoch in range(int(epochs)):
    for images, labels in train:
        weights = step(weights, images, labels)
    right = sum((logits(weights, images).argmax(1) == labels).sum().item() for images, labels in val)
    print(f"epoch {epoch}: accuracy {right / len(val.dataset):.1%}", flush=True)
