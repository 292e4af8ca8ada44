#include "cli/read_speed.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <system_error>
#include <vector>

#include "base/clock.h"
#include "base/error.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

constexpr int64_t most_bytes = 256 << 20;
constexpr double most_seconds = 5;

/// The files of a data set that are to be read, and the total size of all its files.
class Sample {
 public:
  explicit Sample(const fs::path& data) {
    std::error_code problem;
    if (fs::is_regular_file(data, problem))
      add(data);
    else if (fs::is_directory(data, problem))
      add_folder(data);
    else
      throw UserError("--data: " + data.string() + " is neither a file nor a folder");
  }

  const std::vector<fs::path>& files() const { return files_; }
  int64_t size() const { return size_; }

 private:
  void add(const fs::path& file) {
    std::error_code problem;
    const auto size = fs::file_size(file, problem);
    if (size_ < most_bytes) files_.push_back(file);
    if (!problem) size_ += static_cast<int64_t>(size);
  }

  void add_folder(const fs::path& folder) {
    std::error_code problem;
    if (!known_.insert(fs::canonical(folder, problem)).second) return;  // a link to a known folder
    for (fs::directory_iterator entry(folder, problem);
         !problem && entry != fs::directory_iterator() && steady_seconds() < end_;
         entry.increment(problem)) {
      std::error_code dangling;
      if (entry->is_regular_file(dangling))
        add(entry->path());
      else if (entry->is_directory(dangling))
        add_folder(entry->path());
    }
  }

  double end_ = steady_seconds() + most_seconds;
  std::set<fs::path> known_;  ///< folders
  std::vector<fs::path> files_;
  int64_t size_ = 0;
};

class OpenFile {
 public:
  explicit OpenFile(const fs::path& path)
      : path_(path), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (file_ < 0) fail();
  }
  ~OpenFile() { ::close(file_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  /// Drops the file from the page cache. Dirty pages are written first, as they cannot be dropped.
  void forget() const {
    ::fdatasync(file_);
    ::posix_fadvise(file_, 0, 0, POSIX_FADV_DONTNEED);
  }

  bool in_memory() const {
    struct statfs about {};
    return ::fstatfs(file_, &about) == 0 &&
           (about.f_type == TMPFS_MAGIC || about.f_type == RAMFS_MAGIC);
  }

  /// Reads up to about `most` bytes. Returns the number of bytes.
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
    throw std::system_error(errno, std::generic_category(), path_.string());
  }

  fs::path path_;
  int file_;
};

/// Calls act(file) for each file. Removes the files that cannot be read, and counts them in
/// `speed`.
template <class Act>
void each_readable(std::vector<fs::path>& files, ReadSpeed& speed, const Act& act) {
  std::erase_if(files, [&](const fs::path& path) {
    try {
      act(OpenFile(path));
      return false;
    } catch (const std::system_error& error) {
      if (speed.unreadable++ == 0) speed.why_unreadable = error.what();
      return true;
    }
  });
}

/// Reads the files. Returns bytes per second.
double time_reading(std::vector<fs::path>& files, ReadSpeed& speed) {
  std::vector<char> block(1 << 20);
  speed.bytes = 0;
  const double begin = steady_seconds();
  each_readable(files, speed, [&](const OpenFile& file) {
    speed.bytes += file.read(most_bytes - speed.bytes, block);
  });
  return static_cast<double>(speed.bytes) / std::max(steady_seconds() - begin, 1e-9);
}

}  // namespace

ReadSpeed measure_reading(const fs::path& data) {
  const Sample sample(data);
  auto files = sample.files();
  ReadSpeed speed;
  speed.size = sample.size();
  each_readable(files, speed, [&](const OpenFile& file) {
    file.forget();
    speed.in_memory = speed.in_memory || file.in_memory();
  });
  speed.disk = time_reading(files, speed);
  speed.cache = time_reading(files, speed);
  speed.files = static_cast<int64_t>(files.size());
  if (speed.bytes == 0)
    throw UserError("--data: " + (speed.unreadable == 0 ? data.string() + " has nothing to read"
                                                        : speed.why_unreadable));
  return speed;
}

}  // namespace composer
