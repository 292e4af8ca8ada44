// A library to preload: files below a folder answer late, each time they are opened and read, as on
// a network's file system.
//
//   LD_PRELOAD=build/release/bin/libslow_folder.so COMPOSER_SLOW_FOLDER=/photos COMPOSER_SLOW_MS=30
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

namespace {

std::array<std::atomic<bool>, 65536> slow_files;

bool is_below(const char* path) {
  static const char* const folder = std::getenv("COMPOSER_SLOW_FOLDER");
  return folder != nullptr && std::string_view(path).starts_with(folder);
}

void wait() {
  static const char* const milliseconds = std::getenv("COMPOSER_SLOW_MS");
  static const std::chrono::milliseconds time(milliseconds != nullptr ? std::atoi(milliseconds)
                                                                      : 30);
  std::this_thread::sleep_for(time);
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

/// Of the opening of a file below the folder.
template <class Open>
int opened(const char* path, Open open) {
  const bool slow = is_below(path);
  if (slow) wait();
  const int file = open();
  if (file >= 0 && static_cast<size_t>(file) < slow_files.size())
    slow_files[static_cast<size_t>(file)] = slow;
  return file;
}

mode_t mode_of(int flags, va_list rest) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  static auto* const real = next<int(const char*, int, ...)>("open");
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_of(flags, rest);
  va_end(rest);
  return opened(path, [&] { return real(path, flags, mode); });
}

int open64(const char* path, int flags, ...) {
  static auto* const real = next<int(const char*, int, ...)>("open64");
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_of(flags, rest);
  va_end(rest);
  return opened(path, [&] { return real(path, flags, mode); });
}

int openat(int folder, const char* path, int flags, ...) {
  static auto* const real = next<int(int, const char*, int, ...)>("openat");
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_of(flags, rest);
  va_end(rest);
  return opened(path, [&] { return real(folder, path, flags, mode); });
}

/// What open() becomes where the compiler checks its arguments.
int __open_2(const char* path, int flags) {
  static auto* const real = next<int(const char*, int)>("__open_2");
  return opened(path, [&] { return real(path, flags); });
}

ssize_t read(int file, void* bytes, size_t most) {
  static auto* const real = next<ssize_t(int, void*, size_t)>("read");
  if (file >= 0 && static_cast<size_t>(file) < slow_files.size() &&
      slow_files[static_cast<size_t>(file)])
    wait();
  return real(file, bytes, most);
}

/// What read() becomes where the compiler checks its arguments.
ssize_t __read_chk(int file, void* bytes, size_t most, size_t) { return read(file, bytes, most); }
}
