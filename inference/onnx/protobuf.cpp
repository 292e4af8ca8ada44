#include "inference/onnx/protobuf.h"

#include <bit>

namespace composer {
namespace {

constexpr unsigned kVarint = 0, kLength = 2, kFixed32 = 5;

}  // namespace

void ProtobufMessage::integer(int field, int64_t value) {
  key(field, kVarint);
  varint(static_cast<uint64_t>(value));
}

void ProtobufMessage::real(int field, float value) {
  key(field, kFixed32);
  const auto bits = std::bit_cast<uint32_t>(value);
  for (int byte = 0; byte < 4; ++byte) bytes_ += static_cast<char>(bits >> (8 * byte) & 0xff);
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

}  // namespace composer
