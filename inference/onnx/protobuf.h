// Messages of Protocol Buffers as they stand in a file: numbered fields one after another.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace composer {

class ProtobufMessage {
 public:
  void integer(int field, int64_t value);
  void real(int field, float value);
  /// A text, bytes, or a message within this one.
  void bytes(int field, std::string_view value);
  void message(int field, const ProtobufMessage& value) { bytes(field, value.all()); }

  /// The beginning of a field of that many bytes, which must follow.
  void begin(int field, size_t length);
  void append(std::string_view bytes) { bytes_ += bytes; }

  const std::string& all() const { return bytes_; }

 private:
  void varint(uint64_t value);
  void key(int field, unsigned kind);

  std::string bytes_;
};

}  // namespace composer
