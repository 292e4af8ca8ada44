// Objects of a store that is reached over HTTP: an S3-compatible bucket, or files of a web server.
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
  std::string etag;  ///< with its quotes; empty where the store has none
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

/// One bucket, or one web server. Functions are called by many threads at once, each of which waits
/// for its answer; connections are kept and shared. All retry what may pass (docs/remote.md), and
/// throw RunError with the object's path, the status and the store's own words where it does not;
/// UserError where the user has to act: credentials, a missing object or bucket, a wrong region, a
/// host that is not there.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  /// Nothing where there is no such object.
  virtual std::optional<ObjectInfo> stat(const std::string& key) = 0;
  /// Bytes [begin, begin + into.size()) of the object as `info` describes it. RunError, which says
  /// that the object has changed, where it has another ETag by now.
  virtual void read(const ObjectInfo& info, uint64_t begin, std::span<uint8_t> into) = 0;
  /// All objects whose keys begin with the prefix, sorted by key. A web server cannot list:
  /// UserError.
  virtual std::vector<ObjectInfo> list(const std::string& prefix) = 0;
  /// Folders (ending in '/') and objects directly below the prefix, as list().
  virtual std::vector<std::string> list_folder(const std::string& prefix) = 0;
  /// The local file's bytes become the object, at once and whole, in parts where it is large.
  virtual void write(const std::string& key, const std::filesystem::path& file) = 0;
  virtual void write(const std::string& key, std::span<const uint8_t> bytes) = 0;
  /// Nothing happens where there is no such object.
  virtual void remove(const std::string& key) = 0;

  /// Of reads.
  LongFailure& long_failure() { return long_failure_; }

 private:
  LongFailure long_failure_;
};

/// The store that the path lies in; the same object for the same bucket or server while somebody
/// holds it. outlasts_signal: what it is asked after a signal (base/process/interrupt.h) is waited
/// for and repeated as before it; otherwise it has a few seconds.
std::shared_ptr<ObjectStore> open_store(const RemotePath& path, const RemoteOptions& options = {},
                                        bool outlasts_signal = false);

/// Writes the object's bytes to a file, in parts that are read side by side, in the order of their
/// arrival. `arrived` is told how many bytes are there, by one thread at a time. RunError and
/// UserError as the store's, and RunError where the file cannot be written.
void download(
    ObjectStore& store, const ObjectInfo& object, AtomicFile& out,
    const std::function<void(uint64_t bytes)>& arrived = [](uint64_t) {});

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
