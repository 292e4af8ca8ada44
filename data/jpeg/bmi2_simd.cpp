#include "data/jpeg/bmi2_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/jpeg/bmi2_simd.cpp"
#include "hwy/foreach_target.h"

// After foreach_target.h
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace composer::HWY_NAMESPACE {
namespace {

bool target_has_bmi2() { return HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2; }

}  // namespace
}  // namespace composer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace composer {

HWY_EXPORT(target_has_bmi2);

bool has_bmi2() { return HWY_DYNAMIC_DISPATCH(target_has_bmi2)(); }

}  // namespace composer
#endif
