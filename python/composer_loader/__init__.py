"""Batches of images for training and evaluation, from FFCV's files, folders, shards and stores.

    from composer_loader import Loader

    train = Loader("train.beton", batch_size=256, size=224, pipeline="train")
    for images, labels in train:
        ...

NumPy is all that this package needs; PyTorch and JAX are used where they are installed and wanted.
"""

from ._loader import Loader
from ._native import BadSample, __version__

__all__ = ["BadSample", "Loader", "__version__"]
