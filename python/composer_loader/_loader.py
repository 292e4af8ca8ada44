"""The Loader."""

import atexit
import contextlib
import ctypes
import difflib
import importlib.util
import inspect
import json
import os
import sys
import threading
import weakref
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np

from . import _native

_Size = Union[int, Tuple[int, int]]
_DTYPES = {0: np.dtype(np.uint8), 1: np.dtype(np.float32), 2: np.dtype(np.int16), 3: np.dtype(np.float16)}
_BFLOAT16 = 2
_LAYOUTS = ("channels_last", "nchw", "nhwc")
_FRAMEWORKS = ("torch", "numpy", "jax")
# What other loaders' arguments are called here, or why there are none.
_ELSEWHERE = {
    "shuffle": 'order is "random" or "sequential"',
    "distributed": "rank and world_size are found, or given",
    "fname": "source is the first argument",
    "pipelines": 'pipeline is "train", "eval" or a dict of transforms; composer_loader takes no list of operations',
    **dict.fromkeys(("transform", "transforms"), 'pipeline is "train", "eval" or a dict of transforms'),
    "pin_memory": "batches are page-locked wherever PyTorch sees a GPU",
    "pin_memory_device": "batches are page-locked wherever PyTorch sees a GPU",
    "persistent_workers": "threads always live as long as the loader",
    "timeout": "a failed worker ends the wait by itself",
    "worker_init_fn": "workers are native threads, which run no Python",
    "multiprocessing_context": "workers are native threads",
    "generator": "seed decides the order and all random transforms",
    "collate_fn": "batches are made natively; change them in the loop",
    "sampler": "order, rows, rank and world_size choose the samples",
    "batch_sampler": "order, rows, rank and world_size choose the samples",
    "in_order": "batches always come in order",
    "batches_ahead": "prefetch_factor is the number of batches kept ready",
    "os_cache": "files are read through the system's cache",
    "train_batch_size": "batch_size is one rank's",
    "bs": "batch_size is one rank's",
    "indices": "rows are the samples that take part",
    "train": 'pipeline is "train" or "eval"',
    "is_train": 'pipeline is "train" or "eval"',
    "normalize": 'output="float32" normalises, with mean and std',
    "dtype": 'output is "uint8", "float32", "float16" or "bfloat16"',
    "interpolation": 'resize_filter is "triangle", "bicubic" or "area"',
    "crop_pct": "resize_size is the shorter side before an evaluation's crop",
    "scale": "random crops have 8 to 100 % of the area",
    "ratio": "random crops have a ratio from 3/4 to 4/3",
    **dict.fromkeys(("dataset", "root", "path", "datadir"), "source is the first argument"),
    **dict.fromkeys(("crop_size", "image_size", "input_size", "resolution"), "size is the images' height and width"),
    **dict.fromkeys(("recompile", "custom_fields", "loader", "target_transform"), "nothing takes its place"),
}


class UnknownArgument(ValueError, TypeError):
    pass


class _Dataset:
    """The samples that take part: what scripts ask a DataLoader's dataset for."""

    def __init__(self, facts: Dict[str, Any]) -> None:
        self._samples = int(facts["num_samples"])
        self.classes: List[str] = facts["class_names"]
        self.class_to_idx = {name: index for index, name in enumerate(self.classes)}

    def __len__(self) -> int:
        return self._samples

    def __repr__(self) -> str:
        return f"{self._samples} samples, classes: {', '.join(self.classes) or 'without names'}"


class _Sampler:
    """What DataLoader.sampler is to training loops: set_epoch() and a length."""

    def __init__(self, loader: "Loader") -> None:
        self._loader = weakref.proxy(loader)

    def set_epoch(self, epoch: int) -> None:
        self._loader.set_epoch(epoch)

    def __len__(self) -> int:
        return -(-self._loader.num_samples // self._loader.world_size)


class Loader:
    """An iterable of batches ``(images, labels)`` of an image set; each iteration is an epoch.

    Batch (epoch, batch) is a pure function of the arguments: threads, earlier iterations and the place a
    run was resumed at do not matter. Each iteration is the next epoch, from its first batch on, also after
    a loop that was broken off.

    Args:
        source: a ``.beton`` file of FFCV; a folder with a folder of images for each class, in train/ and
            val/ where there are these; tar files of WebDataset ("shard-{000..009}.tar", or their folder);
            a folder of MosaicML's shards (MDS); a list of images (.csv, .tsv, .jsonl); or a folder with
            CIFAR-10's binary files. ``s3://`` and ``https://`` addresses too.
        batch_size: images of this rank's batch.
        size: height and width of the images in pixels, 1 to 4096, or one number for both; or a function
            of the epoch (progressive resizing: training images are decoded smaller). It is asked for some
            epochs ahead, beyond a training's last too, and must return the same size each time. Default: 224; 32 where the images are
            32 x 32.
        pipeline: "train": a random crop of random shape, resized, and a random flip; of images of 32 x 32
            padding by 4, a random crop and a flip. "eval": the middle, 7/8 of the shorter side, resized.
            Or a dict to train with some of a recipe's ``transforms``: flip (0.5), cutout (0), brightness
            (0), contrast (0), saturation (0), grayscale (0), random_erasing (0), and, to pad and crop,
            padding (4), border ("fill", "reflect") and fill ([0, 0, 0]).
        order: "sequential", "random", "quasi_random" (windows of a file's pages, for files larger than
            memory) or "class_balanced". Default: "random" to train, "sequential" to evaluate.
        seed: of the order and of all random transforms, 0 or more. Two runs with one seed are alike.
        num_workers: threads that read and decode; 0: the calling thread. Default: up to 8, as the
            processors allow.
        prefetch_factor: batches kept ready, at least 1.
        drop_last: whether an epoch leaves out an incomplete last batch. Default: to train.
        rank, world_size: this process's place. Default: torch.distributed's where it is initialised when an
            iteration begins, else what torchrun, mpirun or srun say, else 0 of 1. Ranks get consecutive
            slices of the global batch.
        output: "uint8", or normalised "float32", "float16" or "bfloat16".
        layout: "channels_last": [N, C, H, W] with the channels last in memory; "nchw": the same,
            contiguous; "nhwc": [N, H, W, C]. Default: "channels_last", with JAX "nhwc".
        mean, std: of each channel, for values from 0 to 1. Default: ImageNet's; of images of 32 x 32
            CIFAR-10's.
        device: of PyTorch or JAX. A GPU of PyTorch's gets each batch by a stream of its own, one ahead.
        framework: "torch", "numpy" or "jax". Default: "torch" where it is installed, else "numpy".
        rows: the numbers of the samples that take part, "0-999,2000" or a sequence of them. The samples of a
            folder are numbered class by class.
        split: share of each class that is evaluated on and not trained on, or a dict with ``val`` (the share)
            and ``seed``: to train the loader gives one side, to evaluate the other. What is in val/ is not
            used.
        on_bad_sample: "error": BadSample; "skip": smaller batches; "replace": by the next good sample.
        crop_index: where it is kept what lets the loader decode only a JPEG's crop: "cache" (the user's
            cache folder), "beside" the data, or "off".
        index_dir: the folder of ``crop_index="cache"``.
        coefficient_cache: GB that the coefficients of JPEGs may take there, so that later epochs decode
            faster.
        views: training images that are made of each sample, in consecutive rows; a batch's size counts
            images.
        resize_size: to evaluate: length of the shorter side before the crop; -1: as it is. Default: 8/7
            of the size.
        resize_filter: "triangle" (torchvision's antialiased bilinear), "bicubic" (Pillow's) or "area" (FFCV's).
        ffcv_exact: the very pixels that FFCV gives.
        samples: whether batches have the samples' numbers too: ``(images, labels, samples)``;
            ``sample_name(number)`` is a sample's file.
        remote: a dict with endpoint_url, region, cache_dir and cache_limit (GB), of remote sources.

    A batch has images, uint8 [N, C, H, W] by default, and labels, int64 [N] (with JAX, int32), as the
    framework's arrays, on the CPU unless ``device`` says otherwise. N is ``batch_size``, or less: in an incomplete last batch, whose slices may be empty, and
    where samples are skipped.

    Raises:
        ValueError: an argument is wrong; the message names it and what would be right.
        FileNotFoundError, OSError: the source cannot be opened or read.
        BadSample: (in the loop) a sample cannot be read; the next ``next()`` goes on behind its batch.
        RuntimeError: (in the loop) not one sample of a batch to train on can be read.

    Attributes beside the properties: ``dataset`` (``len(dataset)`` samples, ``dataset.classes``,
    ``dataset.class_to_idx``) and ``sampler`` (``sampler.set_epoch()``).
    """

    _iteration: Callable[["Loader"], "_Batches"]
    _advice = '; on_bad_sample="skip" leaves such samples out, "replace" takes others'  # for BadSample

    def __init__(
        self,
        source: Union[str, "os.PathLike[str]"],
        batch_size: int,
        *,
        size: Union[None, _Size, Callable[[int], _Size]] = None,
        pipeline: Union[str, Dict[str, Any]] = "train",
        order: str = "auto",
        seed: int = 0,
        num_workers: Optional[int] = None,
        prefetch_factor: int = 2,
        drop_last: Optional[bool] = None,
        rank: Optional[int] = None,
        world_size: Optional[int] = None,
        output: str = "uint8",
        layout: Optional[str] = None,
        mean: Optional[Sequence[float]] = None,
        std: Optional[Sequence[float]] = None,
        device: Any = None,
        framework: Optional[str] = None,
        rows: Union[None, str, Sequence[int]] = None,
        split: Union[None, float, Dict[str, Any]] = None,
        on_bad_sample: str = "error",
        crop_index: str = "cache",
        index_dir: Union[None, str, "os.PathLike[str]"] = None,
        coefficient_cache: float = 0,
        views: int = 1,
        resize_size: Optional[int] = None,
        resize_filter: str = "triangle",
        ffcv_exact: bool = False,
        samples: bool = False,
        remote: Optional[Dict[str, Any]] = None,
        **unknown: Any,
    ) -> None:
        arguments = dict(locals())
        for name in unknown:
            raise UnknownArgument(_unknown_argument(name))
        del arguments["self"], arguments["unknown"]
        self._arguments: Dict[str, Any] = arguments
        self._open()

    def _open(self, place: Optional[Tuple[int, int]] = None) -> None:
        """place: rank and number of ranks, where they were found and not given."""
        a = self._arguments
        for key in ("source", "batch_size", "pipeline", "seed"):
            if a[key] is None:
                raise ValueError(f"{key}: must not be None")
        self._framework = _framework(a["framework"])
        self._torch = _import("torch") if self._framework == "torch" else None
        self._layout = a["layout"] or ("nhwc" if self._framework == "jax" else "channels_last")
        if self._layout not in _LAYOUTS:
            raise ValueError(f"layout: {a['layout']!r} is none of {', '.join(_LAYOUTS)}")
        if str(a["output"]).endswith("bfloat16") and self._framework == "numpy":
            raise ValueError('output: NumPy has no bfloat16; take "float32", or framework="torch" or "jax"')
        self._device = self._checked_device(a["device"])
        on_cpu = self._torch is None or (self._device is not None and self._device.type == "cpu")
        self._pins = not on_cpu and bool(self._torch.cuda.is_available())
        self._size_of = a["size"] if callable(a["size"]) else None
        options = {
            key: value
            for key, value in a.items()
            if value is not None and key not in ("layout", "device", "framework", "samples", "size", "split")
        }
        for key in ("source", "index_dir"):
            if key in options:
                options[key] = _path(key, options[key])
        if isinstance(a["rows"], range) and a["rows"].step == 1 and len(a["rows"]) > 0:
            options["rows"] = f"{a['rows'].start}-{a['rows'].stop - 1}"
        elif isinstance(a["rows"], (list, tuple, range, np.ndarray)):
            options["rows"] = ",".join(str(_whole("rows", one)) for one in a["rows"])
        if not isinstance(a["output"], str):  # a dtype
            options["output"] = getattr(a["output"], "__name__", str(a["output"])).rsplit(".")[-1]
        if a["split"] is not None:
            options["split"] = a["split"] if isinstance(a["split"], dict) else {"val": a["split"]}
        size = self._size_of(0) if self._size_of else a["size"]
        if size is not None:
            options["size"] = list(_pair(size))
        if self._size_of and a["pipeline"] == "eval":
            raise ValueError("size: a function of the epoch is for training; an evaluation has one size")
        options = _plain(options)
        self._find_ranks(options, place)
        self._take(_native.Set(options))

    def _take(self, opened: _native.Set) -> None:
        """Begins with this set, at the first epoch."""
        self._pid = os.getpid()
        self._set = opened
        self._facts = opened.facts
        self._streams: List[_native.Stream] = []  # idle ones, at most one
        self._lock = threading.RLock()
        self._position = (0, 0)  # of the batch after the last that was handed out
        self._chosen: Optional[int] = None  # the epoch that set_epoch() chose for the next iteration
        self._goes_on = True  # whether the next iteration begins there, rather than with the next epoch
        self._newest: Optional[int] = None  # the iteration whose batches count
        self._iterations = 0
        self._active: "weakref.WeakSet[_Batches]" = weakref.WeakSet()
        self._copies: Any = None  # the stream of copies to a GPU
        self._closed = False
        self.dataset = _Dataset(self._facts)
        self.sampler = _Sampler(self)
        self.batch_sampler = self.collate_fn = None
        with _loaders_lock:
            _loaders.add(self)

    def _checked_device(self, device: Any) -> Any:
        if device is None:
            return None
        if self._framework == "numpy":
            raise ValueError("device: NumPy's arrays are on the CPU; give framework=\"torch\" or \"jax\"")
        if self._torch is None:
            return _import("jax").devices(device)[0] if isinstance(device, str) else device
        return _torch_device(self._torch, device)

    def _find_ranks(self, options: Dict[str, Any], place: Optional[Tuple[int, int]]) -> None:
        """This process's place, where the arguments leave it open and the environment does not tell it."""
        self._place_given = "rank" in options
        self._place_open = False
        if ("rank" in options) != ("world_size" in options):
            raise ValueError("rank and world_size: give both, or neither")
        if self._place_given:
            return
        distributed = _distributed()
        if place is None and distributed is not None:
            _compare_ranks(distributed, options)
            place = distributed.get_rank(), distributed.get_world_size()
        if place is None and "WORLD_SIZE" in os.environ and "RANK" not in os.environ:
            self._place_open = True  # as Lightning starts its ranks: torch.distributed will tell
            place = 0, 1
        if place is not None:
            options["rank"], options["world_size"] = place

    def _settle(self) -> None:
        """Takes the place that torch.distributed has meanwhile."""
        distributed = None if self._place_given else _distributed()
        if distributed is None:
            return
        place = distributed.get_rank(), distributed.get_world_size()
        if place == (self._facts["rank"], self._facts["world_size"]):
            return
        position, goes_on, chosen = self._position, self._goes_on, self._chosen
        self.close()
        self._open()
        if position[1] > 0:  # counted in batches of another size
            position, goes_on = (position[0] + 1, 0), True
        self._position, self._goes_on, self._chosen = position, goes_on, chosen

    # What a set is.

    @property
    def num_samples(self) -> int:
        """Samples that take part, of all ranks."""
        return int(self._facts["num_samples"])

    @property
    def num_classes(self) -> Optional[int]:
        """One more than the largest class; None where targets are numbers."""
        return self._facts["num_classes"]

    @property
    def class_names(self) -> List[str]:
        """The names of the classes in order; empty where the set has none."""
        return list(self._facts["class_names"])

    @property
    def batch_size(self) -> int:
        """Images of this rank's batch."""
        return int(self._arguments["batch_size"])

    @property
    def num_workers(self) -> int:
        """Threads that read and decode."""
        return int(self._facts["num_workers"])

    @property
    def drop_last(self) -> bool:
        """Whether an epoch leaves out an incomplete last batch."""
        return bool(self._facts["drop_last"])

    @property
    def pin_memory(self) -> bool:
        """Whether batches on the CPU are page-locked."""
        return self._pins

    @property
    def rank(self) -> int:
        """This process's rank."""
        self._settle()
        return int(self._facts["rank"])

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        self._settle()
        return int(self._facts["world_size"])

    def __len__(self) -> int:
        """Batches of an epoch, the same on every rank."""
        self._settle()
        return int(self._facts["batches"])

    def __repr__(self) -> str:
        height, width = self._facts["size"]
        others = "".join(
            f", {key}={value!r}"
            for key, value in self._arguments.items()
            if key not in ("source", "batch_size", "size", "rank", "world_size") and repr(value) != repr(_ARGUMENTS[key])
        )
        size = repr(self._size_of) if self._size_of else f"({height}, {width})"
        return (
            f"Loader({os.fspath(self._arguments['source'])!r}, batch_size={self.batch_size}, size={size}, "
            f"rank={self.rank}, world_size={self.world_size}{others})"
        )

    # Epochs and places in them.

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is this epoch; of an epoch that load_state_dict() loaded it goes on where that
        says. Without it, each iteration is the next epoch."""
        epoch = _whole("epoch", epoch)
        with self._lock:
            self._chosen = None if self._goes_on and self._position[0] == epoch else epoch

    def sample_name(self, number: int) -> str:
        """The file of a sample, or the file and the position in it. number: one of a batch's ``samples``."""
        return self._set.sample_name(_whole("number", number))

    def state_dict(self) -> Dict[str, Any]:
        """The place of the newest iteration: ``epoch`` and ``batch``, the number of batches it handed out;
        (epoch + 1, 0) after the last. It is the same on every rank."""
        with self._lock:
            epoch, batch = self._position
            if self._goes_on and self._chosen is not None:
                epoch, batch = self._chosen, 0
        facts = self._facts
        return {
            "epoch": epoch,
            "batch": batch,
            "seed": facts["seed"],
            "global_batch_size": facts["batch_size"],
            "num_samples": facts["num_samples"],
            "digest": facts["digest"],
            "selection": facts["selection"],
        }

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """The next batch, of the next ``iter()`` or of one that has handed out nothing yet, is the one
        after the state's. Another world_size may load it, at the same global batch size.

        Raises:
            ValueError: the state is of other data, of another order of samples, or no state.
        """
        self._settle()
        keys = self.state_dict().keys()
        missing = [key for key in keys if key not in state] if isinstance(state, dict) else keys
        if missing:
            raise ValueError(f"this is no state of a Loader: it has no {', '.join(missing)}")
        epoch, batch = _whole("epoch", state["epoch"]), _whole("batch", state["batch"])
        facts = self._facts
        if state["digest"] != facts["digest"]:
            raise ValueError(
                f"the state is of other data: {state['num_samples']} samples, and this Loader has {facts['num_samples']}, or their "
                "labels differ"
            )
        if state["selection"] != facts["selection"]:
            raise ValueError("the state is of other samples: order, rows, split, views or drop_last differ")
        for key, now in (("seed", facts["seed"]), ("global_batch_size", facts["batch_size"])):
            if state[key] != now:
                hint = "" if key == "seed" else ": batch_size times world_size has to stay"
                raise ValueError(f"{key}: the state has {state[key]}, this loader {now}{hint}")
        if batch > facts["batches"]:
            raise ValueError(f"batch: the state has {batch}, an epoch {facts['batches']}")
        with self._lock:
            self._position = (epoch + 1, 0) if batch == facts["batches"] else (epoch, batch)
            self._goes_on, self._newest, self._chosen = True, None, None

    def __iter__(self) -> Iterator[Any]:
        if self._closed:
            raise ValueError("this Loader is closed")
        if os.getpid() != self._pid:
            self._reopen()
        self._settle()
        if self._place_open and _distributed() is None:
            raise ValueError(
                "RANK: is not set, but WORLD_SIZE is; call torch.distributed.init_process_group() first, start the ranks "
                "with torchrun, srun or mpirun, or give rank and world_size"
            )
        return self._iteration(self)

    def close(self) -> None:
        """Ends the threads. Batches that were handed out stay valid; iterations end with an error."""
        self._closed = True
        if self._pid != _native._getpid():  # a forked child: the threads are its parent's
            return
        streams, self._streams = self._streams, []
        for one in _copy_of(self._active):
            if one.stream is not None:
                streams.append(one.stream)
        for stream in streams:
            stream.close()

    def __del__(self, _at_exit: Any = sys.is_finalizing) -> None:
        if hasattr(self, "_closed") and not _at_exit():
            self.close()

    def __enter__(self) -> "Loader":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # Pickled, and in a forked process: opened anew.

    def __getstate__(self) -> Dict[str, Any]:
        # A process of no ranks may hand its Loader to those of some.
        place = (self._facts["rank"], self._facts["world_size"])
        return {"arguments": self._arguments, "position": self._position, "goes_on": self._goes_on, "chosen": self._chosen,
                "closed": self._closed, "place": place if place[1] > 1 and not self._place_given else None}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self._arguments = state["arguments"]
        self._open(state["place"])
        self._position, self._goes_on, self._chosen = state["position"], state["goes_on"], state["chosen"]
        self._closed = state["closed"]

    def _reopen(self) -> None:
        """In a forked child, which has no threads: what the parent opened is left to it."""
        self.__setstate__(self.__getstate__())

    # For iterations.

    def _begin(self, iteration: int) -> Tuple[_native.Stream, Tuple[int, int]]:
        """A stream for a new iteration, and the epoch and batch where it begins."""
        with self._lock:
            epoch, batch = self._position if self._goes_on else (self._position[0] + 1, 0)
            if self._chosen is not None:
                epoch, batch = self._chosen, 0
            stream = self._streams.pop() if self._streams else self._new_stream()
            try:
                if self._closed:
                    raise ValueError("this Loader is closed")
                self._prepare(stream, epoch)
            except BaseException:
                self._leave(stream)
                raise
            self._position, self._goes_on, self._newest, self._chosen = (epoch, batch), False, iteration, None
        return stream, (epoch, batch)

    def _new_stream(self) -> _native.Stream:
        stream = self._set.stream()
        stream.of = self._set
        return stream

    def _prepare(self, stream: _native.Stream, epoch: int) -> None:
        """Tells a stream what it needs to know of an epoch that it is about to begin."""
        if self._size_of:
            for one in range(epoch, epoch + int(self._facts["prefetch_factor"]) + 2):
                stream.set_size(one, *_pair(self._size_of(one)))

    def _parts(self, iteration: "_Batches", batch: _native.Batch) -> Tuple[Any, ...]:
        """What is handed out for a stream's batch, on the CPU."""
        count = batch.shape[0]
        if batch.num_values:
            parts = [_copied(batch.values, (count, batch.num_values), np.float32)]
        else:
            parts = [_copied(batch.classes, (count,), np.int64)]
        if self._arguments["samples"]:
            parts.append(_copied(batch.samples, (count,), np.int64))
        if self._torch is not None:
            parts = [self._torch.from_numpy(part) for part in parts]
            if self.pin_memory:
                parts = [part.pin_memory() for part in parts]
        elif self._framework == "jax":
            parts = [_to_jax(part, self._device) for part in parts]
        return (iteration._images(batch, iteration.stream), *parts)

    def _moved(self, parts: Tuple[Any, ...]) -> Tuple[Any, ...]:
        """The parts on the GPU."""
        return tuple(part.to(self._device, non_blocking=True) for part in parts)

    def _finished(self, parts: Tuple[Any, ...]) -> Tuple[Any, ...]:
        """The batch of these parts."""
        return parts

    def _handed_out(self, iteration: int, epoch: int, batch: int) -> None:
        with self._lock:
            if self._newest != iteration:
                return
            last = batch == self._facts["batches"]
            self._position, self._goes_on = ((epoch + 1, 0), True) if last else ((epoch, batch), False)

    def _leave(self, stream: _native.Stream) -> None:
        """Keeps a stream for the next iteration; others are closed. Finalizers call it: it takes no lock."""
        if stream.of is not self._set:
            return stream.close()
        self._streams.append(stream)
        while len(self._streams) > (0 if self._closed else 1):
            try:
                extra = self._streams.pop(0)
            except IndexError:  # another thread took it
                return
            extra.close()


class _Batches:
    """One iteration. It takes its place in the order of epochs when it is first asked for a batch."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self.stream: Optional[_native.Stream] = None
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._number = 0
        self._epoch = self._batch = 0
        self._began = 0  # the epoch's batch where it began
        self._fetched = 0  # batches that came from the stream: on a GPU one more than were handed out
        self._ended = False
        self._ahead: List[Any] = []  # on the way to a GPU: a batch with its event, an error, or None at the end
        with loader._lock:
            loader._active.add(self)

    def __iter__(self) -> "_Batches":
        return self

    def __len__(self) -> int:
        return len(self.loader)

    def __next__(self) -> Any:
        if os.getpid() != self._pid:
            raise RuntimeError("this iteration's threads are in the process that began it: call iter() on the Loader here")
        with self._lock:
            if self._ended:
                raise StopIteration
            if self.loader._closed:
                raise ValueError("this Loader is closed")
            if self.stream is None:
                with self.loader._lock:
                    self.loader._iterations += 1
                    self._number = self.loader._iterations
                self.stream, (self._epoch, self._batch) = self.loader._begin(self._number)
                self._fetched = self._began = self._batch
            try:
                batch = self._from_gpu() if getattr(self.loader._device, "type", "") == "cuda" else self._fetch()
            except _native.BadSample:  # the next call goes on behind this batch
                self._count()
                raise
            if batch is None:
                self._end()
                raise StopIteration
            self._count()
            return self.loader._finished(batch)

    def _count(self) -> None:
        """One more batch was handed out, or is lost for a bad sample."""
        self._batch += 1
        self.loader._handed_out(self._number, self._epoch, self._batch)
        if self._batch == self.loader._facts["batches"]:
            try:
                if not self._ahead:
                    self._fetch()  # the end of the epoch, which is there at once
            finally:
                self._end()

    def _end(self) -> None:
        self._ended = True
        stream, self.stream = self.stream, None
        if stream is not None:
            self.loader._leave(stream)

    def __del__(self, _at_exit: Any = sys.is_finalizing) -> None:
        stream, self.stream = getattr(self, "stream", None), None
        if stream is not None and not _at_exit() and _native._getpid() == self._pid:
            self.loader._leave(stream)

    def _fetch(self) -> Any:
        """The next batch as the framework's arrays; None at the end of the epoch. A batch with a bad sample is passed over
        by the next call."""
        assert self.stream is not None
        try:
            batch = self._next_of(self.stream)
            if batch is None:
                return None
            parts = self.loader._parts(self, batch)
        except _native.BadSample as bad:
            self._fetched += 1
            raise _native.BadSample(str(bad) + self.loader._advice, bad.path, bad.index) from None
        self._fetched += 1
        return parts

    def _next_of(self, stream: _native.Stream) -> Optional[_native.Batch]:
        """The stream's batch of this place, also where an earlier one was broken off, or another iteration had the stream."""
        if stream.position != (self._epoch, self._fetched):
            stream.start(self._epoch, self._fetched)
        return stream.next()

    def _images(self, batch: _native.Batch, stream: Any) -> Any:
        loader, torch = self.loader, self.loader._torch
        shape = tuple(batch.shape)
        dtype = _DTYPES[batch.type]
        nbytes = int(np.prod(shape)) * dtype.itemsize
        pinned = stream.given.pop(batch.given, None)
        if loader.pin_memory and nbytes > 0:
            self._give_pinned(stream, nbytes)
        if pinned is not None:
            images = pinned[:nbytes].view(getattr(torch, str(dtype))).view(shape)
        else:
            array = _owned(batch, nbytes).view(dtype).reshape(shape)
            if torch is None:
                return self._other_images(array, batch.type)
            images = torch.from_numpy(array)
        if batch.type == _BFLOAT16:
            images = images.view(torch.bfloat16)
        if loader._layout != "nhwc":
            images = images.permute(0, 3, 1, 2)
        if loader._layout == "nchw":
            images = images.contiguous()
        return images.pin_memory() if loader.pin_memory and not images.is_pinned() else images

    def _other_images(self, array: Any, kind: int) -> Any:
        """NumPy's or JAX's array of NumPy's [N, H, W, C]."""
        if self.loader._layout != "nhwc":
            array = array.transpose(0, 3, 1, 2)
        if self.loader._layout == "nchw":
            array = np.ascontiguousarray(array)
        if self.loader._framework == "numpy":
            return array
        if kind == _BFLOAT16:
            array = array.view(_import("jax").numpy.bfloat16)
        return _to_jax(array, self.loader._device)

    def _give_pinned(self, stream: Any, nbytes: int) -> None:
        """Page-locked memory of PyTorch's own cache, as many blocks as batches can be on the way."""
        loader, torch = self.loader, self.loader._torch
        blocks = sum(one.numel() >= nbytes for one in stream.given.values())
        for _ in range(loader._facts["prefetch_factor"] + 3 - blocks):
            with torch.cuda.device(loader._device) if loader._device is not None else contextlib.nullcontext():
                memory = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)
            stream.give(memory, memory.data_ptr(), nbytes)

    def _from_gpu(self) -> Any:
        """The next batch on the GPU, while the one after it is copied by a stream of its own."""
        torch, device = self.loader._torch, self.loader._device
        if not self._ahead:
            self._copy_ahead()
        if self._ahead[0] is not None and len(self._ahead) == 1:
            self._copy_ahead()
        entry = self._ahead.pop(0)
        if entry is None:
            return None
        if isinstance(entry, Exception):
            raise entry
        batch, event = entry
        current = torch.cuda.current_stream(device)
        current.wait_event(event)
        for part in batch:
            if getattr(part, "is_cuda", False):
                part.record_stream(current)
        return batch

    def _copy_ahead(self) -> None:
        loader, torch = self.loader, self.loader._torch
        if loader._copies is None:
            loader._copies = torch.cuda.Stream(loader._device)
        try:
            batch = self._fetch()
        except Exception as error:  # for the call that would have got the batch
            self._ahead.append(error)
            return
        if batch is None:
            self._ahead.append(None)
            return
        with torch.cuda.stream(loader._copies):
            moved = loader._moved(batch)
            event = torch.cuda.Event()
            event.record(loader._copies)
        self._ahead.append((moved, event))


Loader._iteration = _Batches  # type: ignore[assignment]

# What may differ between the ranks: it changes no batch.
_OWN = ("num_workers", "prefetch_factor", "index_dir", "crop_index", "coefficient_cache", "remote")
_compared: Dict[str, int] = {}  # loaders of a source and pipeline


def _compare_ranks(distributed: Any, options: Dict[str, Any]) -> None:
    """Compares the options with those of the rank that came first, which it left in torch.distributed's store. No rank waits
    for another."""
    store = getattr(distributed.distributed_c10d, "_get_default_store", lambda: None)()
    if not hasattr(store, "compare_set"):
        return
    own = {key: value for key, value in options.items() if key not in _OWN}
    of = f"composer_loader/{own['source']}/{own.get('pipeline') == 'eval'}"
    _compared[of] = _compared.get(of, 0) + 1
    first = store.compare_set(f"{of}/{_compared[of]}", "", json.dumps({"rank": distributed.get_rank(), "options": own}))
    first = json.loads(first)
    for key in sorted({*own, *first["options"]}):
        if own.get(key) != first["options"].get(key):
            raise ValueError(
                f"{key}: rank {first['rank']} has {first['options'].get(key)!r}, and rank {distributed.get_rank()} "
                f"{own.get(key)!r}; all ranks need the same, or rank=0, world_size=1 for a Loader of one rank alone"
            )


_loaders: "weakref.WeakSet[Loader]" = weakref.WeakSet()
_loaders_lock = threading.RLock()
_ARGUMENTS = {name: one.default for name, one in inspect.signature(Loader.__init__).parameters.items()}


@atexit.register
def _close_all() -> None:
    for loader in _copy_of(_loaders):
        try:
            loader.close()
        except Exception:  # the others are closed nevertheless
            pass


def _copy_of(objects: Any) -> List[Any]:
    """The objects of a WeakSet, which other threads may change meanwhile."""
    while True:
        try:
            return list(objects)
        except RuntimeError:
            continue


def _distributed() -> Any:
    """torch.distributed where this process is a rank of it; PyTorch is not imported for it."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    return distributed if distributed and distributed.is_available() and distributed.is_initialized() else None


def _import(name: str) -> Any:
    return importlib.import_module(name)


def _torch_device(torch: Any, device: Any) -> Any:
    """The CPU, or a GPU that is there. Raises ValueError."""
    try:
        device = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device: {error}") from None
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"device: {device} is neither a CPU nor a GPU of CUDA; move the batches in the loop")
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise ValueError(f"device: {device} is asked for, and this PyTorch sees no GPU")
        if (device.index or 0) >= torch.cuda.device_count():
            raise ValueError(f"device: {device} is asked for, and there are {torch.cuda.device_count()} GPUs")
    return device


def _framework(name: Optional[str]) -> str:
    if name is None:
        return "torch" if importlib.util.find_spec("torch") else "numpy"
    if name not in _FRAMEWORKS:
        raise ValueError(f"framework: {name!r} is none of {', '.join(_FRAMEWORKS)}")
    if importlib.util.find_spec(name) is None:
        raise ValueError(f"framework: {name} is not installed")
    return name


def _unknown_argument(name: str) -> str:
    if name in _ELSEWHERE:
        return f"{name}: Loader has no such argument: {_ELSEWHERE[name]}"
    near = difflib.get_close_matches(name, [one for one in _ARGUMENTS if one not in ("self", "unknown")], 1)
    return f"{name}: Loader has no such argument" + (f"; did you mean {near[0]}?" if near else "")


def _pair(size: _Size) -> Tuple[int, int]:
    sides = tuple(size) if isinstance(size, (tuple, list, np.ndarray)) else (size, size)
    if len(sides) != 2:
        raise ValueError(f"size: {size!r} is neither one number nor height and width")
    return _whole("size", sides[0]), _whole("size", sides[1])


def _whole(key: str, value: Any) -> int:
    """The value as a whole number from 0 to 2^40."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and 0 <= value <= 1 << 40:
        return int(value)
    raise ValueError(f"{key}: {value!r} is no whole number from 0 on")


def _path(key: str, value: Any) -> str:
    try:
        path = os.fsdecode(value)
        path.encode()
    except TypeError:
        raise ValueError(f"{key}: {value!r} is no path") from None
    except UnicodeEncodeError:
        raise ValueError(f"{key}: {value!r} is not UTF-8") from None
    return path


def _plain(options: Dict[str, Any]) -> Dict[str, Any]:
    """NumPy's and PyTorch's numbers and arrays as Python's, for JSON."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {str(key): plain(one) for key, one in value.items()}
        if isinstance(value, (list, tuple)):
            return [plain(one) for one in value]
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        return value.tolist() if isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "detach") else value

    options = {key: plain(value) for key, value in options.items()}
    for key, value in options.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            raise ValueError(f"{key}: {value!r} is neither text nor numbers") from None
    return options


def _owned(batch: _native.Batch, nbytes: int) -> Any:
    """The images' bytes as a NumPy array, which keeps the batch."""
    if nbytes == 0:
        return np.empty(0, np.uint8)
    memory = (ctypes.c_uint8 * nbytes).from_address(batch.images)
    memory.batch = batch  # type: ignore[attr-defined]
    return np.frombuffer(memory, np.uint8)


def _copied(address: Optional[int], shape: Tuple[int, ...], dtype: Any) -> Any:
    """An array of its own: labels that a loop collects must not keep the images."""
    array = np.empty(shape, dtype)
    if array.nbytes:
        ctypes.memmove(array.ctypes.data, address, array.nbytes)
    return array


def _to_jax(array: Any, device: Any) -> Any:
    jax = _import("jax")
    return jax.numpy.asarray(array) if device is None else jax.device_put(array, device)
