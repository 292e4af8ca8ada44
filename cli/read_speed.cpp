#include "cli/read_speed.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "composer/clock.h"
#include "composer/error.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

constexpr int64_t most_bytes = 256 << 20;

struct Sample {
  std::vector<fs::path> files;
  bool whole = true;
};

Sample sample_of(const fs::path& data) {
  std::error_code problem;
  if (fs::is_regular_file(data, problem)) return {{data}, fs::file_size(data) <= most_bytes};
  if (!fs::is_directory(data, problem))
    throw UserError("--data: " + data.string() + " is neither a file nor a folder");
  Sample sample;
  int64_t bytes = 0;
  fs::recursive_directory_iterator entry(data, fs::directory_options::skip_permission_denied,
                                         problem);
  for (; !problem && entry != fs::recursive_directory_iterator(); entry.increment(problem)) {
    std::error_code ignored;
    if (!entry->is_regular_file(ignored)) continue;
    if (!(sample.whole = bytes < most_bytes)) break;
    sample.files.push_back(entry->path());
    bytes += static_cast<int64_t>(entry->file_size(ignored));
  }
  return sample;
}

class OpenFile {
 public:
  explicit OpenFile(const fs::path& path)
      : path_(path), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (file_ < 0) fail();
  }
  ~OpenFile() { ::close(file_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  void forget() const { ::posix_fadvise(file_, 0, 0, POSIX_FADV_DONTNEED); }

  /// Returns the bytes, at most so many.
  int64_t read(int64_t most, std::vector<char>& block) const {
    int64_t all = 0;
    while (all < most) {
      const ssize_t size = ::read(file_, block.data(), block.size());
      if (size < 0) fail();
      if (size == 0) break;
      all += size;
    }
    return all;
  }

 private:
  [[noreturn]] void fail() const {
    throw UserError("--data: " + path_.string() + " cannot be read: " + std::strerror(errno));
  }

  fs::path path_;
  int file_;
};

/// Returns the bytes of all files.
int64_t read_all(const std::vector<fs::path>& files) {
  std::vector<char> block(1 << 20);
  int64_t bytes = 0;
  for (const auto& file : files)
    if (bytes < most_bytes) bytes += OpenFile(file).read(most_bytes - bytes, block);
  return bytes;
}

}  // namespace

ReadSpeed measure_reading(const fs::path& data) {
  const auto sample = sample_of(data);
  for (const auto& file : sample.files) OpenFile(file).forget();
  ReadSpeed speed;
  speed.whole = sample.whole;
  speed.files = static_cast<int64_t>(sample.files.size());
  const auto measure = [&] {
    const double begin = steady_seconds();
    speed.bytes = read_all(sample.files);
    return static_cast<double>(speed.bytes) / std::max(steady_seconds() - begin, 1e-9);
  };
  speed.disk = measure();
  speed.cache = measure();
  if (speed.bytes == 0) throw UserError("--data: " + data.string() + " has nothing to read");
  return speed;
}

}  // namespace composer
