// Numbers that a thread reads or writes at once.
#pragma once

#include "cuda/grid.h"

namespace composer::cuda {

inline constexpr int values_at_once = 8;

/// In memory at a multiple of its alignment.
template <class T>
struct alignas(sizeof(T) * values_at_once < 16 ? sizeof(T) * values_at_once : 16) Values {
  T values[values_at_once];
};

template <class T>
COMPOSER_ANYWHERE Values<T> load_values(const T* from) {
  return *reinterpret_cast<const Values<T>*>(from);
}

template <class T>
COMPOSER_ANYWHERE void store_values(T* to, const Values<T>& values) {
  *reinterpret_cast<Values<T>*>(to) = values;
}

}  // namespace composer::cuda
