#include "inference/onnx/onnx_graph.h"

#include <limits>
#include <stdexcept>

#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/version.h"

// Field numbers are those of onnx.proto.
namespace composer {
namespace {

constexpr int64_t kIrVersion = 8;
constexpr size_t kMostBytes = std::numeric_limits<int32_t>::max();

/// TensorProto.DataType.
int64_t data_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return 1;
    case at::kByte:
      return 2;
    case at::kChar:
      return 3;
    case at::kInt:
      return 6;
    case at::kLong:
      return 7;
    default:
      throw std::logic_error(std::string("no ONNX tensors of type ") + c10::toString(type));
  }
}

ProtobufMessage attribute(const OnnxAttribute& given) {
  ProtobufMessage message;
  message.bytes(1, given.name);
  if (const auto* real = std::get_if<float>(&given.value)) {
    message.real(2, *real);
    message.integer(20, 1);
  } else if (const auto* integer = std::get_if<int64_t>(&given.value)) {
    message.integer(3, *integer);
    message.integer(20, 2);
  } else if (const auto* text = std::get_if<std::string>(&given.value)) {
    message.bytes(4, *text);
    message.integer(20, 3);
  } else {
    for (const int64_t value : std::get<std::vector<int64_t>>(given.value))
      message.integer(8, value);
    message.integer(20, 7);
  }
  return message;
}

ProtobufMessage value_info(const std::string& name, at::ScalarType type,
                           const std::vector<int64_t>& dimensions) {
  ProtobufMessage shape;
  for (size_t i = 0; i < dimensions.size(); ++i) {
    ProtobufMessage dimension;
    if (i == 0 || dimensions[i] < 0)
      dimension.bytes(2, std::string_view("NHW").substr(i, 1));
    else
      dimension.integer(1, dimensions[i]);
    shape.message(1, dimension);
  }
  ProtobufMessage tensor, of_type, info;
  tensor.integer(1, data_type(type));
  tensor.message(2, shape);
  of_type.message(1, tensor);
  info.bytes(1, name);
  info.message(2, of_type);
  return info;
}

}  // namespace

std::string OnnxGraph::unique(const std::string& name) {
  const int count = ++names_[name];
  return count == 1 ? name : unique(name + "_" + std::to_string(count));
}

void OnnxGraph::add_input(const std::string& name, at::ScalarType type,
                          const std::vector<int64_t>& shape) {
  ends_.message(11, value_info(name, type, shape));
}

void OnnxGraph::add_output(const std::string& name, at::ScalarType type,
                           const std::vector<int64_t>& shape) {
  ends_.message(12, value_info(name, type, shape));
}

void OnnxGraph::add_node(const std::string& kind, const std::vector<std::string>& inputs,
                         const std::string& output, const std::vector<OnnxAttribute>& attributes) {
  ProtobufMessage node;
  for (const auto& input : inputs) node.bytes(1, input);
  node.bytes(2, output);
  node.bytes(3, output);
  node.bytes(4, kind);
  for (const auto& given : attributes) node.message(5, attribute(given));
  nodes_.message(1, node);
}

std::string OnnxGraph::add_constant(const std::string& name, const at::Tensor& tensor) {
  const size_t bytes = static_cast<size_t>(tensor.numel()) * tensor.element_size();
  check_size(constants_.all().size() + bytes);
  const auto dense = tensor.cpu().contiguous();
  const auto given = unique(name);
  ProtobufMessage head;
  for (const int64_t size : tensor.sizes()) head.integer(1, size);
  head.integer(2, data_type(tensor.scalar_type()));
  head.bytes(8, given);
  head.begin(9, bytes);
  constants_.begin(5, head.all().size() + bytes);
  constants_.append(head.all());
  constants_.append({static_cast<const char*>(dense.const_data_ptr()), bytes});
  return given;
}

void OnnxGraph::write(const std::map<std::string, std::string>& metadata) const {
  ProtobufMessage model, name, rest, operators;
  model.integer(1, kIrVersion);
  model.bytes(2, "composer");
  model.bytes(3, version);
  name.bytes(2, "network");
  operators.bytes(1, "");
  operators.integer(2, operator_set_);
  rest.message(8, operators);
  for (const auto& [key, value] : metadata) {
    ProtobufMessage entry;
    entry.bytes(1, key);
    entry.bytes(2, value);
    rest.message(14, entry);
  }
  const ProtobufMessage* const parts[]{&nodes_, &name, &constants_, &ends_};
  size_t length = 0;
  for (const auto* part : parts) length += part->all().size();
  model.begin(7, length);
  check_size(model.all().size() + length + rest.all().size());
  AtomicFile file(path_);
  file.write(std::string_view(model.all()));
  for (const auto* part : parts) file.write(std::string_view(part->all()));
  file.write(std::string_view(rest.all()));
  file.commit_to_disk();
}

void OnnxGraph::check_size(size_t bytes) const {
  if (bytes > kMostBytes)
    throw UserError(path_ +
                    ": the network is larger than 2 GB, the most that an ONNX file holds; export "
                    "it as safetensors or torchscript");
}

}  // namespace composer
