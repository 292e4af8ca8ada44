// Objects of a store: an S3-compatible bucket, or files of a web server.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/remote/remote_options.h"
#include "base/remote/remote_path.h"

namespace composer {

class AtomicFile;

/// An object as the store described it.
struct ObjectInfo {
  std::string key;
  uint64_t bytes = 0;
  std::string etag;  ///< with its quotes; empty when the store gives none
};

/// The last failure of a request that was repeated for long. Other requests to the store then fail
/// at once instead of repeating as long.
class LongFailure {
 public:
  /// Calls request(). When it throws RunError after more than 2 seconds, calls of the next 30
  /// seconds throw the same RunError without calling theirs.
  void watch(const std::function<void()>& request);

 private:
  std::mutex lock_;
  std::string text_;
  double until_ = 0;
  std::atomic<bool> there_{false};
};

/// One bucket, or one web server. Many threads may call its functions, which wait for the answer;
/// connections are kept and shared. Transient failures are retried (docs/remote.md). Other failures
/// are RunError with the object's path, the status and the store's message, or UserError when the
/// user has to act: credentials, a missing object or bucket, a wrong region, an unknown host.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  /// An object's description; nothing when it does not exist.
  virtual std::optional<ObjectInfo> stat(const std::string& key) = 0;
  /// Reads bytes [begin, begin + into.size()) of the object that `info` describes. RunError when
  /// the object has changed, and has another ETag.
  virtual void read(const ObjectInfo& info, uint64_t begin, std::span<uint8_t> into) = 0;
  /// All objects whose keys begin with the prefix, sorted by key. UserError for a web server, which
  /// cannot list.
  virtual std::vector<ObjectInfo> list(const std::string& prefix) = 0;
  /// Folders (ending in '/') and objects directly below the prefix, as list().
  virtual std::vector<std::string> list_folder(const std::string& prefix) = 0;
  /// Writes a local file to the object, which appears at once and whole. Large files are sent in
  /// parts.
  virtual void write(const std::string& key, const std::filesystem::path& file) = 0;
  virtual void write(const std::string& key, std::span<const uint8_t> bytes) = 0;
  /// Removes the object, if it exists.
  virtual void remove(const std::string& key) = 0;

  /// The last long failure of a read.
  LongFailure& long_failure() { return long_failure_; }

 private:
  LongFailure long_failure_;
};

/// The store of the path; the same object for the same bucket or server while anybody holds it.
/// outlasts_signal: requests after a signal (base/process/interrupt.h) are waited for and repeated
/// as before it; otherwise they have a few seconds.
std::shared_ptr<ObjectStore> open_store(const RemotePath& path, const RemoteOptions& options = {},
                                        bool outlasts_signal = false);

/// Writes the object to a file, in parts that are read concurrently and written as they arrive.
/// arrived: called with the number of bytes so far, by one thread at a time. The store's errors,
/// and RunError when the file cannot be written.
void download(
    ObjectStore& store, const ObjectInfo& object, AtomicFile& out,
    const std::function<void(uint64_t bytes)>& arrived = [](uint64_t) {});

/// A file to be written and then sent to a store. It is in its own folder below the system's
/// temporary folder, which is removed with this object.
class ObjectUpload {
 public:
  /// output: the object's path. UserError when the folder cannot be made.
  explicit ObjectUpload(const std::string& output);
  ~ObjectUpload();
  ObjectUpload(const ObjectUpload&) = delete;
  ObjectUpload& operator=(const ObjectUpload&) = delete;

  /// The file to write; it has the object's name.
  std::filesystem::path file() const { return folder_ / path_.name(); }
  /// Sends the written file, once. The file is unlinked first, so that a kill leaves nothing
  /// behind. Throws RunError when it cannot be read, and the errors of ObjectStore::write().
  void send();

 private:
  RemotePath path_;
  std::filesystem::path folder_;
  int file_ = -1;
};

}  // namespace composer
