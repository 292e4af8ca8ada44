#include "composer/storage/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <tuple>
#include <utility>

#include "composer/error.h"
#include "composer/logging/log.h"
#include "composer/storage/host_name.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

constexpr off_t room = 64 << 10;

/// "process 4711 on box since 2026-11-22 09:30:00".
std::string this_process() {
  const std::time_t now = std::time(nullptr);
  char time[32];
  std::strftime(time, sizeof time, "%Y-%m-%d %H:%M:%S", std::localtime(&now));
  return "process " + std::to_string(::getpid()) + " on " + host_name() + " since " + time;
}

std::string text_of(int file) {
  char text[512];
  const ssize_t size = ::pread(file, text, sizeof text, 0);
  return {text, static_cast<size_t>(size > 0 ? size : 0)};
}

/// False when the holder removed it, which every holder does at its end.
bool is_still_there(int file, const fs::path& path) {
  struct stat held {
  }, named{};
  return ::fstat(file, &held) == 0 && ::stat(path.c_str(), &named) == 0 &&
         held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

}  // namespace

RunLock::RunLock(fs::path folder) : folder_(std::move(folder)), path_(folder_ / ".lock") {
  while (!take()) {
  }
  const auto text = this_process();
  text_size_ = text.size();
  if (::ftruncate(file_, 0) != 0 ||
      ::pwrite(file_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    log::warn(path_.string() + ": could not note who runs here: " + std::strerror(errno));
  // Blocks behind the end, where the file system can keep some; else there is none to free.
  std::ignore = ::fallocate(file_, FALLOC_FL_KEEP_SIZE, 0, room);
}

/// False when the folder or the file vanished with their holder meanwhile.
bool RunLock::take() {
  std::error_code problem;
  made_folder_ |= fs::create_directory(folder_, problem);
  if (problem)
    throw UserError("run_dir: " + folder_.string() + " cannot be made: " + problem.message());
  file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0 && errno == ENOENT) return false;
  if (file_ < 0)
    throw UserError("run_dir: " + path_.string() + " cannot be written: " + std::strerror(errno));
  if (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    const auto holder = text_of(file_);
    if (error == EWOULDBLOCK) {
      ::close(std::exchange(file_, -1));
      throw UserError("run_name: the run folder " + folder_.string() + " is in use by " +
                      (holder.empty() ? "another process" : holder) +
                      "; wait for it, or give another --run_name");
    }
    log::warn(path_.string() + ": " + std::strerror(error) +
              ": this file system has no locks; take care that one process at a time uses the run "
              "folder");
  }
  if (is_still_there(file_, path_)) return true;
  ::close(std::exchange(file_, -1));
  return false;
}

void RunLock::free_room() const {
  std::ignore = ::ftruncate(file_, static_cast<off_t>(text_size_));
}

RunLock::~RunLock() {
  ::unlink(path_.c_str());
  ::rmdir(folder_.c_str());
  ::close(file_);
}

}  // namespace composer
