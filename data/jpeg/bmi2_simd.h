// Whether the processor has BMI2, whose shifts take their width from any register.
#pragma once

namespace composer {

/// Those who have AVX2 have it; the same limits hold for both.
bool has_bmi2();

}  // namespace composer
