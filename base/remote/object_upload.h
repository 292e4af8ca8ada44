// A file that is written on this machine and then becomes an object of a store.
#pragma once

#include <filesystem>
#include <string>

#include "base/remote/remote_path.h"

namespace composer {

/// It lies in a folder of its own below the system's temporary folder, which goes with this.
class ObjectUpload {
 public:
  /// output: of the object. UserError when there can be no such folder.
  explicit ObjectUpload(const std::string& output);
  ~ObjectUpload();
  ObjectUpload(const ObjectUpload&) = delete;
  ObjectUpload& operator=(const ObjectUpload&) = delete;

  /// To be written, under the object's name.
  std::filesystem::path file() const { return folder_ / path_.name(); }
  /// Once, when the file is written. It loses its name first, so that a kill leaves nothing behind.
  /// Throws RunError where it cannot be read, and as ObjectStore::write.
  void send();

 private:
  RemotePath path_;
  std::filesystem::path folder_;
  int file_ = -1;
};

}  // namespace composer
