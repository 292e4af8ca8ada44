"""FFCV's Loader."""

import enum
import hashlib
import os
import threading
import weakref
from collections.abc import Mapping as _Mapping
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
import torch

from .. import _loader, _native
from ._plan import Plan
from .fields import FIELDS, Decoder, sample_numbers
from .pipeline import PipelineSpec
from .reader import Reader
from .transforms import ToTensor
from .traversal_order import QuasiRandom, Random, Sequential, TraversalOrder

__all__ = ["Loader", "OrderOption"]


@enum.unique
class OrderOption(enum.Enum):
    SEQUENTIAL = enum.auto()
    RANDOM = enum.auto()
    QUASI_RANDOM = enum.auto()


_ORDERS = {OrderOption.SEQUENTIAL: Sequential, OrderOption.RANDOM: Random, OrderOption.QUASI_RANDOM: QuasiRandom}


class _Epoch(_loader._Batches):
    def close(self) -> None:
        """Ends the iteration."""
        with self._lock:
            self._end()

    def join(self, timeout: Optional[float] = None) -> None:
        """Returns at once: the threads end with close()."""


class Loader(_loader.Loader):
    """FFCV's Loader, an iterable of tuples: of a .beton file's fields in their order, then of other outputs.

    Args:
        fname: a .beton file.
        batch_size: samples of this rank's batch.
        num_workers: threads that read and decode; below 1: one for each processor that this process may use.
        os_cache: has no effect: files are read through the system's cache, ahead of the threads.
        order: an OrderOption, or a class of one's own that derives from TraversalOrder.
        distributed: whether ``torch.distributed``'s ranks share an epoch, as DistributedSampler deals it out.
        seed: of the order, as FFCV's, and of the random operations. Default: drawn from NumPy's generator; with
            ``distributed`` 0.
        indices: the numbers of the samples that take part.
        pipelines: for each field its operations, the decoder first; a PipelineSpec, also under a name of its own; or None:
            the batch leaves the field out. Default: the field's decoder and ToTensor.
        custom_fields: has no effect: fields of a type of the writer's own are refused.
        drop_last: whether an epoch leaves out an incomplete last batch.
        batches_ahead: batches kept ready, at least 1.
        recompile: has no effect: nothing is compiled.
        order_kwargs: arguments of an order of one's own.
        ffcv_exact: the very pixels that FFCV decodes, more slowly.

    Crops are resized by a triangle filter, FFCV's by area, and JPEGs decoded accurately; ``ffcv_exact=True`` gives FFCV's bytes.
    A batch is the caller's: it may be kept. Each iteration is the epoch ``next_epoch``. state_dict(), load_state_dict(),
    set_epoch() and close() are composer_loader.Loader's.

    Raises:
        ValueError: an argument is wrong, or a pipeline cannot be done; the message names it and what would be right.
        FileNotFoundError, OSError: the file cannot be opened or read.
        BadSample: (in the loop) a sample cannot be read; the next ``next()`` goes on behind its batch.
    """

    _iteration = _Epoch
    _advice = ""

    def __init__(
        self,
        fname: Union[str, "os.PathLike[str]"],
        batch_size: int,
        num_workers: int = -1,
        os_cache: bool = True,
        order: Any = OrderOption.SEQUENTIAL,
        distributed: bool = False,
        seed: Optional[int] = None,
        indices: Optional[Sequence[int]] = None,
        pipelines: Mapping[str, Any] = {},
        custom_fields: Mapping[str, Any] = {},
        drop_last: bool = True,
        batches_ahead: int = 3,
        recompile: bool = False,
        order_kwargs: Mapping[str, Any] = {},
        *,
        ffcv_exact: bool = False,
    ) -> None:
        arguments = dict(locals())
        del arguments["self"]
        self._arguments = arguments
        self._drawn: Optional[int] = None
        self._open()

    def _open(self, place: Optional[Tuple[int, int]] = None) -> None:
        a = self._arguments
        for name, value in (("num_workers", a["num_workers"]), ("batch_size", a["batch_size"])):
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
                raise ValueError(f"{name}: {value!r} is no whole number; FFCV's arguments are (fname, batch_size, num_workers, os_cache, order, ...)")
        if _loader._whole("batches_ahead", a["batches_ahead"]) < 1:
            raise ValueError("batches_ahead: is at least 1")
        self.fname, self.batches_ahead, self.distributed = _loader._path("fname", a["fname"]), a["batches_ahead"], bool(a["distributed"])
        self.seed = self._chosen_seed()
        self.reader = Reader(self.fname, a["custom_fields"])
        unknown = [name for name, one in zip(self.reader.field_names, self.reader.field_descriptors) if one["type_id"] not in FIELDS]
        if unknown:
            raise ValueError(f"{unknown[0]}: is a field of {self.fname} of a type of its writer's own, which composer_loader cannot read")
        self.indices = self._indices(a["indices"])
        workers = a["num_workers"] if a["num_workers"] > 0 else len(os.sched_getaffinity(0))
        self._facts = {"num_workers": workers, "drop_last": bool(a["drop_last"])}  # orders of one's own read attributes
        self._lock, self._position, self._goes_on, self._chosen = threading.RLock(), (0, 0), True, None
        self._rank, self._ranks = 0, 1
        if self.distributed:
            group = _loader._distributed()
            if group is None:
                raise ValueError("distributed: torch.distributed is not initialised; call init_process_group() before the Loader is made")
            self._rank, self._ranks = group.get_rank(), group.get_world_size()
        self.order = a["order"]
        self.traversal_order = self._order_of(self.order)
        self._positions: Optional[int] = None
        self._positions = len(self._ordered(0))  # of every epoch
        self.pipeline_specs = self._specs()
        self._framework, self._torch, self._layout, self._size_of = "torch", torch, "nhwc", None
        self._place_given, self._place_open = True, False
        self._make_plans()
        self._enter(self._open_sets())

    def _chosen_seed(self) -> int:
        seed = self._arguments["seed"]
        if seed is not None:
            if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**64:
                raise ValueError(f"seed: {seed!r} is no whole number from 0 on")
            return int(seed)
        if self.distributed:
            return 0
        if self._drawn is None:
            self._drawn = int(np.random.randint(0, 2**31 - 1))
        return self._drawn

    def _indices(self, indices: Optional[Sequence[int]]) -> Any:
        samples = self.reader.num_samples
        return np.arange(samples) if indices is None else sample_numbers(indices, "indices", samples)

    def _order_of(self, order: Any) -> TraversalOrder:
        if isinstance(order, OrderOption):
            return _ORDERS[order](weakref.proxy(self))  # a cycle would keep the threads until it is collected
        if isinstance(order, type) and issubclass(order, TraversalOrder):
            return order(weakref.proxy(self), **self._arguments["order_kwargs"])
        raise ValueError(f"order: {order!r} is neither an OrderOption nor a class that derives from TraversalOrder")

    def _specs(self) -> Dict[str, PipelineSpec]:
        """The outputs' pipelines, in the order of a batch; the caller's lists stay as they are."""
        pipelines = self._arguments["pipelines"]
        if not isinstance(pipelines, _Mapping):
            raise ValueError(f"pipelines: is a dict of field names and lists of operations, not {type(pipelines).__name__}")
        given: Dict[str, Optional[PipelineSpec]] = {}
        for name, one in pipelines.items():
            if isinstance(one, PipelineSpec):
                one = PipelineSpec(one.source, one.decoder, one.transforms)
            elif one is not None and (isinstance(one, str) or not isinstance(one, Sequence)):
                raise ValueError(f"{name}: its pipeline is {type(one).__name__}; it is a list of operations, a PipelineSpec or None")
            elif one is not None:
                one = PipelineSpec(name, None, one)
            if name not in self.reader.handlers and not isinstance(pipelines[name], PipelineSpec):
                raise ValueError(f"{name}: {self.fname} has no such field; it has {', '.join(self.reader.handlers)}")
            given[name] = one
        names = [*self.reader.handlers, *(name for name in given if name not in self.reader.handlers)]
        specs = {name: given.get(name, PipelineSpec(name)) for name in names}
        for one in specs.values():
            if one is None:
                continue
            if one.default_pipeline:
                one.transforms.append(ToTensor())
            if one.decoder is None and one.transforms and isinstance(one.transforms[0], Decoder):
                one.decoder = one.transforms.pop(0)
            elif one.decoder is None and one.source in self.reader.handlers:
                one.decoder = self.reader.handlers[one.source].get_decoder_class()()
        return {name: one for name, one in specs.items() if one is not None}

    def _make_plans(self) -> None:
        self._plans = [Plan(name, one, self.reader) for name, one in self.pipeline_specs.items()]
        if not self._plans:
            raise ValueError("pipelines: leave a field to give batches of")
        devices = {one.device for one in self._plans if one.device is not None}
        if len(devices) > 1:
            raise ValueError(f"pipelines: ToDevice names {' and '.join(sorted(map(str, devices)))}; a Loader's batches go to one GPU")
        self._device = devices.pop() if devices else None
        self._pins = bool(torch.cuda.is_available())

    def _open_sets(self) -> List[_native.Set]:
        """A native set for each output that is an image; one of the rows alone where there is none."""
        a = self._arguments
        # Draws depend on the sample's number, or, where it may come again, on its place in the rank's epoch.
        repeats = not isinstance(self.order, OrderOption) or len(np.unique(self.indices)) < len(self.indices)
        common = {
            "source": self.fname,
            "batch_size": a["batch_size"],
            "num_workers": self._facts["num_workers"],
            "prefetch_factor": a["batches_ahead"],
            "drop_last": bool(a["drop_last"]),
            "ffcv_exact": bool(a["ffcv_exact"]),
            "order": "given",
            "positions": self._positions,
            "repeats": repeats,
            "whole_pages": isinstance(self.traversal_order, QuasiRandom),
            "rank": 0,
            "world_size": 1,
        }
        opened_with = self._image_options()
        plans = [one for one in self._plans if one.options is not None]
        sets = []
        for number, one in enumerate(opened_with):
            seed = self.seed % 2**62 + 1_000_003 * ((self._rank if repeats else 0) + number * self._ranks)
            try:
                sets.append(_native.Set(_loader._plain({**common, **one, "seed": seed})))
            except ValueError as error:
                raise ValueError(plans[number].in_its_words(str(error)) if plans else str(error)) from None
        self._opened_with = opened_with
        return sets

    def _image_options(self) -> List[Dict[str, Any]]:
        return [one.options for one in self._plans if one.options is not None] or [{"image_field": ""}]

    def _enter(self, sets: List[_native.Set]) -> None:
        """Begins with these sets, at the first epoch."""
        self._more = sets[1:]
        self._take(sets[0])
        self._describe()
        self.dataset = _loader._Dataset(self._facts)

    def _describe(self) -> None:
        """Facts of all ranks, which the native loader does not know of."""
        selection = repr((str(self.order), bool(self._arguments["drop_last"]), self.distributed))
        digest = hashlib.sha1(self.indices.tobytes() + selection.encode()).hexdigest()
        own = {"rank": self._rank, "world_size": self._ranks, "num_samples": len(self.indices), "seed": self.seed, "selection": digest}
        self._facts = {**self._facts, **own, "batch_size": int(self._arguments["batch_size"]) * self._ranks}

    def _ordered(self, epoch: int) -> Any:
        order = np.asarray(self.traversal_order.sample_order(epoch), np.int64)
        name = f"order: {type(self.traversal_order).__name__}.sample_order({epoch})"
        return sample_numbers(order, name, self.reader.num_samples)[: self._positions]

    # Attributes of FFCV's Loader.

    @property
    def next_epoch(self) -> int:
        """The epoch of the next iteration."""
        with self._lock:
            if self._chosen is not None:
                return self._chosen
            return self._position[0] + (0 if self._goes_on else 1)

    @next_epoch.setter
    def next_epoch(self, epoch: int) -> None:
        self.set_epoch(epoch)

    def next_traversal_order(self) -> Any:
        """The numbers of the samples of this rank's next epoch."""
        return self._ordered(self.next_epoch)

    def generate_code(self) -> None:
        """Does nothing: what decoders are given counts from the next iteration on."""

    def filter(self, field_name: str, condition: Callable[[Any], bool]) -> "Loader":
        """A Loader of the samples whose value of the field, as its pipeline gives it, meets the condition."""
        a = self._arguments
        if field_name not in self.reader.handlers:
            raise ValueError(f"{field_name}: {self.fname} has no such field; it has {', '.join(self.reader.handlers)}")
        others: Dict[str, Any] = dict.fromkeys(self.reader.handlers)
        del others[field_name]
        if field_name in a["pipelines"]:
            others[field_name] = a["pipelines"][field_name]
        only = {**a, "seed": self.seed, "pipelines": others, "order": OrderOption.SEQUENTIAL, "distributed": False, "drop_last": False}
        with Loader(**only) as loader:
            chosen = [bool(condition(value)) for (values,) in loader for value in values]
        return Loader(**{**a, "indices": self.indices[np.array(chosen, bool)]})

    # What composer_loader.Loader leaves open.

    def __repr__(self) -> str:
        return f"Loader({self.fname!r}, batch_size={self.batch_size}, order={self.order}, outputs: {', '.join(self.pipeline_specs)})"

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        if self._drawn is None or not isinstance(state, dict) or state.get("seed") == self.seed:
            return super().load_state_dict(state)
        super().load_state_dict({**state, "seed": self.seed})
        self._drawn = self.seed = _loader._whole("seed", state.get("seed"))
        self.traversal_order = self._order_of(self.order)
        self._reopen_sets()

    def __getstate__(self) -> Dict[str, Any]:
        return {**super().__getstate__(), "drawn": self._drawn}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self._drawn = state["drawn"]
        super().__setstate__(state)

    def __iter__(self) -> Iterator[Any]:
        if not self._closed and os.getpid() == self._pid:
            self._make_plans()
            if self._image_options() != self._opened_with:  # a decoder's output_size, say
                self._reopen_sets()
        return super().__iter__()

    def _reopen_sets(self) -> None:
        sets = self._open_sets()
        self._set, self._more, self._facts = sets[0], sets[1:], sets[0].facts
        self._describe()
        streams, self._streams = self._streams, []
        for one in streams:
            one.close()

    def _new_stream(self) -> _native.Stream:
        stream = super()._new_stream()
        stream.others = [one.stream() for one in self._more]
        return stream

    def _prepare(self, stream: _native.Stream, epoch: int) -> None:
        order = self._ordered(epoch)
        for one in (stream, *stream.others):
            one.set_order(epoch, order)
        stream.order = order

    def _parts(self, iteration: Any, batch: _native.Batch) -> Tuple[Any, ...]:
        samples = _loader._copied(batch.samples, (batch.shape[0],), np.int64)
        self._want_later(iteration)
        streams = iter((iteration.stream, *iteration.stream.others))
        parts = []
        for plan in self._plans:
            if plan.options is None:
                value = plan.decoder.read(self.reader, plan.field, samples)
            else:
                stream = next(streams)
                value = iteration._images(batch if stream is iteration.stream else iteration._next_of(stream), stream)
            value = _checked(plan.on_cpu, value, samples)
            if plan.device is not None and not value.is_pinned():
                value = value.pin_memory()
            parts.append(value)
        return tuple(parts)

    def _moved(self, parts: Tuple[Any, ...]) -> Tuple[Any, ...]:
        return tuple(
            part if plan.device is None else part.to(plan.device, non_blocking=True) for plan, part in zip(self._plans, parts)
        )

    def _finished(self, parts: Tuple[Any, ...]) -> Tuple[Any, ...]:
        return tuple(_checked(plan.on_gpu, part) for plan, part in zip(self._plans, parts))

    def _want_later(self, iteration: Any) -> None:
        """Has the system read the values of the batch that comes `batches_ahead` later; before the first, of those in between."""
        size, ahead = self.batch_size, self.batches_ahead
        batch = iteration._fetched
        first = batch + 1 if batch == iteration._began else batch + ahead
        later = iteration.stream.order[first * size : (batch + ahead + 1) * size]
        for plan in self._plans:
            if plan.options is None and len(later):
                self.reader.want(plan.field, later)


def _checked(function: Callable[..., Any], *arguments: Any) -> Any:
    """The function's result. StopIteration would end the loop around the Loader."""
    try:
        return function(*arguments)
    except StopIteration as error:
        raise RuntimeError("an operation of the pipeline raised StopIteration") from error
