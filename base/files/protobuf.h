// Messages of Protocol Buffers in their wire format: numbered fields one after another.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace composer {

class ProtobufMessage {
 public:
  void integer(int field, int64_t value);
  void real(int field, float value);
  void real64(int field, double value);
  /// A text, bytes, or a message within this one.
  void bytes(int field, std::string_view value);
  void message(int field, const ProtobufMessage& value) { bytes(field, value.all()); }

  /// Begins a field of `length` bytes, which must follow by append().
  void begin(int field, size_t length);
  void append(std::string_view bytes) { bytes_ += bytes; }

  const std::string& all() const { return bytes_; }

 private:
  void varint(uint64_t value);
  void key(int field, unsigned kind);

  std::string bytes_;
};

/// A field of a message that is read.
struct ProtobufField {
  int number = 0;
  uint64_t value = 0;      ///< an integer, or the bits of a real number
  std::string_view bytes;  ///< the content of a text or a message
};

/// Reads the fields of a message one after another.
class ProtobufReader {
 public:
  /// message: must outlive the reader.
  explicit ProtobufReader(std::string_view message) : rest_(message) {}

  /// The next field; nothing at the end, or where the bytes are no message.
  std::optional<ProtobufField> next();
  /// The next field of that number.
  std::optional<ProtobufField> next(int number);

 private:
  std::optional<uint64_t> varint();
  std::optional<uint64_t> fixed(size_t size);

  std::string_view rest_;
};

}  // namespace composer
