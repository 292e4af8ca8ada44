// A store in memory, which fails and changes when it is told to.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/remote/object_store.h"

namespace composer::test {

class FakeStore : public ObjectStore {
 public:
  struct Object {
    std::vector<uint8_t> bytes;
    std::string etag = "\"1\"";
  };

  /// Called before each read, without a lock: may wait, or throw.
  std::function<void(const std::string& key, uint64_t begin, uint64_t bytes)> before_read;
  std::atomic<uint64_t> reads{0}, read_bytes{0}, lists{0};

  void set(const std::string& key, std::vector<uint8_t> bytes, std::string etag = "\"1\"") {
    const std::lock_guard guard(lock_);
    objects_[key] = {std::move(bytes), std::move(etag)};
  }

  std::optional<ObjectInfo> stat(const std::string& key) override {
    const std::lock_guard guard(lock_);
    const auto found = objects_.find(key);
    if (found == objects_.end()) return std::nullopt;
    return ObjectInfo{key, found->second.bytes.size(), found->second.etag};
  }
  void read(const ObjectInfo& info, uint64_t begin, std::span<uint8_t> into) override {
    if (before_read) before_read(info.key, begin, into.size());
    const std::lock_guard guard(lock_);
    const auto found = objects_.find(info.key);
    if (found == objects_.end()) throw UserError("s3://bucket/" + info.key + ": no such object");
    if (found->second.etag != info.etag)
      throw RunError("s3://bucket/" + info.key + ": has changed: its ETag was " + info.etag +
                     " and is " + found->second.etag);
    if (begin + into.size() > found->second.bytes.size())
      throw std::logic_error("FakeStore: read beyond the end");
    std::copy_n(found->second.bytes.begin() + static_cast<ptrdiff_t>(begin), into.size(),
                into.begin());
    ++reads, read_bytes += into.size();
  }
  std::vector<ObjectInfo> list(const std::string& prefix) override {
    ++lists;
    const std::lock_guard guard(lock_);
    std::vector<ObjectInfo> found;
    for (const auto& [key, object] : objects_)
      if (key.starts_with(prefix)) found.push_back({key, object.bytes.size(), object.etag});
    return found;
  }
  std::vector<std::string> list_folder(const std::string& prefix) override {
    std::vector<std::string> found;
    for (const auto& object : list(prefix)) {
      const size_t slash = object.key.find('/', prefix.size());
      const auto name = object.key.substr(0, slash == std::string::npos ? slash : slash + 1);
      if (found.empty() || found.back() != name) found.push_back(name);
    }
    return found;
  }
  void write(const std::string&, const std::filesystem::path&) override { refuse(); }
  void write(const std::string&, std::span<const uint8_t>) override { refuse(); }
  void remove(const std::string&) override { refuse(); }

 private:
  static void refuse() { throw std::logic_error("FakeStore: only for reading"); }

  std::mutex lock_;
  std::map<std::string, Object> objects_;
};

/// Bytes of all values, other ones for each seed.
inline std::vector<uint8_t> noise(size_t bytes, uint64_t seed = 1) {
  std::vector<uint8_t> all(bytes);
  for (uint8_t& byte : all) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<uint8_t>(seed >> 56);
  }
  return all;
}

}  // namespace composer::test
