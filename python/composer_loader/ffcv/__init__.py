"""FFCV's form of the loader: a script changes ``ffcv`` to ``composer_loader.ffcv`` in its imports.

    from composer_loader.ffcv.loader import Loader, OrderOption
    from composer_loader.ffcv.fields.decoders import IntDecoder, RandomResizedCropRGBImageDecoder
    from composer_loader.ffcv.transforms import RandomHorizontalFlip, ToTensor, ToTorchImage

The names, arguments and batches are FFCV 1.0's (Leclerc et al. 2023, "FFCV: Accelerating training by removing data
bottlenecks"). It needs PyTorch.
"""

import builtins
import sys

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("composer_loader.ffcv needs PyTorch; composer_loader.Loader works without it") from error

from . import fields, loader, pipeline, reader, transforms, traversal_order, writer
from .loader import Loader
from .writer import DatasetWriter

__version__ = "1.0.2"  # of FFCV, whose form this is
__all__ = ["DatasetWriter", "Loader"]

# FFCV has more modules, of which scripts import the same names.
_MODULES = {
    fields: ("base", "basics", "bytes", "decoders", "json", "ndarray", "rgb_image"),
    loader: ("loader",),
    pipeline: ("allocation_query", "compiler", "operation", "pipeline_spec", "state"),
    transforms: (
        *("color_jitter", "common", "cutout", "flip", "mixup", "module", "normalize", "ops", "poisoning"),
        *("random_resized_crop", "replace_label", "translate"),
    ),
    traversal_order: ("base", "quasi_random", "random", "sequential"),
}
for _module, _names in _MODULES.items():
    for _name in _names:
        sys.modules[f"{_module.__name__}.{_name}"] = _module
        if not hasattr(_module, _name) and not hasattr(builtins, _name):
            setattr(_module, _name, _module)
