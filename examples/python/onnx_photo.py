"""The classes of photographs, by a file of `composer export --format onnx --preprocessing resize
--probabilities` (or portable): python onnx_photo.py NET.onnx PHOTO..."""

import json
import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

if len(sys.argv) < 3:
    sys.exit(__doc__)
session = onnxruntime.InferenceSession(sys.argv[1])
if len(session.get_outputs()) < 2 or session.get_inputs()[0].shape[1] != "H":
    sys.exit(f"{sys.argv[1]}: export it with --preprocessing resize --probabilities")
about = json.loads(session.get_modelmeta().custom_metadata_map["network.json"])
mode = "RGB" if about["preparation"]["channels"] == 3 else "L"
for photo in sys.argv[2:]:
    image = ImageOps.exif_transpose(Image.open(photo)).convert(mode)
    pixels = np.asarray(image).reshape(1, image.height, image.width, -1)
    (shares,) = session.run(["probabilities"], {"images": pixels})[0]
    best = int(shares.argmax())
    print(f"{photo}\t{about['class_names'][best] if about['class_names'] else best}\t{shares[best]:.4f}")
