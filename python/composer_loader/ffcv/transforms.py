"""The operations behind a pipeline's decoder."""

from typing import Any, Dict, Sequence, Tuple

import numpy as np
import torch

from .fields import crop_step, sample_numbers
from .pipeline import Operation

__all__ = [
    *("Convert", "Cutout", "ImageMixup", "LabelMixup", "MixupToOneHot", "ModuleWrapper", "NormalizeImage", "Poison"),
    *("RandomBrightness", "RandomContrast", "RandomHorizontalFlip", "RandomResizedCrop", "RandomSaturation"),
    *("RandomTranslate", "ReplaceLabel", "Squeeze", "ToDevice", "ToTensor", "ToTorchImage", "View"),
]


class NativeOperation(Operation):
    """Changes single images, on the native loader's threads. Its draws depend on the Loader's seed, the epoch and the sample."""

    def step(self) -> Dict[str, Any]:
        """The native loader's step."""
        raise NotImplementedError


class BatchOperation(Operation):
    """Changes a batch.

    Attributes:
        takes: "array", "tensor" or "both".
    """

    takes = "both"

    def apply(self, batch: Any, samples: Any) -> Any:
        """samples: the numbers of the batch's samples. May change ``batch`` in place."""
        raise NotImplementedError


class RandomHorizontalFlip(NativeOperation):
    """Mirrors an image left-right with probability ``flip_prob``."""

    def __init__(self, flip_prob: float = 0.5) -> None:
        super().__init__()
        self.flip_prob = flip_prob

    def step(self) -> Dict[str, Any]:
        return {"step": "flip", "p": float(self.flip_prob)}


class RandomTranslate(NativeOperation):
    """Pads an image by ``padding`` pixels of ``fill`` (0 to 255 each) on all sides, and crops its size out of that."""

    def __init__(self, padding: int, fill: Sequence[int] = (0, 0, 0)) -> None:
        super().__init__()
        self.padding, self.fill = padding, fill

    def step(self) -> Dict[str, Any]:
        return {"step": "translate", "padding": int(self.padding), "fill": _colour(self.fill)}


class Cutout(NativeOperation):
    """Fills a square of ``crop_size`` pixels, anywhere in the image (DeVries and Taylor 2017, arXiv 1708.04552)."""

    def __init__(self, crop_size: int, fill: Sequence[int] = (0, 0, 0)) -> None:
        super().__init__()
        self.crop_size, self.fill = crop_size, fill

    def step(self) -> Dict[str, Any]:
        return {"step": "cutout", "side": int(self.crop_size), "fill": _colour(self.fill)}


class RandomResizedCrop(NativeOperation):
    """A random crop, resized to ``size``, directly behind SimpleRGBImageDecoder."""

    def __init__(self, scale: Tuple[float, float], ratio: Tuple[float, float], size: Any) -> None:
        super().__init__()
        self.scale, self.ratio = scale, ratio
        self.size = (int(size), int(size)) if np.ndim(size) == 0 else tuple(int(side) for side in size)

    def step(self) -> Dict[str, Any]:
        return crop_step(self.scale, self.ratio)


class _Colour(NativeOperation):
    name = ""

    def __init__(self, magnitude: float, p: float = 0.5) -> None:
        super().__init__()
        self.magnitude, self.p = magnitude, p

    def step(self) -> Dict[str, Any]:
        return {"step": self.name, "magnitude": float(self.magnitude), "p": float(self.p)}


class RandomBrightness(_Colour):
    """With probability ``p``: times a factor from max(0, 1 - magnitude) to 1 + magnitude."""

    name = "brightness"


class RandomContrast(_Colour):
    """As RandomBrightness, of the distance to the image's mean luma."""

    name = "contrast"


class RandomSaturation(_Colour):
    """As RandomBrightness, of the distance to the pixel's luma."""

    name = "saturation"


class ToTensor(BatchOperation):
    """NumPy's array as PyTorch's tensor."""

    takes = "array"

    def apply(self, batch: Any, samples: Any) -> Any:
        return torch.from_numpy(batch)


class ToDevice(BatchOperation):
    """Moves the batch to a device, while the batch before it is computed on."""

    takes = "tensor"

    def __init__(self, device: Any, non_blocking: bool = True) -> None:
        super().__init__()
        self.device, self.non_blocking = device, non_blocking

    def apply(self, batch: Any, samples: Any) -> Any:
        return batch.to(self.device, non_blocking=self.non_blocking)


class ToTorchImage(BatchOperation):
    """[N, H, W, C] as [N, C, H, W], with the channels last in memory or, by a copy, contiguous. A float16 image is one at once
    here, so that ``convert_back_int16`` has nothing to do."""

    takes = "tensor"

    def __init__(self, channels_last: bool = True, convert_back_int16: bool = True) -> None:
        super().__init__()
        self.channels_last, self.convert_back_int16 = channels_last, convert_back_int16

    def apply(self, batch: Any, samples: Any) -> Any:
        batch = batch.permute(0, 3, 1, 2)
        return batch if self.channels_last else batch.contiguous()


class NormalizeImage(BatchOperation):
    """(x - mean) / std of each channel in float64, rounded once to ``type``, a NumPy type. mean and std are of values from 0
    to 255."""

    def __init__(self, mean: Any, std: Any, type: Any) -> None:
        super().__init__()
        self.mean, self.std = np.asarray(mean, np.float64), np.asarray(std, np.float64)
        if self.mean.shape != (3,) or self.std.shape != (3,) or not np.all(self.std > 0):
            raise ValueError("NormalizeImage: mean and std have three numbers each, and those of std are above 0")
        self.dtype = np.dtype(type)
        self.table = ((np.arange(256)[:, None] - self.mean) / self.std).astype(self.dtype)
        self._tables: Dict[torch.device, torch.Tensor] = {}

    def apply(self, batch: Any, samples: Any) -> Any:
        if batch.dtype not in (np.uint8, torch.uint8):
            raise ValueError(f"the images are {batch.dtype}, not uint8: they were converted before")
        if isinstance(batch, np.ndarray):
            return self.table[batch, np.arange(3)]
        if batch.device not in self._tables:
            self._tables[batch.device] = torch.from_numpy(self.table).to(batch.device)
        table = self._tables[batch.device]
        channels = 1 if batch.shape[1] == 3 and (batch.shape[3] != 3 or not batch.is_contiguous()) else 3
        result = torch.empty_like(batch, dtype=table.dtype)
        for channel in range(3):
            values = table[:, channel].index_select(0, batch.select(channels, channel).reshape(-1).int())
            result.select(channels, channel).copy_(values.view(result.select(channels, channel).shape))
        return result


    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_tables": {}}


class Convert(BatchOperation):
    """The batch as this type of PyTorch, or NumPy."""

    takes = "tensor"

    def __init__(self, target_dtype: Any) -> None:
        super().__init__()
        try:
            if isinstance(target_dtype, str) and target_dtype.startswith("torch."):
                target_dtype = torch.empty(0).type(target_dtype).dtype
            own = getattr(target_dtype, "dtype", target_dtype)  # of torch.HalfTensor
            self.target_dtype = own if isinstance(own, torch.dtype) else getattr(torch, np.dtype(target_dtype).name)
        except (TypeError, AttributeError, ValueError):
            raise ValueError(f"Convert: {target_dtype!r} is no type of PyTorch's; torch.float32, for instance") from None

    def apply(self, batch: Any, samples: Any) -> Any:
        return batch.type(self.target_dtype)


class View(BatchOperation):
    """``batch.view(target_dtype)``: the bytes as another type, or, by -1, in one dimension."""

    def __init__(self, target_dtype: Any) -> None:
        super().__init__()
        self.target_dtype = target_dtype

    def apply(self, batch: Any, samples: Any) -> Any:
        if isinstance(batch, np.ndarray) and self.target_dtype == -1:
            return batch.reshape(-1)
        return batch.view(self.target_dtype)


class Squeeze(BatchOperation):
    """Without these dimensions of length 1, or without all of them."""

    def __init__(self, *dims: int) -> None:
        super().__init__()
        self.dims = dims

    def apply(self, batch: Any, samples: Any) -> Any:
        return batch.squeeze(self.dims) if self.dims else batch.squeeze()


class ModuleWrapper(BatchOperation):
    """Calls a torch.nn.Module, which a pipeline may also have itself."""

    takes = "tensor"

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def apply(self, batch: Any, samples: Any) -> Any:
        return self.module(batch)


class _Mixup(BatchOperation):
    takes = "array"

    def __init__(self, alpha: float, same_lambda: bool) -> None:
        super().__init__()
        self.alpha, self.same_lambda = alpha, same_lambda

    def lambdas(self, samples: Any) -> Any:
        """[N], the same for images and labels of a batch: they are drawn by its last sample's number."""
        draws = np.random.RandomState(int(samples[-1]) % 2**32) if len(samples) else np.random
        return np.full(len(samples), draws.beta(self.alpha, self.alpha)) if self.same_lambda else draws.beta(self.alpha, self.alpha, len(samples))


class ImageMixup(_Mixup):
    """Mixes each image with the one before it in the batch, by a share from Beta(alpha, alpha), one for a batch or one an
    image (Zhang et al. 2018, arXiv 1710.09412)."""

    def apply(self, batch: Any, samples: Any) -> Any:
        shares = self.lambdas(samples).reshape(-1, *[1] * (batch.ndim - 1))
        return (shares * batch + (1 - shares) * np.roll(batch, 1, 0)).astype(batch.dtype)


class LabelMixup(_Mixup):
    """The labels of ImageMixup: float32 [N, 3], the two labels and the share of the first."""

    def apply(self, batch: Any, samples: Any) -> Any:
        labels = batch.reshape(len(batch))
        return np.stack([labels, np.roll(labels, 1), self.lambdas(samples)], 1).astype(np.float32)


class MixupToOneHot(BatchOperation):
    """[N, num_classes] of LabelMixup's [N, 3]."""

    takes = "tensor"

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.num_classes = num_classes

    def apply(self, batch: Any, samples: Any) -> Any:
        result = torch.zeros(len(batch), self.num_classes, dtype=batch.dtype, device=batch.device)
        result.scatter_add_(1, batch[:, :1].long(), batch[:, 2:])
        return result.scatter_add_(1, batch[:, 1:2].long(), 1 - batch[:, 2:])


class Poison(BatchOperation):
    """Blends ``mask`` [H, W, 3] into the images of the samples ``indices``, with opacity ``alpha`` [H, W]."""

    takes = "array"

    def __init__(self, mask: Any, alpha: Any, indices: Any, clamp: Tuple[int, int] = (0, 255)) -> None:
        super().__init__()
        self.indices, self.clamp = sample_numbers(indices, "Poison: indices", 2**62), clamp
        self.rest = 1 - np.asarray(alpha, np.float64)[:, :, None]
        self.mask = np.asarray(mask, np.float64) * (1 - self.rest)

    def apply(self, batch: Any, samples: Any) -> Any:
        chosen = np.isin(samples, self.indices)
        mixed = (batch[chosen] * self.rest).astype(np.float32) + self.mask
        batch[chosen] = np.clip(mixed.astype(np.float32), *self.clamp).astype(batch.dtype)
        return batch


class ReplaceLabel(BatchOperation):
    """The label ``new_label`` for the samples ``indices``."""

    takes = "array"

    def __init__(self, indices: Any, new_label: int) -> None:
        super().__init__()
        self.indices, self.new_label = sample_numbers(indices, "ReplaceLabel: indices", 2**62), new_label

    def apply(self, batch: Any, samples: Any) -> Any:
        batch[np.isin(samples, self.indices)] = self.new_label
        return batch


def _colour(fill: Any) -> Any:
    """Three numbers from 0 to 255, truncated as FFCV does."""
    if np.shape(fill) not in ((), (1,), (3,)) or np.any(np.asarray(fill) < 0) or np.any(np.asarray(fill) >= 256):
        raise ValueError(f"fill is a colour of three numbers from 0 to 255, not {fill!r}")
    return [int(one) for one in np.broadcast_to(np.asarray(fill), 3)]
