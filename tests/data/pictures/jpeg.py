"""Leaves rare kinds of JPEG in the working folder, for pictures_test.cpp."""
from PIL import Image
gray = Image.linear_gradient("L").resize((77, 51)).rotate(30)
rgb = Image.merge("RGB", (gray, gray.transpose(0), gray.rotate(60)))
for name, subsampling in (("444", 0), ("422", 1), ("420", 2)):
    rgb.save(f"baseline_{name}.jpg", subsampling=subsampling)
    rgb.save(f"progressive_{name}.jpg", subsampling=subsampling, progressive=True)
    rgb.save(f"restarts_{name}.jpg", subsampling=subsampling, restart_marker_blocks=3)
gray.save("gray.jpg")
gray.save("gray_progressive.jpg", progressive=True)
cmyk = Image.merge("CMYK", (gray, gray.transpose(0), gray.rotate(60), gray.rotate(90)))
cmyk.save("cmyk.jpg")
rgb.save("kept_rgb.jpg", keep_rgb=True)
rgb.save("first.mpo", format="MPO", save_all=True, append_images=[gray.convert("RGB")])
# Adobe's inverted YCCK: the transform flag of APP14 says how the first three components are coded.
data = bytearray(open("cmyk.jpg", "rb").read())
at = data.index(b"Adobe")
data[at + 11] = 2
open("ycck.jpg", "wb").write(data)
