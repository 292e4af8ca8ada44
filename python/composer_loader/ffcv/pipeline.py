"""Operations, and the pipelines of them that a Loader takes."""

from dataclasses import dataclass
from typing import Any, List, Optional, Sequence, Tuple, Union

__all__ = ["AllocationQuery", "Compiler", "Operation", "PipelineSpec", "State"]


class Operation:
    """What a pipeline is a list of. FFCV compiles operations of one's own with numba; a Loader here refuses them."""

    def __init__(self) -> None:
        pass


class PipelineSpec:
    """How an output is made of a field.

    Args:
        source: the field's name.
        decoder: the first operation; None: the first transform where that is a decoder, else the field's default.
        transforms: what follows, operations and ``torch.nn.Module``s.
    """

    def __init__(
        self, source: Union[str, Operation], decoder: Optional[Operation] = None, transforms: Optional[Sequence[Any]] = None
    ) -> None:
        self.source = source
        self.decoder = decoder
        self.transforms: List[Any] = list(transforms or [])
        self.default_pipeline = decoder is None and not self.transforms

    def __repr__(self) -> str:
        return repr((self.source, self.decoder, self.transforms))


# What operations of one's own import.


@dataclass
class State:
    jit_mode: bool
    device: Any
    shape: Tuple[int, ...]
    dtype: Any


@dataclass
class AllocationQuery:
    shape: Tuple[int, ...]
    dtype: Any
    device: Any = None


class Compiler:
    @classmethod
    def set_num_threads(cls, n: int) -> None:
        """Does nothing: each Loader has threads of its own."""
