#include <catch2/catch.hpp>

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
  CHECK(pixels["gif"] == pixels["png with a palette"]);
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
