// Builds a graph of ONNX operators (IR version 8).
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
  std::variant<int64_t, float, std::vector<int64_t>, std::string> value;
};

/// Add each node after the nodes that compute its inputs.
class OnnxGraph {
 public:
  /// path: the file, which errors name. operator_set: the version of ONNX's operators.
  explicit OnnxGraph(std::string path, int64_t operator_set = 17)
      : path_(std::move(path)), operator_set_(operator_set) {}

  int64_t operator_set() const { return operator_set_; }

  /// The name, with a number appended if it is in use.
  std::string unique(const std::string& name);

  /// An input or output of the graph. Its first dimension has any size, "N", and so have those of
  /// size -1: "H" the second, "W" the third.
  void add_input(const std::string& name, at::ScalarType type, const std::vector<int64_t>& shape);
  void add_output(const std::string& name, at::ScalarType type, const std::vector<int64_t>& shape);

  /// The node is named after its output. The name of an absent optional input is empty.
  void add_node(const std::string& kind, const std::vector<std::string>& inputs,
                const std::string& output, const std::vector<OnnxAttribute>& attributes = {});

  /// Returns the name of the constant, unique(name). UserError if the file would exceed the
  /// limit of Protocol Buffers.
  std::string add_constant(const std::string& name, const at::Tensor& tensor);

  /// Writes the file. UserError if it would be too large, RunError if it cannot be written.
  void write(const std::map<std::string, std::string>& metadata) const;

 private:
  void check_size(size_t bytes) const;

  std::string path_;
  int64_t operator_set_;
  ProtobufMessage nodes_, constants_, ends_;  ///< fields of a GraphProto
  std::map<std::string, int> names_;
};

}  // namespace composer
