#include "data/jpeg/unstuff.h"

#include <bit>

#include "data/pixels/simd.h"

#ifdef COMPOSER_X86
#include <immintrin.h>
#endif

namespace composer {
namespace {

/// Copies one byte, and leaves out the one behind it if that is due. False at a marker.
inline bool take_byte(std::span<const uint8_t> in, uint8_t* out, Unstuffed& at,
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

#ifdef COMPOSER_X86
/// Up to the last 32 bytes. False at a marker.
__attribute__((target("avx2,bmi"))) bool unstuff_avx2(std::span<const uint8_t> in, uint8_t* out,
                                                      Unstuffed& at,
                                                      std::vector<uint32_t>* removed) {
  const __m256i ones = _mm256_set1_epi8(-1);
  while (in.size() - at.read > 32) {
    const auto* from = reinterpret_cast<const __m256i*>(in.data() + at.read);
    const __m256i bytes = _mm256_loadu_si256(from);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + at.written), bytes);
    const auto found = static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, ones)));
    const auto before = static_cast<size_t>(std::countr_zero(found));
    at.read += before, at.written += before;
    if (found != 0 && !take_byte(in, out, at, removed)) return false;
  }
  return true;
}
#endif

}  // namespace

Unstuffed unstuff(std::span<const uint8_t> in, uint8_t* out, std::vector<uint32_t>* removed) {
  Unstuffed at;
#ifdef COMPOSER_X86
  if (simd() != Simd::scalar && !unstuff_avx2(in, out, at, removed)) return at;
#endif
  while (at.read < in.size() && take_byte(in, out, at, removed)) {
  }
  return at;
}

}  // namespace composer
