"""Leaves JPEG files of every orientation in the working folder, for pictures_test.cpp."""
from PIL import Image
image = Image.linear_gradient("L").resize((61, 37)).rotate(30)
image = Image.merge("RGB", (image, image.transpose(0), image.rotate(60)))
for i in range(1, 9):
    exif = Image.Exif()
    exif[0x0112] = i
    image.save(f"{i}.jpg", quality=95, exif=exif)
