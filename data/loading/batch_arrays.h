// A batch as plain memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/place.h"

namespace composer {

enum class ElementType { uint8, int64, float32, bfloat16 };

/// Bytes of one element.
constexpr int64_t size_of(ElementType type) {
  switch (type) {
    case ElementType::uint8:
      return 1;
    case ElementType::bfloat16:
      return 2;
    case ElementType::float32:
      return 4;
    case ElementType::int64:
      return 8;
  }
  return 0;
}

/// Elements in memory, the last dimension's beside each other, without gaps. Copies share the
/// memory.
struct Array {
  void* data = nullptr;
  std::vector<int64_t> shape{};  ///< empty: there is no array
  ElementType type = ElementType::uint8;
  std::shared_ptr<void> owner{};  ///< the memory lives as long as it

  bool defined() const { return !shape.empty(); }
  /// Of the first element. T is what `type` says; bfloat16 is uint16_t.
  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
  /// Between one entry of the first dimension and the next one.
  int64_t row_bytes() const {
    int64_t bytes = size_of(type);
    for (size_t d = 1; d < shape.size(); ++d) bytes *= shape[d];
    return bytes;
  }
};

/// Makes arrays. Functions may be called by several threads at once. Elements are not initialised.
class ArrayAllocator {
 public:
  virtual ~ArrayAllocator() = default;

  /// Its memory comes back to the allocator when the array's last owner goes.
  virtual Array reused(const std::vector<int64_t>& shape, ElementType type) = 0;
  /// With memory of its own.
  virtual Array fresh(const std::vector<int64_t>& shape, ElementType type) = 0;
  /// Lets go of memory that came back.
  virtual void clear() = 0;
};

/// What the loader makes of N images.
struct BatchArrays {
  Array images;                  ///< [N, H, W, C]
  Array classes;                 ///< int64 [N]; undefined where there are values
  Array values;                  ///< float32 [N, K]
  Array indices;                 ///< int64 [N]: which samples of the source they are
  std::optional<Share> share{};  ///< the images' place in the batch of all ranks; nothing where
                                 ///< samples may be left out
};

}  // namespace composer
