// ONNX files read by onnx.proto alone, not by the code that writes them.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace composer::test {

struct WireField {
  uint64_t number = 0, integer = 0;
  std::string_view bytes;
};

/// Throws std::invalid_argument where the bytes are no message.
inline std::vector<WireField> wire_fields(std::string_view bytes) {
  size_t at = 0;
  const auto varint = [&] {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      if (at >= bytes.size() || shift > 63) throw std::invalid_argument("not a number");
      const auto byte = static_cast<unsigned char>(bytes[at++]);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  const auto take = [&](uint64_t length) {
    if (length > bytes.size() - at) throw std::invalid_argument("ends too early");
    const auto part = bytes.substr(at, length);
    at += length;
    return part;
  };
  std::vector<WireField> fields;
  while (at < bytes.size()) {
    const uint64_t key = varint();
    WireField field{.number = key >> 3, .integer = 0, .bytes = {}};
    if ((key & 7) == 0)
      field.integer = varint();
    else if ((key & 7) == 2)
      field.bytes = take(varint());
    else if ((key & 7) == 5)
      field.bytes = take(4);
    else
      throw std::invalid_argument("no such kind of field");
    fields.push_back(field);
  }
  return fields;
}

struct OnnxNode {
  std::string kind, name;
  std::vector<std::string> inputs, outputs;
  std::map<std::string, std::vector<int64_t>> integers;
  std::map<std::string, float> reals;
  std::map<std::string, std::string> texts;
};

struct OnnxEnd {
  std::string name;
  uint64_t type = 0;
  std::vector<std::string> shape;
};

struct OnnxModel {
  uint64_t ir_version = 0, operator_set = 0;
  std::string producer, producer_version, graph_name;
  std::map<std::string, std::string> metadata;
  std::vector<OnnxNode> nodes;
  std::map<std::string, at::Tensor> initializers;
  std::vector<OnnxEnd> inputs, outputs;
};

inline OnnxNode onnx_node(std::string_view bytes) {
  OnnxNode node;
  for (const auto& field : wire_fields(bytes)) {
    const std::string text(field.bytes);
    if (field.number == 1) node.inputs.push_back(text);
    if (field.number == 2) node.outputs.push_back(text);
    if (field.number == 3) node.name = text;
    if (field.number == 4) node.kind = text;
    if (field.number != 5) continue;
    std::string name;
    uint64_t type = 0;
    std::vector<int64_t> integers;
    float real = 0;
    std::string word;
    for (const auto& part : wire_fields(field.bytes)) {
      if (part.number == 1) name = part.bytes;
      if (part.number == 2) std::memcpy(&real, part.bytes.data(), 4);
      if (part.number == 3 || part.number == 8)
        integers.push_back(static_cast<int64_t>(part.integer));
      if (part.number == 4) word = part.bytes;
      if (part.number == 20) type = part.integer;
    }
    if (type == 3)
      node.texts[name] = word;
    else if (type == 1)
      node.reals[name] = real;
    else if (type == 7 || (type == 2 && integers.size() == 1))
      node.integers[name] = integers;
    else
      throw std::invalid_argument(name + ": is of another type than its value");
  }
  return node;
}

inline std::pair<std::string, at::Tensor> onnx_tensor(std::string_view bytes) {
  static const std::map<uint64_t, at::ScalarType> types{
      {1, at::kFloat}, {2, at::kByte}, {3, at::kChar}, {6, at::kInt}, {7, at::kLong}};
  std::string name;
  std::vector<int64_t> shape;
  uint64_t type = 0;
  std::string_view raw;
  for (const auto& field : wire_fields(bytes)) {
    if (field.number == 1) shape.push_back(static_cast<int64_t>(field.integer));
    if (field.number == 2) type = field.integer;
    if (field.number == 8) name = field.bytes;
    if (field.number == 9) raw = field.bytes;
  }
  const auto tensor = at::empty(shape, types.at(type));
  if (tensor.nbytes() != raw.size()) throw std::invalid_argument(name + ": bytes of another shape");
  std::memcpy(tensor.mutable_data_ptr(), raw.data(), raw.size());
  return {name, tensor};
}

inline OnnxEnd onnx_end(std::string_view bytes) {
  OnnxEnd end;
  for (const auto& field : wire_fields(bytes)) {
    if (field.number == 1) end.name = field.bytes;
    if (field.number != 2) continue;
    for (const auto& part : wire_fields(wire_fields(field.bytes).at(0).bytes)) {
      if (part.number == 1) end.type = part.integer;
      if (part.number != 2) continue;
      for (const auto& dimension : wire_fields(part.bytes)) {
        const auto size = wire_fields(dimension.bytes).at(0);
        end.shape.push_back(size.number == 2 ? std::string(size.bytes)
                                             : std::to_string(size.integer));
      }
    }
  }
  return end;
}

inline OnnxModel read_onnx(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  OnnxModel model;
  std::string_view graph;
  for (const auto& field : wire_fields(bytes)) {
    if (field.number == 1) model.ir_version = field.integer;
    if (field.number == 2) model.producer = field.bytes;
    if (field.number == 3) model.producer_version = field.bytes;
    if (field.number == 7) graph = field.bytes;
    if (field.number == 8)
      for (const auto& part : wire_fields(field.bytes))
        if (part.number == 2) model.operator_set = part.integer;
    if (field.number == 14) {
      const auto entry = wire_fields(field.bytes);
      model.metadata[std::string(entry.at(0).bytes)] = entry.at(1).bytes;
    }
  }
  for (const auto& field : wire_fields(graph)) {
    if (field.number == 1) model.nodes.push_back(onnx_node(field.bytes));
    if (field.number == 2) model.graph_name = field.bytes;
    if (field.number == 5) model.initializers.insert(onnx_tensor(field.bytes));
    if (field.number == 11) model.inputs.push_back(onnx_end(field.bytes));
    if (field.number == 12) model.outputs.push_back(onnx_end(field.bytes));
  }
  return model;
}

}  // namespace composer::test
