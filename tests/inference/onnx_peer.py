"""What ONNX Runtime and OpenVINO compute from ONNX files: python onnx_peer.py FOLDER

FOLDER has tensors.safetensors with "NAME.images" and "NAME.logits" for each file NAME.onnx.
peers.json is written beside them: NAME -> runtime -> the largest distance from the logits, as a
share of the largest logit, for one image and for all; and of the graph that ONNX Runtime makes,
how often each operator occurs."""

import collections
import json
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
import openvino
from safetensors.numpy import load_file

folder = pathlib.Path(sys.argv[1])
tensors = load_file(folder / "tensors.safetensors")
core = openvino.Core()


def onnx_runtime(path):
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda images: session.run(["logits"], {"images": images})[0]


def open_vino(path):
    model = core.compile_model(str(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return lambda images: model({"images": images})["logits"]


def distance(given, expected):
    assert given.shape == expected.shape
    return float(np.abs(given - expected).max() / np.abs(expected).max())


results = {}
for path in sorted(folder.glob("*.onnx")):
    onnx.checker.check_model(str(path), full_check=True)
    images, logits = (tensors[f"{path.stem}.{part}"] for part in ("images", "logits"))
    results[path.stem] = result = {}
    for name, load in (("onnxruntime", onnx_runtime), ("openvino", open_vino)):
        run = load(path)
        result[name] = [distance(run(images[:n]), logits[:n]) for n in (1, len(images))]
    nodes = onnx.load(folder / "optimized.onnx").graph.node
    result["operators"] = collections.Counter(node.op_type for node in nodes)
    (folder / "optimized.onnx").unlink()
(folder / "peers.json").write_text(json.dumps(results))
