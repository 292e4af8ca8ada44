"""Leaves every kind of PNG in the working folder, for pictures_test.cpp."""
import random, struct, zlib
random.seed(1)
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
def packed(rows, bits):
    out = b""
    for row in rows:
        if bits == 16: out += b"\0" + b"".join(struct.pack(">H", v) for v in row)
        else:
            text = "".join(format(v, f"0{bits}b") for v in row)
            text += "0" * (-len(text) % 8)
            out += b"\0" + bytes(int(text[i:i + 8], 2) for i in range(0, len(text), 8))
    return out
passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
W, H = 19, 13
for colour, channels, depths in ((0, 1, (1, 2, 4, 8, 16)), (2, 3, (8, 16)), (3, 1, (1, 2, 4, 8)), (4, 2, (8, 16)), (6, 4, (8, 16))):
    for bits in depths:
        pixels = [[[random.randrange(1 << bits) for _ in range(channels)] for x in range(W)] for y in range(H)]
        for interlaced in (0, 1):
            for key in (0, 1):
                if key and colour in (4, 6): continue
                data = b""
                for x0, y0, dx, dy in passes if interlaced else [(0, 0, 1, 1)]:
                    rows = [[v for x in range(x0, W, dx) for v in pixels[y][x]] for y in range(y0, H, dy)]
                    if rows and rows[0]: data += packed(rows, bits)
                png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", W, H, bits, colour, 0, 0, interlaced))
                if colour == 3: png += chunk(b"PLTE", random.randbytes(3 << bits))
                if key: png += chunk(b"tRNS", bytes([0, 128, 255][:1 << bits]) if colour == 3 else b"".join(struct.pack(">H", v) for v in pixels[1][1]))
                png += chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")
                name = f"colour{colour}_bits{bits}_interlaced{interlaced}_key{key}.png"
                open(name, "wb").write(png)
                # Pillow clips 16-bit gray to 8 bits, where only the upper half makes sense.
                if colour == 0 and bits == 16:
                    open(name + ".rgb", "wb").write(b"%d %d\n" % (H, W) + bytes(p[0] >> 8 for row in pixels for p in row for _ in range(3)))
