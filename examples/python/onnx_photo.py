"""The classes of photographs, by a file of `composer export --format onnx --preprocessing resize
--probabilities`: python onnx_photo.py NET.onnx PHOTO..."""

import json
import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

session = onnxruntime.InferenceSession(sys.argv[1])
about = json.loads(session.get_modelmeta().custom_metadata_map["network.json"])
names = about.get("class_names") or None
for photo in sys.argv[2:]:
    image = ImageOps.exif_transpose(Image.open(photo)).convert("RGB")
    (shares,) = session.run(["probabilities"], {"images": np.asarray(image)[None]})[0]
    best = int(shares.argmax())
    print(f"{photo}\t{names[best] if names else best}\t{shares[best]:.4f}")
