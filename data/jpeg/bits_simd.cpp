#include "data/jpeg/bits_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/jpeg/bits_simd.cpp"
#include "hwy/foreach_target.h"

// After foreach_target.h
#include "base/vectors_inl.h"

HWY_BEFORE_NAMESPACE();
namespace composer::HWY_NAMESPACE {
namespace {

/// Copies one byte, and skips the stuffing behind it. False at a marker.
HWY_INLINE bool take_byte(std::span<const uint8_t> in, uint8_t* out, Unstuffed& at,
                          std::vector<uint32_t>* removed) {
  const uint8_t byte = in[at.read];
  if (byte == 0xFF) {
    if (at.read + 1 >= in.size() || in[at.read + 1] != 0) return false;
    ++at.read;
    if (removed != nullptr) removed->push_back(static_cast<uint32_t>(at.written + 1));
  }
  ++at.read;
  out[at.written++] = byte;
  return true;
}

#if COMPOSER_HAS_VECTORS
/// Copies whole vectors, up to the last one. False at a marker.
HWY_INLINE bool take_vectors(std::span<const uint8_t> in, uint8_t* out, Unstuffed& at,
                             std::vector<uint32_t>* removed) {
  const NarrowTag<uint8_t> d;
  constexpr size_t lanes = hn::MaxLanes(NarrowTag<uint8_t>());
  const auto ones = hn::Set(d, uint8_t{0xFF});
  while (in.size() - at.read > lanes) {
    const auto bytes = hn::LoadU(d, in.data() + at.read);
    hn::StoreU(bytes, d, out + at.written);
    const auto found = hn::FindFirstTrue(d, hn::Eq(bytes, ones));
    const size_t before = found < 0 ? lanes : static_cast<size_t>(found);
    at.read += before, at.written += before;
    if (found >= 0 && !take_byte(in, out, at, removed)) return false;
  }
  return true;
}
#endif

bool target_has_bmi2() { return HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2; }

Unstuffed unstuff_all(std::span<const uint8_t> in, uint8_t* out, std::vector<uint32_t>* removed) {
  Unstuffed at;
#if COMPOSER_HAS_VECTORS
  if (!take_vectors(in, out, at, removed)) return at;
#endif
  while (at.read < in.size() && take_byte(in, out, at, removed)) {
  }
  return at;
}

}  // namespace
}  // namespace composer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace composer {

HWY_EXPORT(unstuff_all);
HWY_EXPORT(target_has_bmi2);

Unstuffed unstuff(std::span<const uint8_t> in, uint8_t* out, std::vector<uint32_t>* removed) {
  return HWY_DYNAMIC_DISPATCH(unstuff_all)(in, out, removed);
}

bool has_bmi2() { return HWY_DYNAMIC_DISPATCH(target_has_bmi2)(); }

}  // namespace composer
#endif
