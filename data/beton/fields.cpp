#include "data/beton/fields.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/params/foreign_json.h"

namespace composer {
namespace {

using nlohmann::json;

constexpr size_t kNameBytes = kBetonNameBytes, kShapeEntries = 32;
constexpr size_t kTextAt = kShapeEntries * 8 + 8;  // offset in the arguments
constexpr uint64_t kMostArrayBytes = uint64_t{1} << 32;

struct RowPart {
  uint64_t bytes = 0, alignment = 1;
};

/// By BetonType. numpy aligns plain numbers, and packs composite members.
constexpr RowPart kRowParts[] = {{8, 8}, {8, 8}, {13, 1}, {16, 1}, {8, 8}, {16, 1}, {8, 8}};

uint64_t multiply(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product) || product > kMostArrayBytes)
    throw RunError("its arrays are larger than 4 GiB");
  return product;
}

/// Bytes of a value of a plain type such as "<f4", "|S10", "<U3", "<M8[ns]".
uint64_t plain_bytes(const std::string& type) {
  const auto unknown = [&] { return RunError("its arrays have the unknown type '" + type + "'"); };
  if (type.size() < 3 || std::strchr("<>|=", type[0]) == nullptr) throw unknown();
  if (std::strchr("biufcmMSUV", type[1]) == nullptr) throw unknown();
  size_t end = 2;
  uint64_t size = 0;
  for (; end < type.size() && type[end] >= '0' && type[end] <= '9'; ++end)
    size = multiply(size, 10) + static_cast<uint64_t>(type[end] - '0');
  const bool unit = (type[1] == 'm' || type[1] == 'M') && end < type.size() && type[end] == '[';
  if (end == 2 || (end != type.size() && !unit)) throw unknown();
  return type[1] == 'U' ? multiply(size, 4) : size;
}

/// descr: numpy's dtype.descr, a list of [name, type] or [name, type, shape].
uint64_t value_bytes(const json& descr) {
  if (descr.is_string()) return plain_bytes(descr.get<std::string>());
  if (!descr.is_array() || descr.empty()) throw RunError("the type of its arrays is damaged");
  uint64_t bytes = 0;
  for (const auto& part : descr) {
    if (!part.is_array() || part.size() < 2 || part.size() > 3)
      throw RunError("the type of its arrays is damaged");
    uint64_t size = value_bytes(part[1]);
    if (part.size() == 3) {
      for (const auto& length : part[2].is_array() ? part[2] : json::array({part[2]})) {
        if (!length.is_number_unsigned()) throw RunError("the type of its arrays is damaged");
        size = multiply(size, length.get<uint64_t>());
      }
    }
    bytes = multiply(bytes + size, 1);
  }
  return bytes;
}

bool is_plain(const json& descr) {
  return descr.is_array() && descr.size() == 1 && descr[0].size() == 2 && descr[0][0] == "" &&
         descr[0][1].is_string();
}

/// Fills shape and dtype. Returns the bytes of one sample's array.
uint64_t read_array(std::span<const uint8_t> arguments, BetonField& field) {
  uint64_t shape[kShapeEntries], length = 0;
  std::memcpy(shape, arguments.data(), sizeof shape);
  std::memcpy(&length, arguments.data() + sizeof shape, sizeof length);
  if (length > arguments.size() - kTextAt) throw RunError("the type of its arrays is damaged");
  const std::string_view text(reinterpret_cast<const char*>(arguments.data()) + kTextAt,
                              static_cast<size_t>(length));
  const auto descr = parse_foreign<json>(text);
  if (descr.is_discarded()) throw RunError("the type of its arrays is no JSON");
  uint64_t bytes = value_bytes(descr);
  field.dtype = is_plain(descr) ? descr[0][1].get<std::string>() : descr.dump();
  size_t dimensions = kShapeEntries;
  while (dimensions > 0 && shape[dimensions - 1] == 0) --dimensions;
  const bool empty = std::find(shape, shape + dimensions, 0) != shape + dimensions;
  for (size_t i = 0; i < dimensions; ++i) {
    if (shape[i] > kMostArrayBytes) throw RunError("its arrays are larger than 4 GiB");
    if (!empty) bytes = multiply(bytes, shape[i]);
    field.shape.push_back(static_cast<int64_t>(shape[i]));
  }
  return empty ? 0 : bytes;
}

std::string read_name(std::span<const uint8_t> bytes) {
  std::string name(reinterpret_cast<const char*>(bytes.data()), kNameBytes);
  name.resize(std::min(name.find('\0'), kNameBytes));
  if (!is_readable(name)) throw RunError("its name is not readable");
  return name;
}

BetonType read_type(uint8_t id) {
  if (id <= static_cast<uint8_t>(BetonType::tensor)) return static_cast<BetonType>(id);
  if (id == static_cast<uint8_t>(BetonType::custom))
    throw RunError("it has a type of the user's own (255), whose layout the file does not tell");
  throw RunError("type " + std::to_string(id) + " does not exist");
}

}  // namespace

BetonLayout read_beton_fields(std::span<const uint8_t> descriptors) {
  BetonLayout layout;
  uint64_t row_alignment = 1;
  for (size_t i = 0; i < descriptors.size() / kBetonDescriptorBytes; ++i) {
    const auto bytes = descriptors.subspan(i * kBetonDescriptorBytes, kBetonDescriptorBytes);
    BetonField field;
    uint64_t array_bytes = 0;
    try {
      field.name = read_name(bytes.subspan(1));
      field.type = read_type(bytes[0]);
      if (field.type == BetonType::array || field.type == BetonType::tensor)
        array_bytes = read_array(bytes.subspan(1 + kNameBytes), field);
    } catch (const RunError& error) {
      const std::string name = field.name.empty() ? "" : " '" + field.name + "'";
      throw RunError("field " + std::to_string(i) + name + ": " + error.what());
    }
    const RowPart part = kRowParts[static_cast<size_t>(field.type)];
    field.offset = round_up(layout.row_bytes, part.alignment);
    layout.row_bytes = field.offset + part.bytes;
    row_alignment = std::max(row_alignment, part.alignment);
    if (field.type != BetonType::real && field.type != BetonType::integer) ++layout.regions;
    layout.fields.push_back(std::move(field));
    layout.array_bytes.push_back(array_bytes);
  }
  layout.row_bytes = round_up(layout.row_bytes, row_alignment);
  return layout;
}

}  // namespace composer
