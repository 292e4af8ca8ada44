"""The tables of a .beton file: header, fields and rows."""

import mmap
import os
from typing import Any, Dict, List, Mapping, Optional

import numpy as np

from .fields import FIELDS, Field

__all__ = ["Reader"]

HEADER = np.dtype(
    [("version", "<u2"), ("num_fields", "<u2"), ("page_size", "<u4"), ("num_samples", "<u8"), ("alloc_table_ptr", "<u8")]
)
DESCRIPTOR = np.dtype([("type_id", "<u1"), ("name", "<u1", 16), ("arguments", "<u1", 1024)])
ALLOCATION = np.dtype([("sample_id", "<u8"), ("ptr", "<u8"), ("size", "<u8")])


def metadata_type(fields: List[Any]) -> Any:
    """The type of a row: f0, f1, ... of each field."""
    return np.dtype([(f"f{i}", field.metadata_type) for i, field in enumerate(fields)], align=True)


class Reader:
    """The tables of the file.

    Attributes:
        num_samples: rows.
        field_names: in the file's order.
        handlers: a Field for each name; None for a type of the writer's own without an entry in ``custom_handlers``.
        metadata: the rows, a structured array with a column for each field, f0, f1, ...
        alloc_table: sample_id, ptr and size of each region of data.

    Raises:
        FileNotFoundError, OSError: there is no such file, or it cannot be read.
        ValueError: it is no .beton file of version 2, or it is cut off.
    """

    def __init__(self, fname: Any, custom_handlers: Optional[Mapping[str, Any]] = None) -> None:
        self._fname = os.fspath(fname)
        self._mapping: Optional[mmap.mmap] = None  # of the whole file, once it is needed
        if "://" in self._fname:
            raise ValueError(f"{self._fname}: composer_loader.ffcv reads local files; composer_loader.Loader reads from stores too")
        header = self._table(HEADER, 1, 0, "header")[0]
        if header["version"] != 2 or header["page_size"] & (header["page_size"] - 1) or not header["num_fields"]:
            raise ValueError(f"{self._fname}: is no .beton file of version 2")
        if header["alloc_table_ptr"] == 0:
            raise ValueError(f"{self._fname}: is unfinished: its writer was interrupted")
        self.header = header
        self.num_samples, self.num_fields = int(header["num_samples"]), int(header["num_fields"])
        self.page_size = int(header["page_size"])
        self.field_descriptors = self._table(DESCRIPTOR, self.num_fields, HEADER.itemsize, "fields")
        self.field_names = [bytes(one["name"]).split(b"\0")[0].decode("ascii", "replace") for one in self.field_descriptors]
        self.handlers: Dict[str, Optional[Field]] = {}
        for name, one in zip(self.field_names, self.field_descriptors):
            kind = FIELDS.get(int(one["type_id"])) or (custom_handlers or {}).get(name)
            try:
                self.handlers[name] = kind.from_binary(one["arguments"]) if kind is not None else None
            except (ValueError, TypeError, LookupError) as error:
                raise ValueError(f"{self._fname}: the field {name} is damaged: {error}") from None
        if None in self.handlers.values():
            name = next(name for name, one in self.handlers.items() if one is None)
            raise ValueError(f"{name}: is a field of {self._fname} of a type of its writer's own; custom_fields has no class for it")
        self.metadata_type = metadata_type(list(self.handlers.values()))
        begin = HEADER.itemsize + self.field_descriptors.nbytes
        self.metadata = self._table(self.metadata_type, self.num_samples, begin, "rows")

    @property
    def file_name(self) -> str:
        return self._fname

    @property
    def alloc_table(self) -> Any:
        begin = int(self.header["alloc_table_ptr"])
        return self._table(ALLOCATION, (os.path.getsize(self._fname) - begin) // ALLOCATION.itemsize, begin, "table of regions")

    def column(self, name: str) -> Any:
        """What the rows have of a field."""
        return self.metadata[f"f{self.field_names.index(name)}"]

    def want(self, name: str, samples: Any) -> None:
        """Has the system read these samples' data of a field, in the background."""
        field, column = self.handlers[name], self.column(name)
        if field is None or field.pointer is None:
            return
        rows = column[samples]
        begins = rows[field.pointer] if field.pointer else rows
        ends = begins + (rows["size"] if field.pointer else np.uint64(field.bytes))
        mapping = self._mapped()
        for begin, end in zip(begins.tolist(), ends.tolist()):
            begin -= begin % mmap.PAGESIZE
            if begin < end <= len(mapping):
                mapping.madvise(mmap.MADV_WILLNEED, begin, end - begin)

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_mapping": None}

    def pages(self) -> Any:
        """The page that each row's data lie in."""
        for name, field in self.handlers.items():
            if field is not None and field.pointer is not None:
                column = self.column(name)
                return (column[field.pointer] if field.pointer else column) // np.uint64(self.page_size)
        raise ValueError(f"order: QUASI_RANDOM needs pages, and {self._fname} has none: its fields are numbers")

    def region(self, name: str, pointer: Any, size: Any) -> Any:
        """The bytes of a field that lie there."""
        begin, end = int(pointer), int(pointer) + int(size)
        mapping = self._mapped()
        if end > len(mapping):
            raise ValueError(f"{self._fname}: is damaged: a row's {name} lies behind its end")
        return np.frombuffer(mapping, np.uint8)[begin:end]

    def _mapped(self) -> mmap.mmap:
        if self._mapping is None:
            with open(self._fname, "rb") as file:
                self._mapping = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        return self._mapping

    def _table(self, dtype: Any, count: int, begin: int, what: str) -> Any:
        if count < 0 or begin + count * dtype.itemsize > os.path.getsize(self._fname):
            raise ValueError(f"{self._fname}: is no .beton file, or cut off: its {what} end at byte {begin + count * dtype.itemsize}")
        table = np.fromfile(self._fname, dtype, count, offset=begin)
        table.setflags(write=False)
        return table
