"""The fields of .beton files, as they are written, and the decoders that pipelines begin with."""

import json
from typing import Any, Dict, Optional, Sequence, Tuple, Type

import numpy as np
import torch

from .. import _native
from .pipeline import Operation

__all__ = [
    *("Field", "BytesField", "FloatField", "IntField", "JSONField", "NDArrayField", "RGBImageField", "TorchTensorField"),
    *("BytesDecoder", "CenterCropRGBImageDecoder", "FloatDecoder", "IntDecoder", "NDArrayDecoder"),
    *("RandomResizedCropRGBImageDecoder", "SimpleRGBImageDecoder"),
]

_REGION = np.dtype([("ptr", "<u8"), ("size", "<u8")])


class Decoder(Operation):
    """Begins a pipeline."""


class _ValueDecoder(Decoder):
    def read(self, reader: Any, name: str, samples: Any) -> Any:
        """The samples' values, an array of its own, of [N, ...]."""
        raise NotImplementedError


class _NumberDecoder(_ValueDecoder):
    def read(self, reader: Any, name: str, samples: Any) -> Any:
        return reader.column(name)[samples][:, None]


class IntDecoder(_NumberDecoder):
    """int64 [N, 1]."""


class FloatDecoder(_NumberDecoder):
    """float64 [N, 1]."""


class NDArrayDecoder(_ValueDecoder):
    """An array of the field's type, [N, *shape]."""

    def read(self, reader: Any, name: str, samples: Any) -> Any:
        field = reader.handlers[name]
        values = np.empty((len(samples), *field.shape), field.dtype)
        flat = values.reshape(len(samples), -1).view(np.uint8)
        for row, pointer in zip(flat, reader.column(name)[samples]):
            row[:] = reader.region(name, pointer, row.size)
        return values


class BytesDecoder(_ValueDecoder):
    """uint8 [N, the longest of the file], zeros behind shorter ones."""

    def read(self, reader: Any, name: str, samples: Any) -> Any:
        column = reader.column(name)
        values = np.zeros((len(samples), int(column["size"].max(initial=0))), np.uint8)
        for row, (pointer, size) in zip(values, column[samples]):
            row[: int(size)] = reader.region(name, pointer, size)
        return values


class SimpleRGBImageDecoder(Decoder):
    """uint8 [N, H, W, 3], of a file whose images all have one size."""

    def plan(self, reader: Any, name: str) -> Tuple[Tuple[int, int], Dict[str, Any]]:
        """The images' size, and the native loader's first step."""
        sizes = reader.column(name)[["height", "width"]]
        if len(sizes) and np.any(sizes != sizes[0]):
            raise ValueError(
                f"is for images of one size, and those of {reader.file_name} differ; take RandomResizedCropRGBImageDecoder or "
                "CenterCropRGBImageDecoder"
            )
        return (int(sizes[0][0]), int(sizes[0][1])) if len(sizes) else (1, 1), {"step": "whole"}


class ResizedCropRGBImageDecoder(SimpleRGBImageDecoder):
    """A crop, resized to ``output_size``, height and width in pixels. What is assigned to it counts from the Loader's next
    iteration on."""

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def _size(self) -> Tuple[int, int]:
        size = np.asarray(self.output_size)
        if size.shape != (2,) or size.dtype.kind not in "iuf" or np.any(size != size.astype(np.int64)):
            raise ValueError(f"output_size is height and width in pixels, not {self.output_size!r}")
        return int(size[0]), int(size[1])

    def plan(self, reader: Any, name: str) -> Tuple[Tuple[int, int], Dict[str, Any]]:
        raise ValueError("is a decoder of your own; composer_loader decodes with FFCV's own alone")


class RandomResizedCropRGBImageDecoder(ResizedCropRGBImageDecoder):
    """scale: the crop's share of the image's area, from and to; ratio: its width to its height, from and to."""

    def __init__(self, output_size: Any, scale: Sequence[float] = (0.08, 1.0), ratio: Sequence[float] = (0.75, 4 / 3)) -> None:
        super().__init__(output_size)
        self.scale, self.ratio = scale, ratio

    def plan(self, reader: Any, name: str) -> Tuple[Tuple[int, int], Dict[str, Any]]:
        return self._size(), crop_step(self.scale, self.ratio)


class CenterCropRGBImageDecoder(ResizedCropRGBImageDecoder):
    """The square in the middle, of ``ratio`` times the shorter side, at most 1."""

    def __init__(self, output_size: Any, ratio: float) -> None:
        super().__init__(output_size)
        self.scale, self.ratio = None, ratio

    def plan(self, reader: Any, name: str) -> Tuple[Tuple[int, int], Dict[str, Any]]:
        if np.ndim(self.ratio) != 0:
            raise ValueError(f"ratio is one number, not {self.ratio!r}")
        return self._size(), {"step": "center_crop", "share": float(self.ratio)}


def crop_step(scale: Sequence[float], ratio: Sequence[float]) -> Dict[str, Any]:
    """The native loader's random crop."""
    for key, values in (("scale", scale), ("ratio", ratio)):
        if np.shape(values) != (2,):
            raise ValueError(f"{key} is two numbers, from and to, not {values!r}")
    return {"step": "random_resized_crop", "scale": [float(one) for one in scale], "ratio": [float(one) for one in ratio]}


def sample_numbers(numbers: Any, name: str, most: int) -> Any:
    """Numbers of samples below `most`, as int64 of one dimension. Raises ValueError naming `name`; a mask is none."""
    chosen = np.asarray(numbers)
    if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "iu"):
        raise ValueError(f"{name}: are the numbers of samples, in one dimension, not {chosen.dtype} {list(chosen.shape)}")
    wrong = chosen[(chosen < 0) | (chosen >= most)] if chosen.size else chosen
    if wrong.size:
        raise ValueError(f"{name}: there is no sample {wrong[0]}; there are {most}")
    return chosen.astype(np.int64)


class Field:
    """What a sample has under a name.

    Attributes:
        metadata_type: NumPy's type of a row's entry.
        pointer: the part of the entry that points to the data, "" where it is the whole; None: all is in the entry.
    """

    type_id = 255
    metadata_type: Any = None
    pointer: Optional[str] = None
    decoder: Type[Decoder]

    def get_decoder_class(self) -> Type[Decoder]:
        return self.decoder

    @classmethod
    def from_binary(cls, arguments: Any) -> "Field":
        return cls()

    def to_binary(self) -> bytes:
        """At most 1,024 bytes, which from_binary() reads."""
        return b""

    def encode(self, value: Any, row: int) -> Tuple[Any, Optional[bytes]]:
        """The entry of row `row`, with 0 for the pointer, and the data. Raises ValueError."""
        raise NotImplementedError


class IntField(Field):
    """A whole number of 64 bits."""

    type_id, metadata_type, decoder = 1, np.dtype("<i8"), IntDecoder

    def encode(self, value: Any, row: int) -> Tuple[Any, Optional[bytes]]:
        whole = int(value)
        if whole != value or not -(2**63) <= whole < 2**63:
            raise ValueError(f"{value!r} is no whole number of 64 bits; FloatField is for others")
        return whole, None


class FloatField(Field):
    """A number, stored as float64."""

    type_id, metadata_type, decoder = 0, np.dtype("<f8"), FloatDecoder

    def encode(self, value: Any, row: int) -> Tuple[Any, Optional[bytes]]:
        return float(value), None


class BytesField(Field):
    """Bytes, or a uint8 array of one dimension, of any length."""

    type_id, metadata_type, pointer, decoder = 3, _REGION, "ptr", BytesDecoder

    def encode(self, value: Any, row: int) -> Tuple[Any, Optional[bytes]]:
        if not isinstance(value, (bytes, bytearray, memoryview)):
            value = np.asarray(value)
            if value.dtype != np.uint8 or value.ndim != 1:
                raise ValueError(f"an array of {value.dtype}, {list(value.shape)}, is neither bytes nor uint8 of one dimension")
        data = bytes(value)
        return (0, len(data)), data


class JSONField(BytesField):
    """What ``json.dumps`` writes. A batch has its bytes, which ``unpack`` reads."""

    type_id = 5

    def encode(self, value: Any, row: int) -> Tuple[Any, Optional[bytes]]:
        return super().encode((json.dumps(value) + "\0").encode(), row)

    @staticmethod
    def unpack(batch: Any) -> Any:
        """The values of a batch, uint8 [N, longest], as a list, or the value of one of its rows."""
        rows = np.atleast_2d(batch.cpu().numpy() if isinstance(batch, torch.Tensor) else batch)
        values = [json.loads(row.tobytes().split(b"\0")[0]) for row in rows]
        return values if len(batch.shape) > 1 else values[0]


class NDArrayField(Field):
    """An array of one type and shape; what is written may have its numbers in another shape."""

    type_id, metadata_type, pointer, decoder = 4, np.dtype("<u8"), "", NDArrayDecoder

    def __init__(self, dtype: Any, shape: Sequence[int]) -> None:
        self.dtype, self.shape = np.dtype(dtype), tuple(int(length) for length in shape)
        if not self.shape or len(self.shape) > 32 or 0 in self.shape:
            raise ValueError(f"{type(self).__name__}: shape has 1 to 32 lengths above 0, not {self.shape}")
        self.bytes = self.dtype.itemsize * int(np.prod(self.shape))
        if self.dtype.hasobject:
            raise ValueError(f"{type(self).__name__}: dtype {self.dtype} has objects of Python in it")

    @classmethod
    def from_binary(cls, arguments: Any) -> "Field":
        data = bytes(arguments)
        shape = np.frombuffer(data, "<u8", 32)
        text = data[264 : 264 + int(np.frombuffer(data, "<u8", 1, 256)[0])]
        description = json.loads(text)
        plain = len(description) == 1 and description[0][0] == ""
        dtype = description[0][1] if plain else [tuple(one) for one in description]
        return NDArrayField(np.dtype(dtype), np.trim_zeros(shape, "b"))

    def to_binary(self) -> bytes:
        shape = np.zeros(32, "<u8")
        shape[: len(self.shape)] = self.shape
        text = json.dumps(self.dtype.descr).encode()
        if len(text) > 1024 - 264:
            raise ValueError(f"{type(self).__name__}: the names in dtype {self.dtype} are too long for the file")
        return shape.tobytes() + np.array(len(text), "<u8").tobytes() + text

    def encode(self, value: Any, row: int) -> Tuple[Any, Optional[bytes]]:
        array = np.asarray(value)
        if array.dtype != self.dtype or array.size != np.prod(self.shape):
            raise ValueError(f"an array of {array.dtype}, {list(array.shape)}; the field has {self.dtype}, {list(self.shape)}")
        return 0, array.tobytes()


class TorchTensorField(NDArrayField):
    """A tensor of one type, PyTorch's, and shape."""

    type_id = 6

    def __init__(self, dtype: torch.dtype, shape: Sequence[int]) -> None:
        super().__init__(torch.zeros(0, dtype=dtype).numpy().dtype, shape)

    def encode(self, value: Any, row: int) -> Tuple[Any, Optional[bytes]]:
        return super().encode(value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else value, row)


class RGBImageField(Field):
    """An image, of PIL or uint8 [H, W, 3].

    Args:
        write_mode: "raw": its pixels; "jpg": as JPEG; "smart": as JPEG where the pixels have more than ``smart_threshold``
            bytes; "proportion": as JPEG with ``compress_probability``, drawn by the row's number.
        max_resolution: longer sides are shrunk to this number of pixels.
        jpeg_quality: 1 to 100.
    """

    type_id, pointer, decoder = 2, "data_ptr", SimpleRGBImageDecoder
    metadata_type = np.dtype([("mode", "<u1"), ("width", "<u2"), ("height", "<u2"), ("data_ptr", "<u8")])

    def __init__(
        self,
        write_mode: str = "raw",
        max_resolution: Optional[int] = None,
        smart_threshold: Optional[int] = None,
        jpeg_quality: int = 90,
        compress_probability: float = 0.5,
    ) -> None:
        self.write_mode, self.max_resolution, self.smart_threshold = write_mode, max_resolution, smart_threshold
        self.jpeg_quality, self.proportion = int(jpeg_quality), compress_probability
        options: Dict[str, Any] = {"write_mode": write_mode, "jpeg_quality": self.jpeg_quality}
        options["compress_probability"] = float(compress_probability)
        for key, pixels in (("max_resolution", max_resolution), ("smart_threshold", smart_threshold)):
            if pixels is not None:
                options[key] = int(pixels)
        self._options = json.dumps(options).encode()
        _native.pack_image(self._options, np.zeros((1, 1, 3), np.uint8), 0)  # raises ValueError for wrong options

    def encode(self, value: Any, row: int) -> Tuple[Any, Optional[bytes]]:
        mode = getattr(value, "mode", "RGB")  # of an image of PIL
        mode = mode if isinstance(mode, str) else "RGB"
        pixels = np.asarray(value)
        if mode != "RGB" or pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.size == 0:
            what = f"an image of PIL in mode {mode}" if mode != "RGB" else f"an array of {pixels.dtype}, {list(pixels.shape)}"
            raise ValueError(f'{what} is no RGB image: uint8 [H, W, 3], or .convert("RGB") of PIL\'s')
        is_jpeg, height, width, data = _native.pack_image(self._options, np.ascontiguousarray(pixels), row)
        return (0 if is_jpeg else 1, width, height, 0), data


FIELDS: Dict[int, Type[Field]] = {
    one.type_id: one
    for one in (FloatField, IntField, RGBImageField, BytesField, NDArrayField, JSONField, TorchTensorField)
}
