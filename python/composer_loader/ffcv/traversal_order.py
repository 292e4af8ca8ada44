"""The order in which an epoch visits the samples: FFCV's own, and what orders of one's own derive from."""

from typing import Any, Sequence

import numpy as np
from torch.utils.data import DistributedSampler

__all__ = ["QuasiRandom", "Random", "Sequential", "TraversalOrder"]


class TraversalOrder:
    """An order of one's own derives from this or from Random and has ``sample_order(epoch)``, which returns the numbers of
    this rank's samples: as many in each epoch. A sample may come several times."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self.indices: Any = loader.indices
        self.seed: int = loader.seed
        self.distributed: bool = loader.distributed
        self.sampler: Any = None

    def sample_order(self, epoch: int) -> Sequence[int]:
        raise NotImplementedError(f"{type(self).__name__}: has no sample_order(epoch)")


class _Own(TraversalOrder):
    shuffles = False

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        if self.distributed:
            self.sampler = DistributedSampler(self.indices, shuffle=self.shuffles, seed=self.seed, drop_last=False)

    def sample_order(self, epoch: int) -> Sequence[int]:
        if self.sampler is not None:
            self.sampler.set_epoch(epoch)
            return self.indices[np.fromiter(self.sampler, np.int64)]
        return np.random.default_rng(self.seed + epoch).permutation(self.indices) if self.shuffles else self.indices


class Sequential(_Own):
    """The indices as they are."""


class Random(_Own):
    """A permutation for each seed and epoch, FFCV's."""

    shuffles = True


class QuasiRandom(TraversalOrder):
    """Random within windows of 64 pages of the file, which come in random order: for files larger than the memory."""

    window = 64

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        if self.distributed:
            raise ValueError("order: QUASI_RANDOM is not for distributed=True, as in FFCV; take RANDOM")
        pages = loader.reader.pages()[self.indices]
        order = np.argsort(pages, kind="stable")
        self._pages = np.split(self.indices[order], np.flatnonzero(np.diff(pages[order])) + 1)

    def sample_order(self, epoch: int) -> Sequence[int]:
        random = np.random.default_rng((self.seed, epoch))
        pages = random.permutation(len(self._pages))
        windows = [pages[first : first + self.window] for first in range(0, len(pages), self.window)]
        return np.concatenate([random.permutation(np.concatenate([self._pages[page] for page in window])) for window in windows])
