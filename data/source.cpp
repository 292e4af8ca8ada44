#include "data/source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "composer/error.h"
#include "data/decode.h"

namespace composer {
namespace {

struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

[[noreturn]] void fail(const char* what) {
  throw RunError(std::string(what) + ": " + std::strerror(errno));
}

}  // namespace

void read_file(const char* path, std::vector<uint8_t>& bytes) {
  const Descriptor file{::open(path, O_RDONLY | O_CLOEXEC)};
  if (file.number < 0) fail("cannot open the file");
  struct stat status {};
  if (::fstat(file.number, &status) != 0) fail("cannot read the file");
  if (!S_ISREG(status.st_mode)) throw RunError("not a regular file");
  bytes.resize(static_cast<size_t>(status.st_size));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file.number, bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("cannot read the file");
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  bytes.resize(done);
}

void FileSource::add(const std::string& file, int64_t label) {
  begins_.push_back(paths_.size());
  paths_.append(file).push_back('\0');
  labels_.push_back(static_cast<int32_t>(label));
}

ImageView FileSource::read(int64_t index, ReadScratch& scratch) const {
  read_file(path(index), scratch.file);
  decode_image(scratch.file, scratch.image);
  if (channels_ == 1) to_gray(scratch.image);
  return scratch.image.view();
}

std::shared_ptr<Source> open_image_files(const std::vector<std::string>& files, int64_t channels) {
  auto source = std::make_shared<FileSource>(channels);
  std::vector<std::string> problems;
  for (const auto& file : files) {
    std::error_code error;
    const auto status = std::filesystem::status(file, error);
    if (!std::filesystem::exists(status)) {
      problems.push_back(file + ": no such file");
    } else if (!std::filesystem::is_regular_file(status)) {
      problems.push_back(file + ": not a file; expected a JPEG or PNG image");
    } else {
      source->add(file, 0);
    }
  }
  if (!problems.empty()) throw UserError(std::move(problems));
  return source;
}

}  // namespace composer
