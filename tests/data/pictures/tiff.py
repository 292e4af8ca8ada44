"""Leaves every kind of TIFF in the working folder, for pictures_test.cpp."""
import random, struct
from PIL import Image
random.seed(1)
W, H = 19, 13
gray = Image.linear_gradient("L").resize((77, 51)).rotate(30)
rgb = Image.merge("RGB", (gray, gray.transpose(0), gray.rotate(60)))
cmyk = Image.merge("CMYK", (gray, gray.transpose(0), gray.rotate(60), gray.rotate(90)))
rgba = rgb.copy(); rgba.putalpha(gray.rotate(45))
images = {"one": gray.convert("1"), "gray": gray, "la": rgba.convert("LA"), "p": rgb.quantize(50), "rgb": rgb, "rgba": rgba, "cmyk": cmyk}
for name, im in images.items():
    for c in (None, "packbits", "tiff_lzw", "tiff_adobe_deflate", "jpeg", "group3", "group4"):
        if c == "jpeg" and name not in ("gray", "rgb", "cmyk"): continue
        if c and c.startswith("group") and name != "one": continue
        im.save(f"{name}_{c}.tif", compression=c)
rgb.convert("YCbCr").save("ycc.tif", compression="jpeg")
for o in range(1, 9): rgb.save(f"turned{o}.tif", tiffinfo={274: o})
rgb.save("predicted.tif", compression="tiff_lzw", tiffinfo={317: 2})
rgb.save("pages.tif", save_all=True, append_images=[gray])
rgb.save("big.tif", big_tiff=True)
def tiff(name, w, h, photometric, bits, samples, data, order="<", planar=1, extra=None, tile=None, colours=None, format=1, fill=1, rps=None):
    tags = {256: ("I", [w]), 257: ("I", [h]), 258: ("H", [bits] * samples), 259: ("H", [1]), 262: ("H", [photometric]), 266: ("H", [fill]),
            277: ("H", [samples]), 284: ("H", [planar]), 339: ("H", [format] * samples)}
    if extra is not None: tags[338] = ("H", extra)
    if colours: tags[320] = ("H", colours)
    blocks = data if isinstance(data, list) else [data]
    if tile: tags[322], tags[323], off, cnt = ("I", [tile[0]]), ("I", [tile[1]]), 324, 325
    else: tags[278], off, cnt = ("I", [rps or h]), 273, 279
    body, at, places = b"".join(blocks), 8, []
    for b in blocks: places.append(at); at += len(b)
    tags[off], tags[cnt] = ("I", places), ("I", [len(b) for b in blocks])
    ifd = 8 + len(body) + len(body) % 2
    entries, later = b"", b""
    after = ifd + 2 + 12 * len(tags) + 4
    for t in sorted(tags):
        k, v = tags[t]
        raw = struct.pack(order + str(len(v)) + k, *v)
        if len(raw) > 4: value = struct.pack(order + "I", after + len(later)); later += raw + b"\0" * (len(raw) % 2)
        else: value = raw.ljust(4, b"\0")
        entries += struct.pack(order + "HHI", t, {"H": 3, "I": 4}[k], len(v)) + value
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", ifd)
    open(name + ".tif", "wb").write(head + body + b"\0" * (len(body) % 2) + struct.pack(order + "H", len(tags)) + entries + struct.pack(order + "I", 0) + later)
def noise(bits, samples, w=W, h=H): return random.randbytes((w * bits * samples + 7) // 8 * h)
for order in "<>":
    o = "le" if order == "<" else "be"
    for photo in (0, 1):
        for bits in (1, 2, 4, 8):
            tiff(f"g{photo}_{bits}_{o}", W, H, photo, bits, 1, noise(bits, 1), order)
            if (photo, bits) != (0, 8): tiff(f"fill{photo}_{bits}_{o}", W, H, photo, bits, 1, noise(bits, 1), order, fill=2)
    for bits in (8, 16):
        tiff(f"rgb{bits}_{o}", W, H, 2, bits, 3, noise(bits, 3), order)
        tiff(f"cmyk{bits}_{o}", W, H, 5, bits, 4, noise(bits, 4), order)
        for extra in ([0], [1], [2]): tiff(f"rgba{bits}_{extra[0]}_{o}", W, H, 2, bits, 4, noise(bits, 4), order, extra=extra)
    for bits in (1, 2, 4, 8): tiff(f"pal{bits}_{o}", W, H, 3, bits, 1, noise(bits, 1), order, colours=[random.randrange(65536) for _ in range(3 << bits)])
tiff("planes", W, H, 2, 8, 3, [noise(8, 1) for _ in range(3)], planar=2)
tiff("planes4", W, H, 2, 8, 4, [noise(8, 1) for _ in range(4)], planar=2, extra=[2])
tiff("strips", W, H, 2, 8, 3, [noise(8, 3, h=5), noise(8, 3, h=5), noise(8, 3, h=3)], rps=5)
tiff("tiles", W, H, 2, 8, 3, [noise(8, 3, 16, 16) for _ in range(2)], tile=(16, 16))
tiff("tiles_g", 40, 33, 1, 8, 1, [noise(8, 1, 16, 16) for _ in range(9)], tile=(16, 16))
deep = noise(16, 1)
tiff("gray16", W, H, 1, 16, 1, deep)
# Pillow clips 16-bit gray to 8 bits, where only the upper half makes sense.
open("gray16.tif.rgb", "wb").write(b"%d %d\n" % (H, W) + bytes(v for v in deep[1::2] for _ in range(3)))
tiff("la2", W, H, 1, 8, 2, noise(8, 2), extra=[2])
