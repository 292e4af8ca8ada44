"""What other libraries make of exported networks, held against the logits that are beside them.

peer.py torchscript FOLDER          every NAME.pt by torch.jit.load, against NAME.safetensors
peer.py torchvision|timm FOLDER     every folder NAME (model.safetensors, loaded strictly into the library's network of that
                                    name), against NAME.safetensors
peer.py names NAME...               prints what timm calls the tensors of these networks: NAME TENSOR SHAPE, a line each
Fails where one is more than 1e-4 of the largest logit away."""
import json
import pathlib
import sys

import numpy
import torch


def read(path):
    """The tensors of a .safetensors file, by the format's description, not by the package."""
    data = pathlib.Path(path).read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    types = {"F32": numpy.float32, "I64": numpy.int64}
    tensors = {}
    for name, entry in json.loads(data[8:begin]).items():
        if name == "__metadata__":
            continue
        first, last = entry["data_offsets"]
        numbers = numpy.frombuffer(data[begin + first:begin + last], types[entry["dtype"]])
        tensors[name] = torch.from_numpy(numbers.reshape(entry["shape"]).copy())
    return tensors


def torchscript(path):
    extra = {"network.json": ""}
    module = torch.jit.load(path.with_suffix(".pt"), _extra_files=extra)
    assert json.loads(extra["network.json"])["format"] == "composer network"
    return module


HEAD_BIASES = ("fc.bias", "classifier.bias", "classifier.1.bias", "classifier.2.bias", "classifier.3.bias", "classifier.6.bias")


def library_network(create, path):
    tensors = read(path.with_suffix("") / "model.safetensors")
    classes = len(next(reversed([tensors[name] for name in sorted(tensors) if name.endswith(HEAD_BIASES)])))
    network = create(path.stem, num_classes=classes)
    network.load_state_dict(tensors, strict=True)
    return network.eval()


def torchvision(path):
    import torchvision.models
    return library_network(torchvision.models.get_model, path)


# What timm calls networks that it has under other names, and what makes them compute the same.
TIMM = {
    "mobilenet_v3_large": ("mobilenetv3_large_100", {"bn_eps": 1e-3}),
    "mobilenet_v3_small": ("mobilenetv3_small_100", {"bn_eps": 1e-3}),
}


def timm_network(name, **options):
    import timm
    theirs, more = TIMM.get(name, (name, {}))
    return timm.create_model(theirs, **options, **more)


def timm(path):
    return library_network(timm_network, path)


def print_names(networks):
    for network in networks:
        with torch.device("meta"):
            tensors = timm_network(network).state_dict()
        for name, tensor in tensors.items():
            print(network, name, "x".join(map(str, tensor.shape)) or "scalar")


def main():
    if sys.argv[1] == "names":
        return print_names(sys.argv[2:])
    load = {"torchscript": torchscript, "torchvision": torchvision, "timm": timm}[sys.argv[1]]
    questions = sorted(pathlib.Path(sys.argv[2]).glob("*.safetensors"))
    assert questions, "there is nothing to compare"
    failed = False
    for path in questions:
        question = read(path)
        network = load(path)
        for count in (1, len(question["images"])):
            expected = question["logits"][:count]
            with torch.no_grad():
                given = network(question["images"][:count])
            distance = ((given - expected).abs().max() / question["logits"].abs().max()).item()
            if not distance < 1e-4:
                print(f"{path.stem}, {count} images: {distance} away")
                failed = True
    sys.exit(failed)


if __name__ == "__main__":
    main()
