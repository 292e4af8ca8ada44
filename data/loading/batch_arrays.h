// A batch as plain memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/rank_environment.h"

namespace composer {

enum class ElementType { uint8, int64, float32, bfloat16, float16 };

/// Bytes of one element.
constexpr int64_t size_of(ElementType type) {
  switch (type) {
    case ElementType::uint8:
      return 1;
    case ElementType::bfloat16:
    case ElementType::float16:
      return 2;
    case ElementType::float32:
      return 4;
    case ElementType::int64:
      return 8;
  }
  return 0;
}

/// Elements in memory, in row-major order without gaps. Copies share the memory.
struct Array {
  void* data = nullptr;
  std::vector<int64_t> shape{};  ///< empty: no array
  ElementType type = ElementType::uint8;
  std::shared_ptr<void> owner{};  ///< keeps the memory alive

  bool defined() const { return !shape.empty(); }
  /// Pointer to the first element. T matches `type`; bfloat16 and float16 are uint16_t.
  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
  /// Bytes from one entry of the first dimension to the next.
  int64_t row_bytes() const {
    int64_t bytes = size_of(type);
    for (size_t d = 1; d < shape.size(); ++d) bytes *= shape[d];
    return bytes;
  }
};

/// Makes arrays with uninitialised elements. Safe to call from several threads.
class ArrayAllocator {
 public:
  virtual ~ArrayAllocator() = default;

  /// An array whose memory returns to the allocator with its last owner.
  virtual Array reused(const std::vector<int64_t>& shape, ElementType type) = 0;
  /// An array with memory of its own, freed with its last owner.
  virtual Array fresh(const std::vector<int64_t>& shape, ElementType type) = 0;
  /// Frees memory that has returned to the allocator.
  virtual void clear() = 0;
};

/// A batch of N images.
struct BatchArrays {
  Array images;   ///< [N, H, W, C]
  Array classes;  ///< int64 [N]; undefined if samples have values
  Array values;   ///< float32 [N, K]; undefined if samples have classes
  Array indices;  ///< int64 [N]: sample numbers in the source
  /// The images' slice of the batch of all ranks; nullopt where on_bad_sample may skip samples
  std::optional<Share> share{};
};

}  // namespace composer
