#include <tiffio.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <vector>

#include "data/formats/formats.h"
#include "data/pixels/inks.h"
#include "data/pixels/orient.h"

namespace composer {
namespace {

constexpr FormatErrors kTiff{"TIFF"};

/// A TIFF file in memory, opened by libtiff, which holds this object's address. libtiff's errors
/// and warnings are collected here and not printed.
class TiffInput {
 public:
  explicit TiffInput(std::span<const uint8_t> file) : bytes(file) {
    constexpr auto kMostMemory = static_cast<tmsize_t>(4 * kMaxPixels);
    TIFFOpenOptions* const options = TIFFOpenOptionsAlloc();
    if (options != nullptr) {
      TIFFOpenOptionsSetErrorHandlerExtR(options, take_error, this);
      TIFFOpenOptionsSetWarningHandlerExtR(options, take_warning, this);
      TIFFOpenOptionsSetMaxSingleMemAlloc(options, kMostMemory);
      tiff =
          TIFFClientOpenExt("TIFF", "r", this, read, write, seek, close, size, map, unmap, options);
      TIFFOpenOptionsFree(options);
    }
    if (tiff == nullptr && error.empty()) error = "libtiff does not open it";
  }
  ~TiffInput() {
    if (tiff != nullptr) TIFFClose(tiff);
  }
  TiffInput(const TiffInput&) = delete;
  TiffInput& operator=(const TiffInput&) = delete;

  const std::span<const uint8_t> bytes;
  TIFF* tiff = nullptr;             ///< null when it cannot be opened: see error
  std::string error{}, warnings{};  ///< the first error; the warnings, one a line

 private:
  static TiffInput& of(void* handle) { return *static_cast<TiffInput*>(handle); }

  static std::string said(const char* format, va_list arguments) {
    char text[200];
    std::vsnprintf(text, sizeof text, format, arguments);
    return text;
  }

  // Callbacks of libtiff. An error handler that returns 1 keeps libtiff from printing.

  static int take_error(TIFF*, void* handle, const char*, const char* format, va_list arguments) {
    auto& error = of(handle).error;
    if (error.empty()) error = said(format, arguments);
    return 1;
  }

  static int take_warning(TIFF*, void* handle, const char*, const char* format, va_list arguments) {
    auto& warnings = of(handle).warnings;
    constexpr size_t kMost = 1000;
    if (warnings.size() < kMost) warnings += said(format, arguments) + '\n';
    return 1;
  }

  static tmsize_t read(thandle_t handle, void* to, tmsize_t count) {
    TiffInput& input = of(handle);
    if (input.position_ >= input.bytes.size() || count <= 0) return 0;
    const auto rest = input.bytes.subspan(input.position_);
    const size_t got = std::min(rest.size(), static_cast<size_t>(count));
    std::memcpy(to, rest.data(), got);
    input.position_ += got;
    return static_cast<tmsize_t>(got);
  }

  static tmsize_t write(thandle_t, void*, tmsize_t) { return 0; }

  static toff_t seek(thandle_t handle, toff_t offset, int from) {
    TiffInput& input = of(handle);
    const uint64_t base = from == SEEK_SET   ? 0
                          : from == SEEK_CUR ? input.position_
                                             : input.bytes.size();
    return input.position_ = base + offset;
  }

  static int close(thandle_t) { return 0; }

  static toff_t size(thandle_t handle) { return of(handle).bytes.size(); }

  static int map(thandle_t handle, void** base, toff_t* size) {
    const auto bytes = of(handle).bytes;
    *base =
        const_cast<uint8_t*>(bytes.data());  // libtiff does not write to a file opened for reading
    *size = bytes.size();
    return 1;
  }

  static void unmap(thandle_t, void*, toff_t) {}

  uint64_t position_ = 0;
};

/// The most bytes of a block of pixels (a strip or tile).
constexpr uint64_t kMostBlockBytes = uint64_t{4} * static_cast<uint64_t>(kMaxPixels);

uint16_t tag(TIFF* tiff, uint32_t name) {
  uint16_t value = 0;
  TIFFGetFieldDefaulted(tiff, name, &value);
  return value;
}

/// The most bytes of pixels that one byte of a file can give.
uint64_t most_repetition(uint16_t compression) {
  switch (compression) {
    case COMPRESSION_NONE:
      return 1;
    case COMPRESSION_PACKBITS:
      return 64;
    case COMPRESSION_LZW:
      return 4096;
    case COMPRESSION_DEFLATE:
    case COMPRESSION_ADOBE_DEFLATE:
      return 1032;
    default:
      return 1 << 16;
  }
}

/// The layout of the first image's pixels in the file.
struct Layout {
  uint32_t width = 0, height = 0;
  uint16_t bits = 1, samples = 1, photometric = PHOTOMETRIC_MINISWHITE, compression = 0;
  bool planes = false;  ///< each sample has blocks of its own; else a pixel's samples lie together
  bool tiles = false;
  uint32_t block_width = 0, block_height = 0;
  uint16_t colours = 1;        ///< samples without transparency
  bool premultiplied = false;  ///< the sample after the colours is premultiplied alpha

  bool by_libtiff() const {
    return photometric == PHOTOMETRIC_YCBCR && (compression != COMPRESSION_JPEG || planes);
  }
};

void check_kind(TIFF* tiff, Layout& layout) {
  if (layout.compression == COMPRESSION_OJPEG)
    kTiff.unsupported("JPEG compression of the old style");
  if (TIFFIsCODECConfigured(layout.compression) == 0)
    kTiff.unsupported("compression " + std::to_string(layout.compression));
  const uint16_t format = tag(tiff, TIFFTAG_SAMPLEFORMAT);
  if (format != SAMPLEFORMAT_UINT && format != SAMPLEFORMAT_VOID) {
    kTiff.unsupported(format == SAMPLEFORMAT_IEEEFP ? "samples of floating point"
                                                    : "signed samples");
  }
  constexpr uint16_t kDepths[] = {1, 2, 4, 8, 16};
  const bool palette = layout.photometric == PHOTOMETRIC_PALETTE;
  if (std::ranges::find(kDepths, layout.bits) == std::end(kDepths) ||
      (palette && layout.bits > 8)) {
    kTiff.unsupported(std::to_string(layout.bits) + " bits a sample" +
                      (palette ? " of a palette" : ""));
  }
  switch (layout.photometric) {
    case PHOTOMETRIC_MINISWHITE:
    case PHOTOMETRIC_MINISBLACK:
    case PHOTOMETRIC_PALETTE:
      layout.colours = 1;
      break;
    case PHOTOMETRIC_RGB:
    case PHOTOMETRIC_YCBCR:
      layout.colours = 3;
      break;
    case PHOTOMETRIC_SEPARATED:
      layout.colours = 4;
      break;
    default:
      kTiff.unsupported("photometric interpretation " + std::to_string(layout.photometric));
  }
  constexpr uint16_t kMostSamples = 16;
  if (layout.samples < layout.colours || layout.samples > kMostSamples)
    kTiff.unsupported(std::to_string(layout.samples) + " samples a pixel");
}

Layout read_layout(TIFF* tiff) {
  Layout layout;
  TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &layout.width);
  TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &layout.height);
  kTiff.check_size(layout.height, layout.width);
  layout.bits = tag(tiff, TIFFTAG_BITSPERSAMPLE);
  layout.samples = tag(tiff, TIFFTAG_SAMPLESPERPIXEL);
  layout.photometric = tag(tiff, TIFFTAG_PHOTOMETRIC);
  layout.compression = tag(tiff, TIFFTAG_COMPRESSION);
  layout.planes = tag(tiff, TIFFTAG_PLANARCONFIG) == PLANARCONFIG_SEPARATE && layout.samples > 1;
  check_kind(tiff, layout);
  if (layout.photometric == PHOTOMETRIC_YCBCR && !layout.by_libtiff())
    TIFFSetField(tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
  uint16_t extra = 0;
  uint16_t* kinds = nullptr;
  TIFFGetFieldDefaulted(tiff, TIFFTAG_EXTRASAMPLES, &extra, &kinds);
  layout.premultiplied = extra > 0 && kinds[0] == EXTRASAMPLE_ASSOCALPHA &&
                         layout.samples > layout.colours &&
                         (layout.colours == 3 || layout.photometric == PHOTOMETRIC_MINISBLACK);
  layout.tiles = TIFFIsTiled(tiff) != 0;
  layout.block_width = layout.width, layout.block_height = layout.height;
  if (layout.tiles) {
    TIFFGetField(tiff, TIFFTAG_TILEWIDTH, &layout.block_width);
    TIFFGetField(tiff, TIFFTAG_TILELENGTH, &layout.block_height);
  } else {
    uint32_t rows = layout.height;
    TIFFGetFieldDefaulted(tiff, TIFFTAG_ROWSPERSTRIP, &rows);
    layout.block_height = std::min(layout.height, rows);
  }
  if (layout.block_width == 0 || layout.block_height == 0)
    kTiff.refuse("strips or tiles without pixels");
  return layout;
}

/// Converts samples of a row to 8 bits. scaled: the largest value becomes 255; otherwise values
/// stay.
void unpack(const uint8_t* row, size_t count, uint16_t bits, bool scaled, uint8_t* out) {
  if (bits == 8) {
    std::memcpy(out, row, count);
  } else if (bits == 16) {
    for (size_t i = 0; i < count; ++i) {
      uint16_t value;
      std::memcpy(&value, row + 2 * i, sizeof value);
      out[i] = static_cast<uint8_t>(value >> 8);
    }
  } else {
    const size_t in_byte = 8U / bits;
    const unsigned most = (1U << bits) - 1, factor = scaled ? 255 / most : 1;
    for (size_t i = 0; i < count; ++i) {
      const size_t shift = 8 - bits * (i % in_byte + 1);
      out[i] = static_cast<uint8_t>((row[i / in_byte] >> shift & most) * factor);
    }
  }
}

/// Throws when the file is too short for this many bytes of pixels.
void check_promise(uint64_t bytes, const Layout& layout, const TiffInput& input) {
  if (bytes / most_repetition(layout.compression) > input.bytes.size())
    kTiff.refuse("the data end too early");
}

uint8_t without_alpha(uint8_t value, uint8_t alpha) {
  return alpha == 0 ? 0 : static_cast<uint8_t>(std::min(value * 255 / alpha, 255));
}

/// Decodes strips or tiles one after the other.
class Decoder {
 public:
  Decoder(TIFF* tiff, const TiffInput& input, const Layout& layout)
      : tiff_(tiff), input_(input), layout_(layout) {
    const uint64_t bytes = layout_.tiles ? TIFFTileSize64(tiff_) : TIFFStripSize64(tiff_);
    const uint64_t row = layout_.tiles ? TIFFTileRowSize64(tiff_) : TIFFScanlineSize64(tiff_);
    const uint64_t wanted = (uint64_t{layout_.block_width} * layout_.bits * together() + 7) / 8;
    if (bytes == 0 || bytes > kMostBlockBytes || row < wanted || bytes < row * layout_.block_height)
      kTiff.refuse("strips or tiles of " + std::to_string(bytes) + " bytes");
    // One plane for each sample that is used.
    planes_.resize(layout_.planes ? layout_.colours + (layout_.premultiplied ? 1U : 0U) : 1U);
    const uint64_t planes = layout_.planes ? layout_.colours : 1;
    const uint64_t image =
        uint64_t{layout_.width} * layout_.bits * together() / 8 * layout_.height * planes;
    // Tiles are stored whole, even when most of a tile lies outside of the image.
    const uint64_t blocks = layout_.tiles ? bytes * planes_.size() : 0;
    check_promise(std::max(image, blocks), layout_, input_);
    block_bytes_ = static_cast<size_t>(bytes), row_bytes_ = static_cast<size_t>(row);
    if (layout_.photometric == PHOTOMETRIC_PALETTE) read_palette();
  }

  void decode(Image& out) {
    for (uint32_t top = 0; top < layout_.height; top += layout_.block_height) {
      for (uint32_t left = 0; left < layout_.width; left += layout_.block_width) {
        const uint32_t height = std::min(layout_.block_height, layout_.height - top);
        read_block(top, left, height);
        if (top == 0 && left == 0) out.resize(layout_.height, layout_.width, 3);
        const uint32_t width = std::min(layout_.block_width, layout_.width - left);
        for (uint32_t y = 0; y < height; ++y)
          convert(gather(y, width), width, out.row(top + y) + size_t{3} * left);
        if (layout_.width - left <= layout_.block_width) break;  // avoids an overflow of the sum
      }
      if (layout_.height - top <= layout_.block_height) break;
    }
  }

 private:
  uint64_t together() const { return layout_.planes ? 1 : layout_.samples; }

  void read_palette() {
    uint16_t* channels[3] = {};
    if (TIFFGetField(tiff_, TIFFTAG_COLORMAP, &channels[0], &channels[1], &channels[2]) == 0)
      kTiff.refuse("there is no palette");
    for (size_t i = 0; i < size_t{1} << layout_.bits; ++i)
      for (size_t c = 0; c < 3; ++c) palette_[i][c] = static_cast<uint8_t>(channels[c][i] >> 8);
  }

  void read_block(uint32_t top, uint32_t left, uint32_t height) {
    for (uint16_t plane = 0; plane < planes_.size(); ++plane) {
      auto& bytes = planes_[plane];
      bytes.resize(block_bytes_);
      const auto room = static_cast<tmsize_t>(block_bytes_);
      const tmsize_t got =
          layout_.tiles ? TIFFReadEncodedTile(tiff_, TIFFComputeTile(tiff_, left, top, 0, plane),
                                              bytes.data(), room)
                        : TIFFReadEncodedStrip(tiff_, TIFFComputeStrip(tiff_, top, plane),
                                               bytes.data(), room);
      if (got < 0 || !input_.error.empty() || static_cast<size_t>(got) < height * row_bytes_)
        kTiff.refuse(input_.error.empty() ? "the data end too early" : input_.error);
    }
  }

  /// The samples of a block's row, interleaved by pixel.
  const uint8_t* gather(uint32_t y, uint32_t width) {
    const bool scaled = layout_.photometric != PHOTOMETRIC_PALETTE;
    const size_t offset = y * row_bytes_;
    samples_.resize(size_t{width} * layout_.samples);
    if (!layout_.planes) {
      unpack(planes_[0].data() + offset, samples_.size(), layout_.bits, scaled, samples_.data());
      return samples_.data();
    }
    plane_row_.resize(width);
    for (size_t plane = 0; plane < planes_.size(); ++plane) {
      unpack(planes_[plane].data() + offset, width, layout_.bits, scaled, plane_row_.data());
      for (size_t x = 0; x < width; ++x) samples_[x * layout_.samples + plane] = plane_row_[x];
    }
    return samples_.data();
  }

  void convert(const uint8_t* samples, uint32_t width, uint8_t* out) const {
    const size_t step = layout_.samples;
    if (layout_.photometric == PHOTOMETRIC_SEPARATED) {
      for (uint32_t x = 0; x < width; ++x) inks_to_rgb(samples + x * step, 1, out + size_t{3} * x);
      return;
    }
    const uint8_t inverted = layout_.photometric == PHOTOMETRIC_MINISWHITE ? 255 : 0;
    for (uint32_t x = 0; x < width; ++x, samples += step, out += 3) {
      if (layout_.photometric == PHOTOMETRIC_PALETTE) {
        std::copy(palette_[*samples].begin(), palette_[*samples].end(), out);
        continue;
      }
      for (size_t c = 0; c < 3; ++c) {
        const uint8_t value = samples[layout_.colours == 1 ? 0 : c];
        out[c] = layout_.premultiplied ? without_alpha(value, samples[layout_.colours])
                                       : static_cast<uint8_t>(value ^ inverted);
      }
    }
  }

  TIFF* tiff_;
  const TiffInput& input_;
  const Layout layout_;
  size_t block_bytes_ = 0, row_bytes_ = 0;
  std::vector<std::vector<uint8_t>> planes_;
  std::vector<uint8_t> samples_, plane_row_;
  std::array<std::array<uint8_t, 3>, 256> palette_{};
};

/// libtiff's own conversion to RGB, which supports subsampled colours.
class RgbaReader {
 public:
  RgbaReader(TIFF* tiff, const TiffInput& input) : input_(input) {
    char reason[1024] = "";
    if (TIFFRGBAImageOK(tiff, reason) == 0) kTiff.refuse(reason);
    if (TIFFRGBAImageBegin(&image_, tiff, 1, reason) == 0) kTiff.refuse(reason);
    image_.orientation = image_.req_orientation = ORIENTATION_TOPLEFT;
  }
  ~RgbaReader() { TIFFRGBAImageEnd(&image_); }
  RgbaReader(const RgbaReader&) = delete;
  RgbaReader& operator=(const RgbaReader&) = delete;

  void decode(const Layout& layout, Image& out) {
    check_promise(uint64_t{layout.width} * layout.height, layout, input_);
    std::vector<uint32_t> band;
    const auto band_rows = std::min<uint64_t>(layout.block_height, layout.height);
    for (uint64_t top = 0; top < layout.height; top += band_rows) {
      const auto rows = static_cast<uint32_t>(std::min(band_rows, layout.height - top));
      band.resize(size_t{rows} * layout.width);
      image_.row_offset = static_cast<int>(top);
      if (TIFFRGBAImageGet(&image_, band.data(), layout.width, rows) == 0 || !input_.error.empty())
        kTiff.refuse(input_.error.empty() ? "the data end too early" : input_.error);
      if (top == 0) out.resize(layout.height, layout.width, 3);
      uint8_t* pixel = out.row(static_cast<int64_t>(top));
      for (const uint32_t packed : band) {
        *pixel++ = static_cast<uint8_t>(TIFFGetR(packed));
        *pixel++ = static_cast<uint8_t>(TIFFGetG(packed));
        *pixel++ = static_cast<uint8_t>(TIFFGetB(packed));
      }
    }
  }

 private:
  const TiffInput& input_;
  TIFFRGBAImage image_{};
};

}  // namespace

void decode_tiff(std::span<const uint8_t> bytes, Image& out, std::string* warnings) {
  TiffInput input(bytes);
  TIFF* const tiff = input.tiff;
  if (tiff == nullptr) kTiff.refuse(input.error);
  const Layout layout = read_layout(tiff);
  input.error.clear(), input.warnings.clear();  // messages about tags
  if (layout.by_libtiff())
    RgbaReader(tiff, input).decode(layout, out);
  else
    Decoder(tiff, input, layout).decode(out);
  if (input.warnings.find("Premature end") != std::string::npos)
    kTiff.refuse("the data end too early");
  if (warnings != nullptr) *warnings += input.warnings;
  apply_orientation(out, tag(tiff, TIFFTAG_ORIENTATION));
}

}  // namespace composer
