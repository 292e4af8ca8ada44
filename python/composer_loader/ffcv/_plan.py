"""What the native loader does of a pipeline, and what is left to be done to its batches."""

import re
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import torch

from .. import _loader
from .fields import Decoder, SimpleRGBImageDecoder
from .pipeline import Operation, PipelineSpec
from .transforms import (
    BatchOperation,
    Convert,
    ModuleWrapper,
    NativeOperation,
    NormalizeImage,
    RandomResizedCrop,
    ToDevice,
    ToTensor,
    ToTorchImage,
)

_OUTPUTS = {"float32", "float16", "bfloat16"}  # of the native loader, beside uint8


class Plan:
    """How an output is made.

    Attributes:
        field: the field that it is made of.
        decoder: its decoder.
        options: of the native loader; None where the field is no image.
        before: operations for a batch on the CPU.
        device: the GPU that the batch then goes to; None: none.
        after: operations for the batch there.
    """

    def __init__(self, output: str, spec: PipelineSpec, reader: Any) -> None:
        if not isinstance(spec.source, str):
            raise ValueError(
                f"{output}: its source is {type(spec.source).__name__}, an operation of another pipeline; name a field, and give "
                "the operations before it once more"
            )
        if spec.source not in reader.handlers:
            raise ValueError(f"{output}: {reader.file_name} has no field {spec.source!r}; it has {', '.join(reader.handlers)}")
        if isinstance(spec.decoder, (list, tuple)):
            raise ValueError(f"{output}: PipelineSpec's second argument is the decoder; did you mean transforms=?")
        self.output, self.field = output, spec.source
        expected = reader.handlers[self.field].get_decoder_class()
        self.decoder = spec.decoder
        if not isinstance(self.decoder, expected):
            raise ValueError(
                f"{output}: {type(self.decoder).__name__} cannot decode the field {self.field}, "
                f"{type(reader.handlers[self.field]).__name__}; {expected.__name__} can"
            )
        if _is_own(self.decoder):
            raise self._own(self.decoder)
        operations = [self._known(one) for one in spec.transforms]
        self.options: Optional[Dict[str, Any]] = None
        if isinstance(self.decoder, SimpleRGBImageDecoder):
            operations = self._native(operations, reader)
        for one in operations:
            if isinstance(one, NativeOperation):
                raise ValueError(f"{output}: {_name(one)} is for images; {self.field} is none")
        self._check_types(operations)
        at, self.device = self._gpu_of(operations)
        self.before: List[BatchOperation] = [one for one in operations[:at] if not isinstance(one, ToDevice)]
        self.after: List[BatchOperation] = operations[at + 1 :]
        if self.options is not None:
            self._fold()

    def _known(self, one: Any) -> Operation:
        if isinstance(one, torch.nn.Module):
            return ModuleWrapper(one)
        if isinstance(one, (NativeOperation, BatchOperation)) and not _is_own(one):
            return one
        if isinstance(one, Decoder) and not _is_own(one):
            raise ValueError(f"{self.output}: {_name(one)} decodes: it is the first of a pipeline")
        if isinstance(one, Operation):
            raise self._own(one)
        hint = ", without the brackets it needs" if isinstance(one, type) else ""
        raise ValueError(f"{self.output}: {one!r} is neither an operation nor a torch.nn.Module{hint}")

    def _own(self, one: Operation) -> ValueError:
        return ValueError(
            f"{self.output}: {_name(one)} is an operation of your own, which FFCV compiles with numba; composer_loader runs no "
            "Python for single samples: make it a torch.nn.Module behind ToTensor, which gets the batch"
        )

    def _gpu_of(self, operations: List[Any]) -> Tuple[int, Optional[torch.device]]:
        """The place of the operation that moves to a GPU, and the GPU; the end, and None, where none does."""
        moves = [(at, one) for at, one in enumerate(operations) if isinstance(one, ToDevice)]
        devices = [(at, self._told(one, lambda: _loader._torch_device(torch, one.device))) for at, one in moves]
        return next(((at, device) for at, device in devices if device.type == "cuda"), (len(operations), None))

    def _native(self, operations: List[Any], reader: Any) -> List[Any]:
        """Takes the first operations for the native loader, and returns the others."""
        size, first = self._told(self.decoder, lambda: self.decoder.plan(reader, self.field))
        steps, names = [first], [_name(self.decoder)]
        while operations and isinstance(operations[0], NativeOperation):
            one = operations.pop(0)
            if isinstance(one, RandomResizedCrop):
                if steps[0]["step"] != "whole" or any(step["step"] != "flip" for step in steps[1:]):
                    raise ValueError(
                        f"{self.output}: RandomResizedCrop comes behind SimpleRGBImageDecoder here; as a decoder, "
                        "RandomResizedCropRGBImageDecoder, it is faster"
                    )
                size, steps[0], names[0] = one.size, self._told(one, one.step), _name(one)
            else:
                steps.append(self._told(one, one.step))
                names.append(_name(one))
        for before, one in zip(operations, operations[1:]):
            if isinstance(one, NativeOperation):
                raise ValueError(
                    f"{self.output}: {_name(one)} comes behind {_name(before)}; the native loader changes images first: put it "
                    "directly behind the decoder and the operations of its kind"
                )
        self.options = {"image_field": self.field, "size": list(size), "pipeline": steps}
        self._step_names = names
        return operations

    def _told(self, one: Any, function: Any) -> Any:
        """function(), whose error names the operation."""
        try:
            return function()
        except (RuntimeError, TypeError, ValueError) as error:
            raise ValueError(f"{self.output}: {_name(one)}: {error}") from None

    def _check_types(self, operations: List[Any]) -> None:
        kind = "array"
        if sum(isinstance(one, ToTorchImage) for one in operations) > 1:
            raise ValueError(f"{self.output}: ToTorchImage comes twice")
        for one in operations:
            if one.takes not in (kind, "both"):
                where = "behind ToTensor" if kind == "array" else "before ToTensor"
                raise ValueError(f"{self.output}: {_name(one)} takes {'tensors' if kind == 'array' else 'arrays'}: put it {where}")
            kind = "tensor" if isinstance(one, ToTensor) else kind
        if kind == "array" and any(isinstance(one, ToDevice) for one in operations):
            raise ValueError(f"{self.output}: ToDevice takes tensors: put it behind ToTensor")

    def _fold(self) -> None:
        """Has the native loader do what depends on a pixel's value alone: it gets a table of the results."""
        moves = (ToTensor, ToTorchImage)
        image: Any = np.repeat(np.arange(256, dtype=np.uint8), 3).reshape(1, 16, 16, 3)  # each value once
        folded = 0
        table: Any = None
        channels_first = False
        for number, one in enumerate(self.before):
            if not isinstance(one, moves) and not _is_of_pixels(one):
                break
            image = self._told(one, lambda: one.apply(image, None))
            channels_first = channels_first or isinstance(one, ToTorchImage)
            kind = str(image.dtype).rsplit(".")[-1]
            if not isinstance(one, moves) and kind in _OUTPUTS:
                folded = number + 1
                table = torch.as_tensor(image.transpose(1, 2).transpose(2, 3) if channels_first else image)
        if table is not None and bool(table.isfinite().all()):
            self.before = [one for one in self.before[:folded] if isinstance(one, moves)] + self.before[folded:]
            assert self.options is not None
            self.options["output"] = str(table.dtype).rsplit(".")[-1]
            self.options["table"] = table.double().flatten().tolist()

    def in_its_words(self, problem: str) -> str:
        """The native loader's message, which numbers the steps."""
        own = re.sub(r"pipeline\[(\d+)\]", lambda found: f"{self.output}: {self._step_names[int(found[1])]}", problem)
        return re.sub(r"^size: .*", lambda found: f"{self.output}: {self._step_names[0]}: {found[0]}", own, count=1)

    def on_cpu(self, value: Any, samples: Any) -> Any:
        """What the native loader's tensor, or a decoder's array, becomes before it goes to the GPU. It may change the value."""
        is_array = True
        for one in self.before:
            if isinstance(one, ToTensor):
                is_array = False
                value = value if isinstance(value, torch.Tensor) else torch.from_numpy(value)
                continue
            if is_array and isinstance(value, torch.Tensor):
                value = value.numpy()
            value = self._applied(one, value, samples)
        return value.numpy() if is_array and isinstance(value, torch.Tensor) else value

    def on_gpu(self, value: Any) -> Any:
        for one in self.after:
            value = self._applied(one, value, None)
        return value

    def _applied(self, one: BatchOperation, value: Any, samples: Any) -> Any:
        try:
            return one.apply(value, samples)
        except (IndexError, RuntimeError, TypeError, ValueError) as error:
            if type(error) not in (IndexError, RuntimeError, TypeError, ValueError):
                raise
            raise type(error)(f"{self.output}: {_name(one)}: {error}") from error


def _name(one: Any) -> str:
    return type(one.module if isinstance(one, ModuleWrapper) else one).__name__


def _is_own(one: Any) -> bool:
    """Whether it has code for FFCV's compiler, which none of the operations here has."""
    return any(hasattr(one, name) for name in ("generate_code", "get_crop_generator", "declare_state_and_memory"))


def _is_of_pixels(one: Any) -> bool:
    """Whether a result depends on one pixel's value and channel alone."""
    if isinstance(one, ModuleWrapper):
        module = type(one.module)
        return module.__name__ == "Normalize" and module.__module__.startswith("torchvision.")
    return isinstance(one, (Convert, NormalizeImage))

