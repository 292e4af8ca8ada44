#include "base/remote/object_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/log.h"
#include "base/remote/credentials.h"
#include "base/remote/leaving.h"
#include "base/remote/s3_store.h"
#include "base/remote/web_store.h"
#include "base/several_threads.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

bool is_this_machine(const std::string& host) {
  return host == "localhost" || host.starts_with("127.") || host.starts_with("[::1]") ||
         host.starts_with("localhost:");
}

/// Warns once for each host.
void warn_of_plain_http(const std::string& url) {
  static std::mutex mutex;
  static std::set<std::string> warned;
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme)) return;
  const std::string rest = url.substr(kScheme.size());
  const std::string host = rest.substr(0, rest.find('/'));
  if (is_this_machine(host)) return;
  const std::lock_guard lock(mutex);
  if (warned.insert(host).second)
    log::warn("http://" + host + ": what is read and written there is not encrypted; https is");
}

}  // namespace

void LongFailure::watch(const std::function<void()>& request) {
  constexpr double kLong = 2, kPause = 30;  // seconds
  if (there_) {
    const std::lock_guard guard(lock_);
    if (steady_seconds() < until_) throw RunError(text_);
  }
  const double start = steady_seconds();
  try {
    request();
  } catch (const RunError& error) {
    if (!LeaveWhen::asked() && steady_seconds() - start > kLong) {
      const std::lock_guard guard(lock_);
      text_ = error.what(), until_ = steady_seconds() + kPause;
      there_ = true;
    }
    throw;
  }
  there_ = false;
}

std::shared_ptr<ObjectStore> open_store(const RemotePath& path, const RemoteOptions& options,
                                        bool outlasts_signal) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<ObjectStore>> stores;
  const bool s3 = path.scheme() == RemotePath::Scheme::s3;
  const S3Endpoint endpoint = s3 ? s3_endpoint(options) : S3Endpoint{};
  const std::string server = path.with_key("").text();
  warn_of_plain_http(s3 ? endpoint.endpoint_url : server);
  const std::lock_guard lock(mutex);
  auto& known = stores[server + "\n" + path.userinfo() + "\n" + endpoint.endpoint_url + "\n" +
                       endpoint.region + (outlasts_signal ? "\n" : "")];
  auto store = known.lock();
  if (!store) {
    Patience patience;
    if (outlasts_signal) patience.after_signal = std::numeric_limits<double>::infinity();
    if (s3) {
      store = std::make_shared<S3Store>(path.host(), endpoint, credential_source(), patience);
    } else {
      store = std::make_shared<WebStore>(path, patience);
    }
    known = store;
  }
  return store;
}

void download(ObjectStore& store, const ObjectInfo& object, AtomicFile& out,
              const std::function<void(uint64_t bytes)>& arrived) {
  constexpr uint64_t kRequestBytes = 8 << 20, kRequests = 16;
  std::mutex lock;
  uint64_t done = 0;
  const auto read_part = [&](uint64_t part) {
    const uint64_t begin = part * kRequestBytes;
    std::vector<uint8_t> bytes(std::min(kRequestBytes, object.bytes - begin));
    store.read(object, begin, bytes);
    const std::lock_guard guard(lock);
    out.write_at(begin, bytes);
    arrived(done += bytes.size());
  };
  in_several_threads((object.bytes + kRequestBytes - 1) / kRequestBytes, read_part, kRequests);
}

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
