"""Compares a Loader's batches with those of expected.json: same_bytes.py FOLDER_OF_PACKAGES FOLDER."""

import json
import sys
import zlib

sys.path.insert(0, sys.argv[1])

import numpy as np
from composer_loader import Loader


def plain(batch):
    images, labels = batch
    rows = np.ascontiguousarray(images.transpose(0, 2, 3, 1))
    return [len(rows), zlib.crc32(rows.tobytes()), labels.tolist()]


for case in json.load(open(sys.argv[2] + "/expected.json")):
    def loader():
        return Loader(case["source"], framework="numpy", **case["words"])

    first = loader()
    batches, states = [], []
    for epoch in range(3):
        for batch in first:
            batches.append(plain(batch))
            states.append(first.state_dict())
    assert batches == case["batches"], (case["words"], case["source"], batches[:3], case["batches"][:3])
    assert len(batches) == 3 * len(first)

    # From any place on, as if nothing had been interrupted.
    for done in range(len(batches)):
        resumed = loader()
        resumed.load_state_dict(states[done])
        assert resumed.state_dict() == states[done]
        for batch in resumed:
            done += 1
            if done == len(batches):
                break
            assert plain(batch) == batches[done], (case["words"], done)
