#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <regex>
#include <sstream>

#include "data/datasets/image_folder.h"
#include "tests/data/pillow.h"
#include "tests/data/small_images.h"

using namespace composer;
using namespace composer::test;
using Catch::Matchers::Contains;

namespace {

std::string pixels_of(const std::string& bytes) {
  Image image;
  decode_image(bytes_of(bytes), image);
  return flat(image);
}

/// Compares all image files that the script leaves in its folder with Pillow. Where there is a file
/// NAME.rgb, that is what NAME must decode to.
void check_against_pillow(const std::string& script, size_t at_least) {
  if (!has_python()) {
    WARN("skipped: no Python environment");
    return;
  }
  const TemporaryFolder folder;
  REQUIRE(run_python(script, folder));
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    const auto ending = entry.path().extension();
    if (ending != ".py" && ending != ".rgb") files.push_back(entry.path().string());
  }
  CHECK(files.size() >= at_least);
  for (const auto& [file, by_pillow] : pillow(files)) {
    INFO(file);
    const std::string expected = fs::exists(file + ".rgb") ? read_bytes(file + ".rgb") : by_pillow;
    CHECK_THAT(expected.substr(0, 100), !Catch::StartsWith("error: "));
    CHECK_THAT(decoded(file).substr(0, 100), !Catch::StartsWith("error: "));
    CHECK((decoded(file) == expected));
  }
}

}  // namespace

TEST_CASE("every kind of PNG decodes as Pillow decodes it", "[data]") {
  check_against_pillow(R"(
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
)",
                       52);
}

TEST_CASE("GIF, WebP and PNM decode as Pillow decodes them", "[data]") {
  check_against_pillow(R"(
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
)",
                       30);
}

TEST_CASE("every kind of BMP decodes as Pillow decodes it", "[data]") {
  check_against_pillow(R"(
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
)",
                       57);
}

TEST_CASE("every kind of TIFF decodes as Pillow decodes it", "[data]") {
  check_against_pillow(R"(
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
)",
                       100);
}

TEST_CASE("small files of every format", "[data]") {
  std::map<std::string, std::string> pixels;
  for (const auto& [name, hexadecimal] : kSmallImages) {
    INFO(name);
    const std::string bytes = from_hexadecimal(hexadecimal);
    pixels[name] = pixels_of(bytes);
    CHECK_THAT(pixels[name], Catch::StartsWith("5 7\n"));
    Image image;
    for (size_t length = 0; length < bytes.size() - 12; ++length) {
      const std::string cut = bytes.substr(0, length);
      if (std::string(name).find("two frames") == std::string::npos || length < 82) {
        INFO("cut to " << length << " bytes");
        CHECK_THROWS_AS(decode_image(bytes_of(cut), image), RunError);
      }
    }
  }
  std::string expected = "5 7\n";
  for (int y = 0; y < 5; ++y) {
    for (int x = 0; x < 7; ++x) {
      for (const int value : {x * 36, y * 60, x * y * 9}) expected += static_cast<char>(value);
    }
  }
  CHECK(pixels["png"] == expected);
  CHECK(pixels["lossless webp"] == expected);
  for (const char* exact : {"bmp", "tiff", "tiff of four inks in planes", "tiff of 16 bits",
                            "tiff turned by 90 degrees"}) {
    INFO(exact);
    CHECK(pixels[exact] == expected);
  }
  for (const char* exact :
       {"gif", "bmp with runs", "bmp of 4 bits from the top", "tiff of one tile with a palette"}) {
    INFO(exact);
    CHECK(pixels[exact] == pixels["png with a palette"]);
  }
}

TEST_CASE("every format has small files, and an ending by which folders know its images",
          "[data]") {
  std::string formats = kImageFormats;
  for (char& c : formats) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  std::istringstream words(std::regex_replace(formats, std::regex(", | and "), " "));
  for (std::string word; words >> word;) {
    INFO(word);
    CHECK(has_image_name("image." + (word == "pnm" ? "ppm" : word)));
    if (word == "jpeg" || word == "pnm") continue;  // made by tests/data/make_jpeg.h, by hand
    CHECK(std::any_of(std::begin(kSmallImages), std::end(kSmallImages), [&](const auto& image) {
      return std::string(image.name).find(word) != std::string::npos;
    }));
  }
}

TEST_CASE("what a BMP or TIFF asks for is checked before memory is", "[data]") {
  const auto with = [](const char* name, size_t place, const std::string& bytes) {
    const auto* image =
        std::find_if(std::begin(kSmallImages), std::end(kSmallImages),
                     [&](const auto& one) { return one.name == std::string(name); });
    return from_hexadecimal(image->hexadecimal).replace(place, bytes.size(), bytes);
  };
  const std::string large = from_hexadecimal("00300000"), larger = from_hexadecimal("ffffff7f");
  const size_t width = 18, height = 22, bits = 28, compression = 30;
  CHECK_THROWS_WITH(pixels_of(with("bmp", width, large)), Contains("too early"));
  CHECK_THROWS_WITH(pixels_of(with("bmp", width, larger)), Contains("too many"));
  CHECK_THROWS_WITH(pixels_of(with("bmp", height, std::string(4, 0))), Contains("without pixels"));
  CHECK_THROWS_WITH(pixels_of(with("bmp", bits, "\5")), Contains("5 bits"));
  CHECK_THROWS_WITH(pixels_of(with("bmp", compression, "\4")), Contains("compression 4"));
  CHECK_THROWS_WITH(pixels_of(with("bmp", 14, "\5")), Contains("header of 5 bytes"));
  CHECK_THROWS_WITH(pixels_of(with("bmp with masks", 54, "\1")), Contains("do not lie together"));
  CHECK_THROWS_WITH(pixels_of(with("bmp with runs", height, large)), Contains("too early"));
  // A row that the runs leave out has colour 0, the first of the palette.
  const auto runs = with("bmp with runs", 0, "");
  const std::string first = runs.substr(54, 3);
  const auto empty = runs.substr(0, 54 + 8 * 4) + std::string("\0\1", 2);
  CHECK(pixels_of(empty).substr(4, 3) == std::string(first.rbegin(), first.rend()));

  const char* planes = "tiff of four inks in planes";
  const size_t first_value = 8 + 2 + 8;  // of the tags, which are 12 bytes each and ascend
  CHECK_THROWS_WITH(pixels_of(with(planes, first_value, large)), Contains("too early"));
  const std::string both = from_hexadecimal(
      "ffff0000"
      "0101030001000000"
      "ffff0000");
  CHECK_THROWS_WITH(pixels_of(with(planes, first_value, both)), Contains("too many"));
  const size_t compression_value = first_value + 3 * 12, photometric_value = first_value + 4 * 12;
  CHECK_THROWS_WITH(pixels_of(with(planes, compression_value, "\6")), Contains("old style"));
  CHECK_THROWS_WITH(pixels_of(with(planes, compression_value, "\xFE")),
                    Contains("compression 254"));
  CHECK_THROWS_WITH(pixels_of(with(planes, photometric_value, "\x08")),
                    Contains("interpretation 8"));
}

TEST_CASE("PNM by hand", "[data]") {
  const std::string white = "\xFF\xFF\xFF", black(3, '\0');
  CHECK(pixels_of("P1 3 1\n1 0#x\n1") == "1 3\n" + black + white + black);
  CHECK(pixels_of("P1\n2 2\n10\n01\n") == "2 2\n" + black + white + white + black);
  CHECK(pixels_of("P4 9 1\n\x80\x80") ==
        "1 9\n" + black + white + white + white + white + white + white + white + black);
  CHECK(pixels_of("P2 1 1 4 2") == "1 1\n\x80\x80\x80");
  CHECK(pixels_of("P3 1 1 255 1 2 3") == "1 1\n\x01\x02\x03");
  CHECK(pixels_of("P5 1 1 65535\n\x80\x01") == "1 1\n\x80\x80\x80");
  CHECK(pixels_of("P6 1 1 255\nabc") == "1 1\nabc");
  CHECK_THROWS_WITH(pixels_of("P6 1 1 255\nab"), Contains("too early"));
  CHECK_THROWS_WITH(pixels_of("P6 0 1 255\n"), Contains("without pixels"));
  CHECK_THROWS_WITH(pixels_of("P6 1 1 70000\nabc"), Contains("65535"));
  CHECK_THROWS_WITH(pixels_of("P6 1 x 255\nabc"), Contains("number"));
  CHECK_THROWS_WITH(pixels_of("P6 100000 100000 255\nabc"), Contains("too many"));
  CHECK_THROWS_WITH(pixels_of("P1 2 1 12"), Contains("bit"));
}
