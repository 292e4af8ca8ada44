// An interpreter for the part of Python's pickle language that state dicts need. It builds plain
// values; no name in the pickle is ever looked up or called, and what a name it does not know would
// make is opaque.
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

/// A tensor's bytes in the file and how to walk them. Not checked against each other.
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
  at::ScalarType type;  ///< Undefined: the tensor says
  std::span<const uint8_t> bytes;
};
/// An object that is of no use here (None, a number too large, a Namespace).
struct PickleOpaque {
  PickleGlobal type{};  ///< the class or function that makes it; empty: none does
};
struct PickleMark {};
struct PickleList;
struct PickleTuple;
struct PickleDict;

/// Pointers go to objects that the Unpickler owns, views to the bytes it reads: copies are cheap,
/// and however deep a hostile pickle nests, nothing recurses.
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
  std::vector<std::pair<PickleValue, PickleValue>>
      items;  ///< in order; keys may repeat: the last counts
};

/// The class of torch that a pickle names for a tensor's memory, "FloatStorage"; empty for types
/// that have none.
std::string_view storage_class(at::ScalarType type);

class Unpickler {
 public:
  /// storage: the bytes that the archive keeps under a key; throws FormatError for an unknown one.
  using FindStorage = std::function<std::span<const uint8_t>(std::string_view key)>;

  Unpickler(std::span<const uint8_t> pickle, FindStorage storage)
      : reader_(pickle), storage_(std::move(storage)) {}

  /// The pickled value; lives as long as this object. Throws FormatError. To be called once.
  PickleValue run();

 private:
  /// Carries out one instruction; not the last one.
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
