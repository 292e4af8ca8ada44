// libFuzzer's entry to one target, FUZZ_TARGET.
#include <cstddef>

#include "tests/fuzz/fuzz_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  composer::test::FUZZ_TARGET({data, size});
  return 0;
}
