// An interpreter for the part of Python's pickle language that state dicts need. It builds plain
// values; no name in the pickle is ever looked up or called. Objects of unknown names are opaque.
#pragma once

#include <ATen/ATen.h>

#include <deque>
#include <functional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/files/byte_reader.h"

namespace composer {

/// A tensor's bytes in the file, and its layout. The members are not checked against each other.
struct PickledTensor {
  at::ScalarType type;
  std::span<const uint8_t> storage;
  int64_t offset;  ///< in elements, as the strides
  std::vector<int64_t> sizes, strides;
};

struct PickleGlobal {
  std::string_view module, name;
  bool operator==(const PickleGlobal&) const = default;
};
struct PickleStorage {
  at::ScalarType type;  ///< Undefined: each tensor has its own type
  std::span<const uint8_t> bytes;
};
/// An object that is not needed (None, a number too large, a Namespace).
struct PickleOpaque {
  PickleGlobal type{};  ///< the class or function that makes it; empty: none
};
struct PickleMark {};
struct PickleList;
struct PickleTuple;
struct PickleDict;

/// Pointers refer to objects that the Unpickler owns, views to the bytes it reads: copies are
/// cheap, and nothing recurses, however deep a hostile pickle nests.
using PickleValue =
    std::variant<PickleOpaque, PickleMark, bool, int64_t, double, std::string_view, PickleGlobal,
                 PickleList*, PickleTuple*, PickleDict*, PickleStorage*, PickledTensor*>;

struct PickleList {
  std::vector<PickleValue> items;
};
struct PickleTuple {
  std::vector<PickleValue> items;
};
struct PickleDict {
  /// The entries in order. Keys may repeat; the last one counts.
  std::vector<std::pair<PickleValue, PickleValue>> items;
};

/// The torch class of a tensor's memory in a pickle, "FloatStorage"; empty for types without one.
std::string_view storage_class(at::ScalarType type);

class Unpickler {
 public:
  /// storage: returns the bytes of a key in the archive; throws FormatError for an unknown key.
  using FindStorage = std::function<std::span<const uint8_t>(std::string_view key)>;

  Unpickler(std::span<const uint8_t> pickle, FindStorage storage)
      : reader_(pickle), storage_(std::move(storage)) {}

  /// Runs the pickle and returns its value, which lives as long as this object. Throws FormatError.
  /// To be called once.
  PickleValue run();

 private:
  /// Executes one instruction, but not the final one.
  void execute(uint8_t opcode);
  void store(uint32_t key);
  void recall(uint32_t key);

  void push(PickleValue value);
  const PickleValue& top() const;
  PickleValue pop();
  template <class T>
  T pop_as(const char* what);
  std::vector<PickleValue> pop_to_mark();
  std::vector<PickleValue> pop_many(size_t count);
  void extend_list(const std::vector<PickleValue>& added);
  void extend_dict(const std::vector<PickleValue>& added);

  void push_integer(std::span<const uint8_t> bytes);
  void push_real();
  void push_result();
  void push_storage();
  PickleValue call(const PickleGlobal& function, const std::vector<PickleValue>& arguments);
  PickleValue make_tensor(const std::vector<PickleValue>& arguments, bool typed);
  template <class T>
  T* make(T value, std::deque<T>& owner);

  ByteReader reader_;
  FindStorage storage_;
  std::vector<PickleValue> stack_;
  std::unordered_map<uint32_t, PickleValue> memo_;
  std::deque<PickleList> lists_;
  std::deque<PickleTuple> tuples_;
  std::deque<PickleDict> dicts_;
  std::deque<PickleStorage> storages_;
  std::deque<PickledTensor> tensors_;
  size_t made_ = 0;
};

}  // namespace composer
