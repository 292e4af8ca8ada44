// A graph of ONNX's operators (IR version 8, operator set 17) while it is made.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "base/files/protobuf.h"

namespace composer {

struct OnnxAttribute {
  std::string name;
  std::variant<int64_t, float, std::vector<int64_t>> value;
};

/// Nodes are kept in the order in which they are added: each after those that make its inputs.
class OnnxGraph {
 public:
  /// path: the file it is for, which errors name.
  explicit OnnxGraph(std::string path) : path_(std::move(path)) {}

  /// The name, with a number behind it where it was given before.
  std::string unique(const std::string& name);

  /// An input or output of the graph; its first dimension is of any size, "N".
  void add_input(const std::string& name, at::ScalarType type, const std::vector<int64_t>& shape);
  void add_output(const std::string& name, at::ScalarType type, const std::vector<int64_t>& shape);

  /// The node's name is that of its output. An optional input that is absent has no name.
  void add_node(const std::string& kind, const std::vector<std::string>& inputs,
                const std::string& output, const std::vector<OnnxAttribute>& attributes = {});

  /// Returns the tensor's name: this one, made unique. UserError where the file would get larger
  /// than Protocol Buffers allow.
  std::string add_constant(const std::string& name, const at::Tensor& tensor);

  /// Writes the file. UserError where it would be too large, RunError where it cannot be written.
  void write(const std::map<std::string, std::string>& metadata) const;

 private:
  void check_size(size_t bytes) const;

  std::string path_;
  ProtobufMessage nodes_, constants_, ends_;  ///< fields of a GraphProto
  std::map<std::string, int> names_;
};

}  // namespace composer
