#include "composer/logging/png.h"

#include <zlib.h>

#include <cerrno>
#include <fstream>
#include <limits>
#include <new>
#include <stdexcept>

#include "base/error.h"
#include "base/files/atomic_file.h"

namespace composer {
namespace {

/// Filter "Sub": each byte is stored as the difference to the same channel of the pixel on the
/// left.
constexpr char sub_filter = 1;

void put_big_endian(std::string& out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xff);
}

void put_chunk(std::string& out, const char* type, const std::string& data) {
  put_big_endian(out, static_cast<uint32_t>(data.size()));
  const size_t begin = out.size();
  out += type;
  out += data;
  const auto* summed = reinterpret_cast<const Bytef*>(out.data() + begin);
  put_big_endian(out, static_cast<uint32_t>(crc32_z(0, summed, out.size() - begin)));
}

std::string filtered(size_t rows, size_t row_bytes, size_t channels,
                     std::span<const uint8_t> pixels) {
  std::string bytes;
  bytes.reserve(rows * (row_bytes + 1));
  for (size_t row = 0; row < rows; ++row) {
    const auto* line = pixels.data() + row * row_bytes;
    bytes += sub_filter;
    for (size_t i = 0; i < row_bytes; ++i)
      bytes += static_cast<char>(line[i] - (i < channels ? 0 : line[i - channels]));
  }
  return bytes;
}

std::string deflated(const std::string& bytes) {
  auto size = compressBound(static_cast<uLong>(bytes.size()));
  std::string packed(size, '\0');
  if (compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uLong>(bytes.size()),
                Z_DEFAULT_COMPRESSION) != Z_OK)
    throw std::bad_alloc();
  packed.resize(size);
  return packed;
}

}  // namespace

std::string png(int64_t height, int64_t width, int64_t channels, std::span<const uint8_t> pixels) {
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  const bool known = channels == 1 || channels == 3 || channels == 4;
  if (!known || height < 1 || width < 1 || height > most || width > most ||
      std::ssize(pixels) != height * width * channels)
    throw std::invalid_argument("png: " + std::to_string(pixels.size()) + " bytes for " +
                                std::to_string(height) + " x " + std::to_string(width) +
                                " pixels of " + std::to_string(channels) + " channels");
  constexpr char gray = 0, rgb = 2, rgb_and_opacity = 6;
  std::string header;
  put_big_endian(header, static_cast<uint32_t>(width));
  put_big_endian(header, static_cast<uint32_t>(height));
  header += '\x08';  // bits a channel
  header += channels == 1 ? gray : channels == 3 ? rgb : rgb_and_opacity;
  header.append(3, '\0');  // deflate, the usual filters, not interlaced

  std::string file = "\x89PNG\r\n\x1a\n";
  put_chunk(file, "IHDR", header);
  put_chunk(file, "IDAT",
            deflated(filtered(static_cast<size_t>(height), static_cast<size_t>(width * channels),
                              static_cast<size_t>(channels), pixels)));
  put_chunk(file, "IEND", "");
  return file;
}

void write_png(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream out(file, std::ios::binary);
  out << bytes;
  out.close();
  if (!out) throw RunError(cannot_be_written(file, errno));
}

}  // namespace composer
