#include "tests/fuzz/fuzz_targets.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/beton/beton.h"
#include "data/formats/decode.h"
#include "data/jpeg/coefficients_simd.h"
#include "data/jpeg/decoder.h"
#include "data/jpeg/header.h"
#include "data/jpeg/jpeg.h"
#include "data/jpeg/requantize.h"
#include "data/jpeg/transcode.h"
#include "tests/fuzz/memory_file.h"

namespace composer::test {
namespace {

using Bytes = std::span<const uint8_t>;

/// Runs it; refusals are fine.
template <class F>
bool accepted(F&& read) {
  try {
    read();
    return true;
  } catch (const RunError&) {
  } catch (const UserError&) {
  }
  return false;
}

void require(bool condition, const char* what) {
  if (!condition) throw std::logic_error(what);
}

/// Reads all pixels, so that a sanitizer sees where they lie.
uint64_t sum(const ImageView& view) {
  uint64_t sum = 0;
  for (int64_t y = 0; y < view.height; ++y) {
    for (int64_t x = 0; x < view.width * view.channels; ++x) sum += view.row(y)[x];
  }
  return sum;
}

uint64_t sum(Bytes bytes) {
  uint64_t sum = 0;
  constexpr size_t kPage = 4096;
  for (size_t at = 0; at < bytes.size(); at += kPage) sum += bytes[at];
  return bytes.empty() ? 0 : sum + bytes.back();
}

bool equal(const ImageView& a, const ImageView& b) {
  if (a.height != b.height || a.width != b.width || a.channels != b.channels) return false;
  for (int64_t y = 0; y < a.height; ++y) {
    if (!std::equal(a.row(y), a.row(y) + a.width * a.channels, b.row(y))) return false;
  }
  return true;
}

volatile uint64_t sink;

template <class Draw = JpegDraw>
Draw draw_of(Bytes input) {
  Draw draw;
  std::memcpy(&draw, input.data() + input.size() - sizeof draw, sizeof draw);
  return draw;
}

/// Cuts off and returns the last bytes of the input.
Bytes take_last(Bytes& input, uint32_t most) {
  const auto last = input.last(std::min<size_t>(most, input.size()));
  input = input.first(input.size() - last.size());
  return last;
}

/// Gives the rows of kept coefficients the checksums of what lies there.
void put_checksums(Bytes rows, std::vector<uint8_t>& table) {
  constexpr size_t head = 16, entry = 12;
  uint32_t begin = 0;
  for (size_t at = head; at + entry <= table.size(); at += entry) {
    uint32_t end;
    std::memcpy(&end, table.data() + at, sizeof end);
    if (end < begin || end > rows.size()) return;
    const uint64_t sum = coefficient_kernels().checksum(rows.subspan(begin, end - begin));
    std::memcpy(table.data() + at + sizeof end, &sum, sizeof sum);
    begin = end;
  }
}

Box region_of(const JpegDraw& draw, ImageSize size) {
  Box box;
  box.top = draw.top % size.height;
  box.left = draw.left % size.width;
  box.height = 1 + draw.height % (size.height - box.top);
  box.width = 1 + draw.width % (size.width - box.left);
  return box;
}

JpegRequest request_of(const JpegDraw& draw, ImageSize size) {
  return {region_of(draw, size), 1 << (draw.scale & 3),
          (draw.flags & JpegDraw::kFast) != 0 ? Dct::fast : Dct::accurate};
}

/// Without an index: what is recorded gives the same pixels again, and those of a whole decode.
void check_recording(JpegDecoder& decoder, Bytes stream, const JpegRequest& request) {
  std::vector<uint8_t> recorded;
  ImagePart part = decoder.decode(stream, request, {}, &recorded);
  Image first;
  first.resize(part.pixels.height, part.pixels.width, 3);
  for (int64_t y = 0; y < first.height; ++y) {
    std::copy_n(part.pixels.row(y), first.width * 3, first.row(y));
  }
  if (recorded.empty()) return;
  part = decoder.decode(stream, request, recorded);
  require(equal(part.pixels, first.view()), "the recorded index gives other pixels");
  if (request.scale > 1 || request.dct != Dct::accurate) return;
  const Box& box = part.box;
  Image whole;
  decode_jpeg(stream, whole);
  require(equal(whole.view().crop(box.top, box.left, box.height, box.width), first.view()),
          "a part has other pixels than the whole");
}

void read_row(const BetonFile& file, int64_t row, size_t field, int& images) {
  Image image;
  switch (file.fields()[field].type) {
    case BetonType::real:
      sink = sink + static_cast<uint64_t>(file.real(row, field) > 0);
      break;
    case BetonType::integer:
      sink = sink + static_cast<uint64_t>(file.integer(row, field));
      break;
    case BetonType::image: {
      const BetonImage stored = file.image(row, field);
      sink = sink + sum(stored.bytes);
      constexpr int kMostImages = 4;
      if (!stored.jpeg) {
        require(
            static_cast<int64_t>(stored.bytes.size()) == stored.size.height * stored.size.width * 3,
            "pixels of another size");
      } else if (images++ < kMostImages) {
        decode_jpeg(stored.bytes, image);
      }
      break;
    }
    case BetonType::custom:
      break;
    default:
      sink = sink + sum(file.bytes(row, field));
  }
  sink = sink + file.page(row, field);
}

}  // namespace

bool fuzz_decode_image(Bytes input) {
  Image image;
  std::string warnings;
  if (!accepted([&] { decode_image(input, image, &warnings); })) return false;
  require(image.height > 0 && image.width > 0 && image.height * image.width <= kMaxPixels,
          "a senseless size");
  sink = sink + sum(image.view());
  return true;
}

bool fuzz_jpeg_stream(Bytes input) {
  JpegHeader header;
  if (!accepted([&] { header = read_jpeg_header(input); })) return false;
  require(header.size.height > 0 && header.size.width > 0 &&
              header.size.height * header.size.width <= kMaxPixels,
          "a senseless size");
  accepted([&] { sink = sink + make_jpeg_index(input).size(); });
  accepted([&] {
    static thread_local JpegRequantizer requantizer;
    Image image;
    if (const auto made = requantizer.run(input, 90)) {
      require(read_jpeg_header(made->bytes).size == header.size, "requantized to another size");
      require(made->index == make_jpeg_index(made->bytes), "requantized with another index");
      decode_jpeg(made->bytes, image);
    }
  });
  accepted([&] {
    Image image;
    if (const auto stream = transcode_jpeg(first_jpeg(input), header.orientation)) {
      require(read_jpeg_header(*stream).size == header.upright_size(),
              "transcoded to another size");
      decode_jpeg(*stream, image);
    }
  });
  return true;
}

bool fuzz_jpeg_decoder(Bytes input) {
  if (input.size() < sizeof(JpegDraw)) return false;
  const JpegDraw draw = draw_of(input);
  input = input.first(input.size() - sizeof draw);
  const auto index = input.last(std::min<size_t>(draw.index_bytes, input.size()));
  const Bytes stream = input.first(input.size() - index.size());
  static thread_local JpegDecoder decoder;
  return accepted([&] {
    const ImageSize size = read_jpeg_header(stream).size;
    const JpegRequest request = request_of(draw, size);
    if (index.empty() && (draw.flags & JpegDraw::kRecord) != 0) {
      return check_recording(decoder, stream, request);
    }
    const ImagePart part = decoder.decode(stream, request, index);
    require(part.pixels.height == part.box.height && part.pixels.width == part.box.width,
            "the box does not fit the pixels");
    require(request.scale > 1 || part.box == request.region, "another region");
    sink = sink + sum(part.pixels);
  });
}

bool fuzz_kept_coefficients(Bytes input) {
  if (input.size() < sizeof(KeptDraw)) return false;
  const auto draw = draw_of<KeptDraw>(input);
  input = input.first(input.size() - sizeof draw);
  const auto rows = take_last(input, draw.row_bytes), given = take_last(input, draw.table_bytes);
  std::vector<uint8_t> table(given.begin(), given.end());
  put_checksums(rows, table);
  static thread_local JpegDecoder decoder;
  return accepted([&] {
    JpegKept kept;
    kept.table = table;
    kept.wanted = (draw.region.flags & JpegDraw::kRecord) != 0;
    kept.read = [&](uint64_t at, std::span<uint8_t> to) {
      if (at > rows.size() || to.size() > rows.size() - at) return false;
      std::copy_n(rows.data() + at, to.size(), to.data());
      return true;
    };
    const JpegRequest request = request_of(draw.region, read_jpeg_header(input).size);
    const ImagePart part = decoder.decode(input, request, {}, nullptr, nullptr, &kept);
    require(request.scale > 1 || part.box == request.region, "another region");
    sink = sink + sum(part.pixels) + (kept.made ? sum(kept.made_rows) : 0);
  });
}

bool fuzz_beton(Bytes input) {
  static thread_local const MemoryFile memory;
  memory.set(input);
  return accepted([&] {
    const BetonFile file(memory.path());
    int images = 0;
    for (int64_t row = 0; row < file.samples(); ++row) {
      for (size_t field = 0; field < file.fields().size(); ++field) {
        accepted([&] { read_row(file, row, field, images); });
      }
    }
  });
}

}  // namespace composer::test
