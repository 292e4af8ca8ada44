// Files of tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/python.h"
#include "tests/temporary_folder.h"

namespace composer::test {

namespace fs = std::filesystem;

inline void write_file(const std::string& path, const std::string& bytes) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline fs::path shared_data() { return fs::path(SOURCE_DIR) / ".." / "shared" / "data"; }

inline std::string big_endian(uint32_t value) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(value >> shift);
  return bytes;
}

}  // namespace composer::test
