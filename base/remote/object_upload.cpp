#include "base/remote/object_upload.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "base/remote/object_store.h"

namespace composer {

namespace fs = std::filesystem;

ObjectUpload::ObjectUpload(const std::string& output) : path_(output) {
  auto pattern = (fs::temp_directory_path() / "composer-write-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr)
    throw UserError(pattern +
                    ": cannot be made (TMPDIR names another folder): " + std::strerror(errno));
  folder_ = pattern;
}

ObjectUpload::~ObjectUpload() {
  if (file_ >= 0) ::close(file_);
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void ObjectUpload::send() {
  file_ = ::open(file().c_str(), O_RDONLY | O_CLOEXEC);
  if (file_ < 0) throw RunError(file().string() + ": cannot be read: " + std::strerror(errno));
  fs::remove_all(folder_);
  log::info("copying to " + path_.text());
  open_store(path_)->write(path_.key(), fs::path("/proc/self/fd/" + std::to_string(file_)));
}

}  // namespace composer
