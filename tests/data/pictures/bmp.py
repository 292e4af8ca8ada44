"""Leaves every kind of BMP in the working folder, for pictures_test.cpp."""
import random, struct
random.seed(1)
W, H = 19, 13
def bmp(name, header, bits, body, palette=b"", compression=0, masks=b"", height=H, colours=0, offset=None):
    if header == 12: info = struct.pack("<IHHHH", 12, W, height, 1, bits)
    else:
        info = struct.pack("<IiiHHIIiiII", header, W, height, 1, bits, compression, len(body), 0, 0, colours, 0)
        info = (info + (masks if header > 40 else b"")).ljust(header, b"\0") + (masks if header == 40 else b"")
    begin = 14 + len(info) + len(palette) if offset is None else offset
    open(name + ".bmp", "wb").write(b"BM" + struct.pack("<III", begin + len(body), 0, begin) + info + palette + body)
def rows(bits): return random.randbytes((W * bits + 31) // 32 * 4 * H)
def palette(count, each): return b"".join(random.randbytes(3) + b"\0" * (each - 3) for _ in range(count))
for bits in (1, 4, 8):
    bmp(f"core{bits}", 12, bits, rows(bits), palette(1 << bits, 3))
    for header in (40, 52, 56, 64, 108, 124):
        bmp(f"palette{bits}_{header}", header, bits, rows(bits), palette(1 << bits, 4))
bmp("few_colours", 40, 8, rows(8), palette(100, 4), colours=100)
bmp("wrong_offset", 40, 4, rows(4), palette(16, 4), offset=54)
bmp("core24", 12, 24, rows(24))
bmp("top_down", 40, 24, rows(24), height=-H)
bmp("top_down8", 40, 8, rows(8), palette(256, 4), height=-H)
for bits in (16, 24, 32): bmp(f"plain{bits}", 40, bits, rows(bits))
def masks(*m): return struct.pack("<%dI" % len(m), *m)
for header in (40, 52, 56, 108):
    bmp(f"565_{header}", header, 16, rows(16), compression=3, masks=masks(0xF800, 0x7E0, 0x1F))
    bmp(f"555_{header}", header, 16, rows(16), compression=3, masks=masks(0x7C00, 0x3E0, 0x1F))
    bmp(f"888_{header}", header, 32, rows(32), compression=3, masks=masks(0xFF0000, 0xFF00, 0xFF))
    bmp(f"shifted_{header}", header, 32, rows(32), compression=3, masks=masks(0xFF000000, 0xFF0000, 0xFF00))
for m in ((0xFF, 0xFF00, 0xFF0000, 0xFF000000), (0xFF0000, 0xFF00, 0xFF, 0xFF000000), (0xFF000000, 0xFF0000, 0xFF00, 0xFF)):
    bmp("alpha_%x" % m[0] + "_%x" % m[3], 108, 32, rows(32), compression=3, masks=masks(*m))
def runs(bits):
    out = b""
    for y in range(H):
        left = W
        while left:
            n = random.randint(1, min(left, 9))
            if random.random() < .5 or n < 3: out += bytes([n, random.randrange(256)])
            else:
                data = random.randbytes(n if bits == 8 else (n + 1) // 2)
                out += bytes([0, n]) + data + b"\0" * (len(data) % 2)
            left -= n
        out += b"\0\0"
    return out + b"\0\1"
for bits in (4, 8):
    bmp(f"runs{bits}", 40, bits, runs(bits), palette(1 << bits, 4), compression=3 - bits // 4 if bits == 4 else 1)
    bmp(f"runs{bits}_top_down", 40, bits, runs(bits), palette(1 << bits, 4), compression=2 if bits == 4 else 1, height=-H)
bmp("jumps", 40, 8, b"\4\7\0\2\3\2\5\11\0\0" + b"\0\2\0\7" + bytes([W, 3]) + b"\0\0" + bytes([W, 5]) + b"\0\0" + bytes([W, 8]) + b"\0\1", palette(256, 4), compression=1)
from PIL import Image
gray = Image.linear_gradient("L").resize((77, 51)).rotate(30)
rgb = Image.merge("RGB", (gray, gray.transpose(0), gray.rotate(60)))
for name, image in (("gray", gray), ("rgb", rgb), ("one", gray.convert("1")), ("p", rgb.quantize(50))): image.save(name + ".bmp")
