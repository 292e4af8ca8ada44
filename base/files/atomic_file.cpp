#include "base/files/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/host_name.h"
#include "base/log.h"
#include "base/text.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view mark = ".partial-";
constexpr size_t most_waiting = 1 << 20, least_direct = 64 << 10;

struct Writer {
  std::string host;
  pid_t process;
};

/// The writer of a partial file; nothing for any other file.
std::optional<Writer> writer_of(const std::string& name) {
  const auto begin = name.rfind(mark);
  if (begin == std::string::npos) return std::nullopt;
  const auto text = std::string_view(name).substr(begin + mark.size());
  const auto last = text.rfind('-');
  const auto middle = last == std::string::npos || last == 0 ? last : text.rfind('-', last - 1);
  if (middle == std::string::npos || middle == 0) return std::nullopt;
  const auto process = to_number<pid_t>(text.substr(middle + 1, last - middle - 1));
  const auto number = to_number<pid_t>(text.substr(last + 1));
  if (process.value_or(-1) < 0 || number.value_or(-1) < 0) return std::nullopt;
  return Writer{std::string(text.substr(0, middle)), *process};
}

/// Removes the file of a writer that has ended. A writer holds a lock on its file, which ends with
/// its process in any container. On a file system without locks its process number decides. The
/// file is removed under the lock, so that no writer can take it in between.
void remove_if_dead(const fs::path& partial, const Writer& writer) {
  const int file = ::open(partial.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  const bool locked = ::flock(file, LOCK_EX | LOCK_NB) == 0;
  const bool no_locks = !locked && errno != EWOULDBLOCK;
  if (locked || (no_locks && ::kill(writer.process, 0) != 0 && errno == ESRCH))
    ::unlink(partial.c_str());
  ::close(file);
}

bool untouched_for_a_day(const fs::path& path) {
  std::error_code problem;
  const auto time = fs::last_write_time(path, problem);
  return !problem && fs::file_time_type::clock::now() - time > std::chrono::hours(24);
}

}  // namespace

std::string failure_text(const fs::path& path, int error) {
  return path.string() + ": " + std::strerror(error);
}

std::string cannot_be_written(const fs::path& path, int error) {
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  return path.string() + ": cannot be written: " + std::strerror(error) +
         (full ? " (disk full?)" : "");
}

void flush_folder(const fs::path& folder) {
  const fs::path path = folder.empty() ? "." : folder;
  const int file = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool flushed = file >= 0 && ::fsync(file) == 0;
  const int error = errno;
  if (file >= 0) ::close(file);
  if (!flushed) throw RunError(cannot_be_written(path, error));
}

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)) {
  std::error_code problem;
  const auto kind = fs::status(path_, problem).type();
  if (kind != fs::file_type::regular && kind != fs::file_type::not_found) {
    throw RunError(path_.string() + ": cannot be written: it is no regular file");
  }
  static std::atomic<int> opened{0};
  const auto beside =
      path_.string() + std::string(mark) + host_name() + "-" + std::to_string(::getpid()) + "-";
  do {
    partial_ = beside + std::to_string(opened++);
    open();
  } while (file_ < 0);
}

/// Leaves file_ at -1 when another process has the name, or removed the file before it was locked.
void AtomicFile::open() {
  file_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file_ < 0 && errno != EEXIST) fail(errno);
  if (file_ < 0) return;
  struct stat status {};
  const bool taken = ::flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (taken || ::fstat(file_, &status) != 0 || status.st_nlink == 0) close();
}

AtomicFile::~AtomicFile() {
  if (file_ < 0) return;
  ::unlink(partial_.c_str());
  close();
}

void AtomicFile::write(std::string_view text) {
  write({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

void AtomicFile::write_at(uint64_t at, std::span<const uint8_t> bytes) {
  const bool direct = bytes.size() >= least_direct;
  if (direct || at != position_ || waiting_.size() + bytes.size() > most_waiting) put_waiting();
  if (direct)
    put(at, bytes);
  else
    waiting_.insert(waiting_.end(), bytes.begin(), bytes.end());
  position_ = at + bytes.size();
}

void AtomicFile::put_waiting() {
  put(position_ - waiting_.size(), waiting_);
  waiting_.clear();
}

void AtomicFile::put(uint64_t at, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) fail(done < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(static_cast<size_t>(done));
    at += static_cast<uint64_t>(done);
  }
}

/// Closes a duplicate: a network file system reports at a close what it could not store. file_
/// keeps the lock.
void AtomicFile::put_all() {
  put_waiting();
  const int same = ::dup(file_);
  if (same < 0 || ::close(same) != 0) fail(errno);
}

void AtomicFile::set_time(fs::file_time_type time) {
  put_all();
  std::error_code problem;
  fs::last_write_time(partial_, time, problem);
  if (problem) fail(problem.value());
}

void AtomicFile::commit() {
  put_all();
  if (::rename(partial_.c_str(), path_.c_str()) != 0) fail(errno);
  close();
}

void AtomicFile::commit_to_disk() {
  put_waiting();
  if (::fsync(file_) != 0) fail(errno);
  commit();
  flush_folder(path_.parent_path());
}

void AtomicFile::close() { ::close(std::exchange(file_, -1)); }

void AtomicFile::fail(int error) const { throw RunError(cannot_be_written(path_, error)); }

void write_whole(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit_to_disk();
}

void remove_partial_files(const fs::path& folder) {
  const auto here = host_name();
  std::error_code problem;
  fs::directory_iterator entry(folder.empty() ? fs::path(".") : folder, problem), end;
  for (; !problem && entry != end; entry.increment(problem)) {
    const auto& path = entry->path();
    const auto writer = writer_of(path.filename().string());
    std::error_code ignored;
    if (!writer || !fs::is_regular_file(fs::symlink_status(path, ignored))) continue;
    if (writer->host == here) {
      remove_if_dead(path, *writer);
    } else if (untouched_for_a_day(path)) {
      log::info(path.string() + ": seems to be left by a process on " + writer->host +
                "; delete it if nothing runs there any more");
    }
  }
}

}  // namespace composer
