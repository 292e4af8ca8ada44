#include "data/shards/tar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string_view>

#include "base/files/byte_reader.h"

namespace composer {
namespace {

constexpr uint64_t kTarBlock = 512;
constexpr uint64_t kLongestHeader = 1 << 20;  // most bytes of an extended header

/// The extent of a field in a header's block.
struct Field {
  size_t begin, bytes;
};
constexpr Field kName{0, 100}, kSize{124, 12}, kChecksum{148, 8}, kMagic{257, 6}, kPrefix{345, 155};
constexpr size_t kType = 156;

/// One block.
class Header {
 public:
  explicit Header(std::span<const uint8_t> block) {
    std::copy_n(block.begin(), kTarBlock, block_.begin());
  }

  bool is_zero() const {
    return std::all_of(block_.begin(), block_.end(), [](uint8_t byte) { return byte == 0; });
  }
  char type() const { return static_cast<char>(block_[kType]); }

  /// The text of a field, up to the first 0.
  std::string text(Field field) const {
    const auto bytes = std::span(block_).subspan(field.begin, field.bytes);
    return {bytes.begin(), std::find(bytes.begin(), bytes.end(), uint8_t{0})};
  }

  /// Octal digits, or GNU's big-endian number; nullopt for anything else, and for a larger number.
  std::optional<uint64_t> number(Field field) const {
    const auto bytes = std::span(block_).subspan(field.begin, field.bytes);
    uint64_t value = 0;
    if ((bytes[0] & 0x80) != 0) {
      for (size_t i = 0; i < bytes.size(); ++i) {
        if (value >> 55 != 0) return std::nullopt;
        value = value << 8 | (i == 0 ? bytes[i] & 0x7F : bytes[i]);
      }
      return value;
    }
    size_t i = 0;
    while (i < bytes.size() && bytes[i] == ' ') ++i;
    for (; i < bytes.size() && bytes[i] >= '0' && bytes[i] <= '7'; ++i)
      value = value << 3 | static_cast<uint64_t>(bytes[i] - '0');
    if (i < bytes.size() && bytes[i] != ' ' && bytes[i] != 0) return std::nullopt;
    return value;
  }

  /// Whether the checksum fits the block, with spaces in the field of the checksum. Some writers
  /// summed signed bytes.
  bool sum_fits() const {
    const auto wanted = number(kChecksum);
    int64_t with_sign = 0, without = 0;
    for (size_t i = 0; i < block_.size(); ++i) {
      const bool of_sum = i >= kChecksum.begin && i < kChecksum.begin + kChecksum.bytes;
      const uint8_t byte = of_sum ? uint8_t{' '} : block_[i];
      without += byte, with_sign += static_cast<int8_t>(byte);
    }
    return wanted &&
           (static_cast<int64_t>(*wanted) == without || static_cast<int64_t>(*wanted) == with_sign);
  }

  /// The path of a member without extended headers.
  std::string path() const {
    const std::string name = text(kName);
    const bool ustar = std::memcmp(block_.data() + kMagic.begin, "ustar", 6) == 0;
    const std::string prefix = ustar ? text(kPrefix) : "";
    return prefix.empty() ? name : prefix + '/' + name;
  }

 private:
  std::array<uint8_t, kTarBlock> block_;
};

[[noreturn]] void fail(const std::string& problem, uint64_t at) {
  throw FormatError(problem + " (at byte " + std::to_string(at) + ")");
}

bool is_compressed(std::span<const uint8_t> bytes) {
  const auto begins = [&](std::initializer_list<uint8_t> magic) {
    return bytes.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
  };
  return begins({0x1F, 0x8B}) || begins({0x28, 0xB5, 0x2F, 0xFD}) ||
         begins({0xFD, '7', 'z', 'X'}) || begins({'B', 'Z', 'h'});
}

std::string_view text_of(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

/// Reads records "LENGTH KEY=VALUE\n", where LENGTH counts the whole record.
void TarReader::read_pax(std::span<const uint8_t> records, bool global) {
  std::string_view text = text_of(records);
  while (!text.empty()) {
    uint64_t length = 0;
    const auto [digits, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    const auto head = static_cast<size_t>(digits - text.data()) + 1;  // with the space
    const size_t equals = text.find('=');
    if (error != std::errc() || length > text.size() || length <= head || text[head - 1] != ' ' ||
        text[length - 1] != '\n' || equals == std::string_view::npos || equals < head ||
        equals >= length)
      fail("an extended header is damaged", position_);
    const auto key = text.substr(head, equals - head);
    const auto value = text.substr(equals + 1, length - equals - 2);
    if (key == "path") {
      (global ? global_path_ : path_) = std::string(value);
    } else if (key == "size") {
      uint64_t size = 0;
      const auto [end, wrong] = std::from_chars(value.data(), value.data() + value.size(), size);
      if (wrong != std::errc() || end != value.data() + value.size())
        fail("an extended header is damaged", position_);
      (global ? global_size_ : size_) = size;
    } else if (key.starts_with("GNU.sparse.")) {
      fail("holds a sparse file, which is not read", position_);
    }
    text.remove_prefix(length);
  }
}

std::optional<TarMember> TarReader::next() {
  for (;;) {
    if (position_ == bytes_) return std::nullopt;
    if (bytes_ - position_ < kTarBlock) fail("the tar file is cut off", position_);
    const Header header(read_(position_, kTarBlock));
    if (header.is_zero()) {
      has_end_mark_ = true;
      position_ = bytes_;
      return std::nullopt;
    }
    if (!header.sum_fits()) {
      if (position_ == 0 && is_compressed(read_(0, kTarBlock)))
        fail("a compressed tar file: unpack it", 0);
      fail(position_ == 0 ? "no tar file" : "the tar file is damaged", position_);
    }
    const char type = header.type();
    const bool extends = type == 'x' || type == 'g' || type == 'L' || type == 'K';
    // Links, folders and devices have no content, whatever their header says.
    const bool is_empty = type >= '1' && type <= '6';
    std::optional<uint64_t> size = header.number(kSize);
    if (!extends && (size_ || global_size_)) size = size_ ? size_ : global_size_;
    if (!size) fail("the tar file is damaged: a member without a size", position_);
    const uint64_t bytes = is_empty ? 0 : *size, begin = position_ + kTarBlock;
    if (bytes > bytes_ - begin) fail("the tar file is cut off or damaged", position_);
    if (extends && bytes > kLongestHeader) fail("an extended header is too long", position_);
    if (type == 'S') fail("holds a sparse file, which is not read", position_);
    TarMember member{.path = path_          ? *path_
                             : global_path_ ? *global_path_
                                            : header.path(),
                     .offset = begin,
                     .bytes = bytes};
    if (type == 'x' || type == 'g') {
      read_pax(read_(begin, bytes), type == 'g');
    } else if (type == 'L') {
      const auto text = text_of(read_(begin, bytes));
      path_ = std::string(text.substr(0, text.find('\0')));
    } else if (type != 'K') {
      path_.reset(), size_.reset();
    }
    // The padding of the last member may be missing.
    position_ = std::min(begin + (bytes + kTarBlock - 1) / kTarBlock * kTarBlock, bytes_);
    const bool is_file = type == '0' || type == '\0' || type == '7';
    if (is_file && !member.path.ends_with('/')) return member;  // the oldest form of a folder
  }
}

}  // namespace composer
