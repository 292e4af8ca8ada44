#include "base/files/protobuf.h"

#include <bit>

namespace composer {
namespace {

constexpr unsigned kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5;

void append_little_endian(std::string& out, uint64_t bits, int size) {
  for (int byte = 0; byte < size; ++byte) out += static_cast<char>(bits >> (8 * byte) & 0xff);
}

}  // namespace

void ProtobufMessage::integer(int field, int64_t value) {
  key(field, kVarint);
  varint(static_cast<uint64_t>(value));
}

void ProtobufMessage::real(int field, float value) {
  key(field, kFixed32);
  append_little_endian(bytes_, std::bit_cast<uint32_t>(value), 4);
}

void ProtobufMessage::real64(int field, double value) {
  key(field, kFixed64);
  append_little_endian(bytes_, std::bit_cast<uint64_t>(value), 8);
}

void ProtobufMessage::bytes(int field, std::string_view value) {
  begin(field, value.size());
  append(value);
}

void ProtobufMessage::begin(int field, size_t length) {
  key(field, kLength);
  varint(length);
}

void ProtobufMessage::varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7f) | 0x80);
  bytes_ += static_cast<char>(value);
}

void ProtobufMessage::key(int field, unsigned kind) {
  varint(static_cast<uint64_t>(field) << 3 | kind);
}

std::optional<ProtobufField> ProtobufReader::next() {
  const auto key = varint();
  if (!key) return std::nullopt;
  ProtobufField field{static_cast<int>(*key >> 3), 0, {}};
  const auto kind = static_cast<unsigned>(*key & 7);
  const auto value = kind == kFixed64 ? fixed(8) : kind == kFixed32 ? fixed(4) : varint();
  if (!value || (kind == kLength && *value > rest_.size())) return std::nullopt;
  if (kind == kLength) {
    field.bytes = rest_.substr(0, *value);
    rest_.remove_prefix(*value);
  } else {
    field.value = *value;
  }
  return field;
}

std::optional<ProtobufField> ProtobufReader::next(int number) {
  auto field = next();
  while (field && field->number != number) field = next();
  return field;
}

std::optional<uint64_t> ProtobufReader::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

std::optional<uint64_t> ProtobufReader::fixed(size_t size) {
  if (rest_.size() < size) return std::nullopt;
  uint64_t value = 0;
  for (size_t i = size; i-- > 0;) value = value << 8 | static_cast<uint8_t>(rest_[i]);
  rest_.remove_prefix(size);
  return value;
}

}  // namespace composer
