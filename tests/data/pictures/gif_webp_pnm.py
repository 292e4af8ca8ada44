"""Leaves GIF, WebP and PNM files in the working folder, for pictures_test.cpp."""
from PIL import Image
gray = Image.linear_gradient("L").resize((77, 51)).rotate(30)
rgb = Image.merge("RGB", (gray, gray.transpose(0), gray.rotate(60)))
other = rgb.transpose(1)
for colours in (2, 7, 256):
    rgb.quantize(colours).save(f"{colours}.gif")
    rgb.quantize(colours).save(f"interlaced{colours}.gif", interlace=1)
gray.save("gray.gif")
rgb.quantize(16).save("frames.gif", save_all=True, append_images=[other.quantize(9)], transparency=5)
# A frame smaller than the screen, and one that reaches beyond it.
data = bytearray(open("7.gif", "rb").read())
for name, size in (("within", (99, 80)), ("beyond", (70, 20))):
    data[6:10] = size[0].to_bytes(2, "little") + size[1].to_bytes(2, "little")
    open(name + ".gif", "wb").write(data)
data = bytearray(open("frames.gif", "rb").read())
data[6:10] = b"\x60\0\x50\0"
open("transparent_border.gif", "wb").write(data)
rgba = rgb.copy()
rgba.putalpha(gray.rotate(45))
for name, image in (("rgb", rgb), ("rgba", rgba), ("gray", gray)):
    for quality in (10, 80):
        image.save(f"{name}{quality}.webp", quality=quality)
    image.save(f"{name}.webp", lossless=True)
rgb.save("frames.webp", save_all=True, append_images=[other], duration=50)
rgba.save("frames_rgba.webp", save_all=True, append_images=[other.convert("RGBA")], duration=50, lossless=True)
rgb.save("6.ppm")
gray.save("5.pgm")
gray.convert("1").save("4.pbm")
def text(kind, image, highest, values):
    head = f"P{kind}\n# a comment\n{image.width} {image.height} # another\n" + (f"{highest}\n" if highest else "")
    open(f"{kind}_{highest}.pnm", "w").write(head + " ".join(map(str, values)) + "\n")
flat = lambda image: list(image.tobytes())
text(1, gray, 0, [v & 1 for v in flat(gray)])
for highest in (255, 100):
    text(2, gray, highest, [v * highest // 255 for v in flat(gray)])
    text(3, rgb, highest, [v * highest // 255 for v in flat(rgb)])
    for kind, image in (5, gray), (6, rgb):
        values = bytes(v * highest // 255 for v in flat(image))
        open(f"{kind}_{highest}.pnm", "wb").write(b"P%d %d %d %d\n" % (kind, image.width, image.height, highest) + values)
open("6_1000.pnm", "wb").write(b"P6 77 51 1000\n" + b"".join((v * 1000 // 255).to_bytes(2, "big") for v in flat(rgb)))
