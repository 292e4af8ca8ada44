// Reads little-endian numbers from bytes that may be damaged, and never reads beyond their end.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string_view>

namespace composer {

/// The bytes do not follow their format. The message says why, without the file's name.
class FormatError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const uint8_t> bytes, uint64_t position = 0) : bytes_(bytes) {
    take(position);
  }

  /// Takes the next `size` bytes. All functions throw FormatError when too few bytes are left.
  std::span<const uint8_t> take(uint64_t size) {
    if (size > bytes_.size() - position_) throw FormatError("cut off or damaged");
    const auto taken = bytes_.subspan(position_, size);
    position_ += size;
    return taken;
  }

  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }

  std::string_view text(uint64_t size) {
    const auto taken = take(size);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }

  /// Takes the text up to the next newline, and skips the newline.
  std::string_view line() {
    const size_t start = position_;
    while (number<char>() != '\n') {
    }
    return {reinterpret_cast<const char*>(bytes_.data()) + start, position_ - 1 - start};
  }

 private:
  std::span<const uint8_t> bytes_;
  size_t position_ = 0;
};

}  // namespace composer
