// For the tests of data/: files, and loaders as plain bytes.
#pragma once

#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <vector>

#include "composer/loop/loader.h"
#include "tests/composer/temporary_folder.h"
#include "tests/python.h"

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

struct PlainBatch {
  std::vector<int64_t> shape;
  std::string pixels;
  std::vector<int64_t> classes;
  bool operator==(const PlainBatch&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const PlainBatch& batch) {
  out << "classes";
  for (const int64_t one : batch.classes) out << ' ' << one;
  return out;
}

inline PlainBatch plain(const RawBatch& batch) {
  const auto* pixels = reinterpret_cast<const char*>(batch.images.const_data_ptr<uint8_t>());
  const auto* classes = batch.target.classes.const_data_ptr<int64_t>();
  return {batch.images.sizes().vec(),
          {pixels, pixels + batch.images.numel()},
          {classes, classes + batch.target.classes.numel()}};
}

/// The batches until the end of the epoch.
inline std::vector<PlainBatch> rest_of_epoch(Loader& loader) {
  std::vector<PlainBatch> batches;
  while (const auto batch = loader.next()) batches.push_back(plain(*batch));
  return batches;
}

inline std::string big_endian(uint32_t value) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(value >> shift);
  return bytes;
}

}  // namespace composer::test
