#include "base/remote/download.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "base/several_threads.h"

namespace composer {

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

}  // namespace composer
