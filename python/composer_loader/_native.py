"""The functions of libcomposer_loader.so (composer_loader.h), their errors as exceptions."""

import ctypes
import json
import logging
import os
import threading
from typing import Any, Optional, Tuple

_log = logging.getLogger("composer_loader")

END, BATCH, WAIT = 0, 1, 2
_BAD_ARGUMENT, _BAD_FILE, _NO_FILE, _BAD_SAMPLE, _NO_MEMORY = 1, 2, 3, 4, 5


class BadSample(RuntimeError):
    """A sample cannot be read, and ``on_bad_sample`` is ``"error"``.

    Attributes:
        path: the sample's file, or its file and its position in it.
        index: the sample's number in the set.
    """

    def __init__(self, message: str, path: str = "", index: int = -1) -> None:
        super().__init__(message, path, index)
        self.path = path
        self.index = index

    def __str__(self) -> str:
        return str(self.args[0])


class Batch(ctypes.Structure):
    """composer_batch: the images' memory is released with this object's last owner."""

    _fields_ = [
        ("images", ctypes.c_void_p),
        ("shape", ctypes.c_int64 * 4),
        ("type", ctypes.c_int32),
        ("given", ctypes.c_int64),
        ("classes", ctypes.c_void_p),
        ("values", ctypes.c_void_p),
        ("num_values", ctypes.c_int64),
        ("samples", ctypes.c_void_p),
        ("memory", ctypes.c_void_p),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._pid = os.getpid()

    def __del__(self) -> None:
        if self.memory and _release is not None and self._pid == _getpid():  # a forked child's memory is its parent's
            _release(ctypes.byref(self))


class _Error(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int32),
        ("message", ctypes.c_char_p),
        ("path", ctypes.c_char_p),
        ("index", ctypes.c_int64),
    ]


def _function(name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(_library, name)
    function.restype, function.argtypes = result, arguments
    return function


_library = ctypes.CDLL(os.path.join(os.path.dirname(__file__), "libcomposer_loader.so"))
_pointer, _number, _text = ctypes.c_void_p, ctypes.c_int64, ctypes.c_char_p
_error = _function("composer_loader_error", ctypes.POINTER(_Error))
_messages = _function("composer_loader_messages", _text)
_open = _function("composer_loader_open", _pointer, _text)
_describe = _function("composer_loader_describe", _text, _pointer)
_sample = _function("composer_loader_sample", _text, _pointer, _number)
_stream = _function("composer_loader_stream", _pointer, _pointer)
_close = _function("composer_loader_close", None, _pointer)
_size = _function("composer_stream_size", ctypes.c_int, _pointer, _number, _number, _number)
_start = _function("composer_stream_start", ctypes.c_int, _pointer, _number, _number)
_next = _function("composer_stream_next", ctypes.c_int, _pointer, _number, ctypes.POINTER(Batch))
_give = _function("composer_stream_give", None, _pointer, _pointer, _number, _number)
_order = _function("composer_stream_order", ctypes.c_int, _pointer, _number, _pointer, _number)
_close_stream = _function("composer_stream_close", None, _pointer)
_pack = _function("composer_image_pack", _pointer, _text, _pointer, _number, _number, _number)
_free_packed = _function("composer_image_release", None, _pointer)
_getpid = os.getpid
_release = _function("composer_batch_release", None, ctypes.POINTER(Batch))
__version__: str = _function("composer_loader_version", _text)().decode()


def log_messages() -> None:
    """Hands the library's messages to Python's logging, as "composer_loader"."""
    lines = _messages()
    if lines is not None:
        for level, line in json.loads(lines):
            _log.log(logging.WARNING if level == "warning" else logging.INFO, "%s", line)


def raise_error() -> None:
    """Raises the exception of this thread's last failed call."""
    error = _error().contents
    message, path = error.message.decode(errors="replace"), error.path.decode(errors="replace")
    kind, index = error.kind, error.index
    log_messages()
    if kind == _BAD_SAMPLE:
        raise BadSample(message, path, index)
    kinds = {_BAD_ARGUMENT: ValueError, _BAD_FILE: OSError, _NO_FILE: FileNotFoundError, _NO_MEMORY: MemoryError}
    raise kinds.get(kind, RuntimeError)(message)


class _Packed(ctypes.Structure):
    _fields_ = [
        ("bytes", ctypes.c_void_p),
        ("size", ctypes.c_int64),
        ("height", ctypes.c_int64),
        ("width", ctypes.c_int64),
        ("is_jpeg", ctypes.c_int32),
    ]


def pack_image(options: bytes, pixels: Any, row: int) -> Tuple[bool, int, int, bytes]:
    """Whether it is a JPEG, the height, the width and the bytes that a .beton file has of an image: composer_image_pack().
    pixels: uint8 [H, W, 3], contiguous."""
    packed = _pack(options, pixels.ctypes.data, pixels.shape[0], pixels.shape[1], row)
    if not packed:
        raise_error()
    try:
        image = _Packed.from_address(packed)
        return bool(image.is_jpeg), image.height, image.width, ctypes.string_at(image.bytes, image.size)
    finally:
        _free_packed(packed)


def _opened(text: bytes) -> int:
    handle = _open(text)
    if not handle:
        raise_error()
    return int(handle)


def _interruptible(function: Any, *arguments: Any) -> Any:
    """The function's result, or its exception, from a thread of its own: Ctrl-C ends the wait, as a store may be silent for
    minutes."""
    outcome: "list[Any]" = []

    def run() -> None:
        try:
            outcome.append((function(*arguments), None))
        except BaseException as error:
            outcome.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.05)
    result, error = outcome[0]
    if error is not None:
        raise error
    return result


class Stream:
    """A stream of batches: composer_stream. Its owner closes it. position: (epoch, batch) of the next batch; None: not
    known, as a call failed or was interrupted."""

    def __init__(self, handle: int) -> None:
        self.position: Optional[Tuple[int, int]] = None
        self.given: "dict[int, Any]" = {}  # the caller's memory that the library has now
        self.of: Optional[Set] = None  # the owner's set that it is of
        self.others: "list[Stream]" = []  # go along with this one
        self.order: Any = None  # that set_order() set, where the owner keeps it
        self._names = 0
        self._pid = os.getpid()
        self._lock = threading.Lock()  # held during calls
        self._closing = False
        self._handle: Optional[int] = handle

    def _call(self, function: Any, *arguments: Any) -> int:
        """The function's status. Raises its error, and ValueError once the stream is closed."""
        try:
            with self._lock:
                if self._closing:
                    raise ValueError("this Loader is closed")
                status = function(self._handle, *arguments)
                if status is not None and status < 0:
                    raise_error()
                return status
        finally:
            if self._closing:
                self.close()

    def start(self, epoch: int, batch: int) -> None:
        self.position = None
        self._call(_start, epoch, batch)
        self.position = (epoch, batch)

    def set_size(self, epoch: int, height: int, width: int) -> None:
        self._call(_size, epoch, height, width)

    def set_order(self, epoch: int, samples: Any) -> None:
        """samples: int64 [positions], contiguous."""
        self._call(_order, epoch, samples.ctypes.data, len(samples))

    def give(self, memory: Any, address: int, size: int) -> None:
        """Memory for a later batch, `size` bytes; it is kept alive."""
        self._names += 1
        self.given[self._names] = memory
        self._call(_give, address, size, self._names)

    def next(self) -> Optional[Batch]:
        """The next batch; None once at the end of an epoch. Ctrl-C ends the wait. Needs a known position."""
        assert self.position is not None
        (epoch, number), self.position = self.position, None
        batch = Batch()
        status = WAIT
        while status == WAIT:
            status = self._call(_next, 50, ctypes.byref(batch))
        log_messages()
        self.position = (epoch + 1, 0) if status == END else (epoch, number + 1)
        return batch if status == BATCH else None

    def close(self) -> None:
        """Ends the threads: now, or, where a call is under way, once it returns. It never waits for a lock, so that signal
        handlers and finalizers may call it."""
        self._closing = True
        for other in self.others:
            other.close()
        if self._pid != _getpid():  # a forked child has none of the threads, and must not wait for them
            return
        if self._lock.acquire(False):
            handle, self._handle = self._handle, None
            self._lock.release()
            if handle is not None:
                _close_stream(handle)
                self.given.clear()


class Set:
    """An opened set: composer_loader. facts: what composer_loader_describe() tells."""

    def __init__(self, options: "dict[str, Any]") -> None:
        text = json.dumps(options, ensure_ascii=False).encode()
        self._pid = os.getpid()
        self._handle: Optional[int] = None
        self._handle = _interruptible(_opened, text)
        log_messages()
        self.facts = json.loads(_describe(self._handle))

    def sample_name(self, index: int) -> str:
        name = _sample(self._handle, index)
        if name is None:
            raise_error()
        return str(name.decode(errors="replace"))

    def stream(self) -> Stream:
        handle = _stream(self._handle)
        if not handle:
            raise_error()
        return Stream(handle)

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle and _close is not None and self._pid == _getpid():
            _close(handle)
