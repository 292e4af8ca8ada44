"""FFCV's DatasetWriter."""

import os
import tempfile
from collections.abc import Mapping as _Mapping
from typing import Any, Callable, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import torch

from .fields import Field, sample_numbers
from .reader import ALLOCATION, DESCRIPTOR, HEADER, metadata_type

__all__ = ["DatasetWriter"]

_NAME_BYTES = 16
_MOST_SAMPLES = 16  # of a chunk: each process has two of them in memory


class DatasetWriter:
    """Writes samples of Python, of any data set with ``[number]`` and ``len``, as a .beton file. Its processes are forked, so that
    a data set must open files when it is asked for a sample, not before: processes that share a handle read from wrong places.

    Args:
        fname: the file. It is complete or not there: it gets its name at the end.
        fields: names, at most 16 letters of ASCII, and fields, in the order of a sample's values.
        page_size: bytes that a sample's data must fit in, a power of two from 2 MiB below 4 GiB.
        num_workers: processes that take samples and encode them; below 1: one for each processor that this process may use.

    Raises:
        ValueError: an argument is wrong.
    """

    def __init__(self, fname: Any, fields: Mapping[str, Field], page_size: int = 1 << 23, num_workers: int = -1) -> None:
        if page_size != int(page_size) or int(page_size) & (int(page_size) - 1) or not 1 << 21 <= page_size < 1 << 32:
            raise ValueError(f"page_size: {page_size} is no power of two from 2 MiB below 4 GiB")
        if not isinstance(fields, _Mapping) or not fields:
            raise ValueError("fields: is a dict of names and fields, with one at least")
        for name, field in fields.items():
            if not isinstance(field, Field):
                hint = ", with brackets behind it" if isinstance(field, type) else ""
                raise ValueError(f"fields: {name}: {field!r} is no field of composer_loader.ffcv.fields{hint}")
            if not name.isascii() or not name.isprintable() or not 0 < len(name) <= _NAME_BYTES:
                raise ValueError(f"fields: {name!r}: a name has 1 to 16 letters of ASCII")
        self.fname = os.path.realpath(fname)  # what a link leads to
        self.fields, self.page_size = dict(fields), int(page_size)
        self.num_workers = num_workers if num_workers > 0 else len(os.sched_getaffinity(0))
        self.metadata_type = metadata_type(list(self.fields.values()))

    def from_indexed_dataset(
        self, dataset: Any, indices: Optional[Sequence[int]] = None, chunksize: int = 100, shuffle_indices: bool = False
    ) -> None:
        """Row k of the file is ``dataset[indices[k]]``, a value for each field.

        Args:
            indices: default: all, in order.
            chunksize: samples that a process takes at a time, at most 16.
            shuffle_indices: draws the rows' order from NumPy's generator.

        Raises:
            ValueError: a sample does not fit the fields; the message names it.
            OSError: the file cannot be written. What the data set raises comes through, as PyTorch's DataLoader has it.
        """
        rows = np.arange(len(dataset)) if indices is None else sample_numbers(indices, "indices", len(dataset))
        self._check_place()
        if shuffle_indices:
            np.random.shuffle(rows)
        samples = _Encoded(dataset, self.fields, rows, min(max(1, chunksize), _MOST_SAMPLES))
        workers = min(self.num_workers, len(samples))
        loader = torch.utils.data.DataLoader(
            samples, batch_size=None, num_workers=workers if workers > 1 else 0, collate_fn=_as_it_is
        )
        chunks_of = iter(loader)
        try:
            self._write(chunks_of, rows)
        except BaseException:
            for worker in getattr(chunks_of, "_workers", []):  # else they are waited for when the iterator is collected
                worker.terminate()
            if hasattr(chunks_of, "_shutdown_workers"):
                chunks_of._shutdown_workers()
            raise

    def _check_place(self) -> None:
        folder = os.path.dirname(self.fname)
        if not os.path.isdir(folder):
            raise FileNotFoundError(f"{self.fname}: there is no folder {folder}")
        if os.path.exists(self.fname) and not os.path.isfile(self.fname):
            raise ValueError(f"fname: {self.fname!r} is no regular file")

    def from_webdataset(self, shards: List[str], pipeline: Callable[..., Any]) -> None:
        """Is not here: a Loader of composer_loader reads shards themselves."""
        raise NotImplementedError(
            "from_webdataset: composer_loader.Loader reads WebDataset's shards as they are, and `composer data write` makes a .beton file of them"
        )

    def _write(self, encoded: Any, rows: Any) -> None:
        header = np.zeros(1, HEADER)
        header["version"], header["num_fields"], header["page_size"], header["num_samples"] = 2, len(self.fields), self.page_size, len(rows)
        descriptors = np.zeros(len(self.fields), DESCRIPTOR)
        for one, (name, field) in zip(descriptors, self.fields.items()):
            one["type_id"] = field.type_id
            one["name"][: len(name)] = np.frombuffer(name.encode("ascii"), np.uint8)
            arguments = field.to_binary()
            one["arguments"][: len(arguments)] = np.frombuffer(arguments, np.uint8)
        metadata = np.zeros(len(rows), self.metadata_type)
        table = header.nbytes + descriptors.nbytes
        regions: List[Tuple[int, int, int]] = []
        folder, name = os.path.split(self.fname)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=name + ".", delete=False) as file:
            try:
                at = -(-(table + metadata.nbytes) // self.page_size) * self.page_size
                file.seek(at)
                row = 0
                for chunk in _with_progress(encoded, len(rows)):
                    for sample in chunk:
                        at = self._add(file, metadata, row, sample, at, regions, rows)
                        row += 1
                if row != len(rows):
                    raise RuntimeError(f"{self.fname}: {row} of {len(rows)} samples came")
                end = -(-at // self.page_size) * self.page_size if regions else table + metadata.nbytes
                file.truncate(end)
                file.seek(end)
                file.write(np.array(regions, ALLOCATION).tobytes())
                header["alloc_table_ptr"] = end
                file.seek(0)
                file.write(header.tobytes() + descriptors.tobytes() + metadata.tobytes())
                file.flush()
                os.fsync(file.fileno())
                umask = os.umask(0)
                os.umask(umask)
                os.chmod(file.name, 0o666 & ~umask)
                os.replace(file.name, self.fname)
            except BaseException:
                os.unlink(file.name)
                raise

    def _add(self, file: Any, metadata: Any, row: int, sample: Any, at: int, regions: Any, rows: Any) -> int:
        """Writes a sample's data, all in one page, and returns where the next begin."""
        size = sum(max(1, len(data)) for _, data in sample if data is not None)
        if size > self.page_size:
            raise ValueError(f"sample {rows[row]}: has {size} bytes, and a page {self.page_size}: give a larger page_size")
        if at // self.page_size != (at + max(size, 1) - 1) // self.page_size:
            at = -(-at // self.page_size) * self.page_size
            file.seek(at)
        for number, (field, (entry, data)) in enumerate(zip(self.fields.values(), sample)):
            metadata[f"f{number}"][row] = entry
            if data is None:
                continue
            # FFCV finds a region's size by its beginning, so that none may be empty.
            data = data or b"\0"
            column = metadata[f"f{number}"]
            (column[field.pointer] if field.pointer else column)[row] = at
            regions.append((row, at, len(data)))
            file.write(data)
            at += len(data)
        return at


class _Encoded(torch.utils.data.Dataset):
    """The samples' entries and data, a chunk at a time, for DataLoader's processes."""

    def __init__(self, dataset: Any, fields: Mapping[str, Field], rows: Any, chunksize: int) -> None:
        self.dataset, self.fields, self.rows, self.chunksize = dataset, fields, rows, chunksize

    def __len__(self) -> int:
        return -(-len(self.rows) // self.chunksize)

    def __getitem__(self, chunk: int) -> Any:
        first = chunk * self.chunksize
        return [self._encoded(int(number), row) for row, number in enumerate(self.rows[first : first + self.chunksize], first)]

    def _encoded(self, number: int, row: int) -> Any:
        try:
            sample = self.dataset[number]
        except StopIteration as error:  # DataLoader would take it for the end
            raise RuntimeError(f"sample {number}: the data set raised StopIteration") from error
        if isinstance(sample, _Mapping):  # Hugging Face's
            missing = [name for name in self.fields if name not in sample]
            if missing:
                raise ValueError(f"sample {number}: has no {', '.join(missing)}; it has {', '.join(map(str, sample))}")
            sample = [sample[name] for name in self.fields]
        # As with FFCV, values beyond the fields are left out.
        count = len(sample) if hasattr(sample, "__len__") and not isinstance(sample, (str, bytes)) else 0
        if count < len(self.fields):
            what = f"{type(sample).__name__} of {count} values" if count else type(sample).__name__
            raise ValueError(f"sample {number}: is {what}, not a tuple of {len(self.fields)}, one for each field")
        encoded = []
        for (name, field), value in zip(self.fields.items(), sample):
            try:
                encoded.append(field.encode(value, row))
            except (AttributeError, OverflowError, TypeError, ValueError) as error:
                raise ValueError(f"sample {number}: {name}: {error}") from None
        return encoded


def _as_it_is(chunk: Any) -> Any:
    return chunk


def _with_progress(chunks: Any, samples: int) -> Any:
    try:
        from tqdm import tqdm
    except ImportError:
        return chunks
    return _told(chunks, tqdm(total=samples))


def _told(chunks: Any, bar: Any) -> Any:
    with bar:
        for chunk in chunks:
            yield chunk
            bar.update(len(chunk))
