// What peers (Python's PyTorch, torchvision, Pillow) answered, recorded in tests/vectors: the tests
// compare with it where no peer is. Those tagged [peer] ask the peer itself; tests/record_vectors
// keeps its answers.
#pragma once

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/python.h"

namespace composer::test {

inline std::string vector_path(const std::string& name) {
  return from_environment("COMPOSER_TEST_SOURCE", SOURCE_DIR) + "/tests/vectors/" + name;
}

/// The bytes of the recording. Throws where there is none.
inline std::string recorded(const std::string& name) {
  std::ifstream file(vector_path(name), std::ios::binary);
  if (!file)
    throw std::runtime_error(vector_path(name) + " is missing: tests/record_vectors makes it");
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Keeps a peer's answer where tests/record_vectors runs the test; else does nothing.
inline void record(const std::string& name, const std::string& answer) {
  if (std::getenv("COMPOSER_RECORD_VECTORS") != nullptr)
    std::ofstream(vector_path(name), std::ios::binary) << answer;
}

/// 16 hexadecimal digits for the bytes (FNV-1a).
inline std::string fingerprint(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : bytes) hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
  return digits;
}

}  // namespace composer::test
