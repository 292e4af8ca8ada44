#include "composer/logging/growing_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files/atomic_file.h"

namespace composer {
namespace {

constexpr size_t most_kept = 64 << 20;

}  // namespace

GrowingFile::~GrowingFile() { close(); }

void GrowingFile::open(const std::filesystem::path& path, bool fresh) {
  close();
  path_ = path;
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (fresh ? O_TRUNC : 0), 0666);
  const off_t end = file_ < 0 ? -1 : ::lseek(file_, 0, SEEK_END);
  if (end < 0) throw RunError(cannot_be_written(path, errno));
  end_ = static_cast<uint64_t>(end);
}

void GrowingFile::close() {
  if (file_ >= 0) ::close(std::exchange(file_, -1));
}

void GrowingFile::add(std::string_view piece) {
  if (waiting_.size() + piece.size() > most_kept) {
    ++dropped_;
    return;
  }
  waiting_ += piece;
  sizes_.push_back(piece.size());
}

void GrowingFile::write() {
  if (file_ < 0 && !path_.empty()) open(std::filesystem::path(path_), /*fresh=*/false);
  size_t written = 0;
  while (written < waiting_.size()) {
    const ssize_t size = ::pwrite(file_, waiting_.data() + written, waiting_.size() - written,
                                  static_cast<off_t>(end_ + written));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) {
      const int error = size < 0 ? errno : ENOSPC;
      drop_written(written);
      // Removes the part of a cut piece. If even that fails, readers skip it.
      if (::ftruncate(file_, static_cast<off_t>(end_)) != 0) errno = error;
      throw RunError(cannot_be_written(path_, error));
    }
    written += static_cast<size_t>(size);
  }
  drop_written(written);
}

void GrowingFile::drop_written(size_t bytes) {
  size_t whole = 0;
  while (!sizes_.empty() && whole + sizes_.front() <= bytes) {
    whole += sizes_.front();
    sizes_.pop_front();
  }
  waiting_.erase(0, whole);
  end_ += whole;
}

void GrowingFile::finish() {
  std::string problem;
  try {
    write();
  } catch (const RunError& error) {
    problem = error.what();
  }
  const auto missing = dropped_ + std::ssize(sizes_);
  if (missing > 0)
    throw RunError(std::to_string(missing) + " records are missing" +
                   (problem.empty() ? "" : ": " + problem));
}

void for_earlier_lines(const std::filesystem::path& file,
                       const std::function<void(const std::string& line)>& use) {
  std::error_code error;
  if (std::filesystem::status(file, error).type() == std::filesystem::file_type::not_found) return;
  errno = 0;
  std::ifstream in(file);
  const bool opened = in.is_open();
  for (std::string line; std::getline(in, line);) use(line);
  if (!opened || in.bad())
    throw RunError(file.string() + ": is there, but cannot be read: " +
                   std::generic_category().message(errno != 0 ? errno : EIO));
}

}  // namespace composer
