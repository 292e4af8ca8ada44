#include "base/remote/remote_bytes.h"

#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace composer {
namespace {

/// The descriptions of many objects in little memory.
struct PackedInfos {
  BlockBounds bounds;
  std::string texts;  ///< key and ETag of each object, each ending with a 0
  std::vector<size_t> begins;

  void add(const ObjectInfo& object) {
    bounds.add(object.bytes);
    begins.push_back(texts.size());
    texts.append(object.key).push_back('\0');
    texts.append(object.etag).push_back('\0');
  }
  ObjectInfo info(uint64_t number) const {
    ObjectInfo object;
    object.key = texts.c_str() + begins[number];
    object.bytes = bounds.end(number) - bounds.begin(number);
    object.etag = texts.c_str() + begins[number] + object.key.size() + 1;
    return object;
  }
};

bool has_query(const RemotePath& store, const std::string& key) {
  return store.scheme() != RemotePath::Scheme::s3 && key.find('?') != key.npos;
}

/// The key without the signatures of its query.
std::string key_without_signature(const RemotePath& store, const std::string& key) {
  return has_query(store, key) ? store.with_key(key).identity() : key;
}

}  // namespace

RemoteBytes bytes_of(std::shared_ptr<ObjectStore> store, const RemotePath& path,
                     const ObjectInfo& object) {
  constexpr uint64_t kBlockBytes = 64 << 10;
  std::shared_ptr<LongFailure> failure(store, &store->long_failure());
  return {
      .name = path.text(),
      .version = object.etag + " " + std::to_string(object.bytes),
      .bounds = {.bytes = object.bytes, .block_bytes = kBlockBytes},
      .fetch = [store = std::move(store), object](
                   uint64_t begin, std::span<uint8_t> into) { store->read(object, begin, into); },
      .failure = std::move(failure),
      .identity = path.identity(),
      .may_expire = has_query(path, path.key())};
}

RemoteBytes bytes_at(const RemotePath& path, const RemoteOptions& options) {
  auto store = open_store(path, options);
  const auto object = store->stat(path.key());
  if (!object) throw UserError(path.text() + ": there is no such object");
  return bytes_of(std::move(store), path, *object);
}

RemoteBytes bytes_of(std::shared_ptr<ObjectStore> store, std::string name,
                     const std::vector<ObjectInfo>& objects) {
  auto all = std::make_shared<PackedInfos>();
  uint64_t sum = fnv1a("");  // over all that tells versions apart, a zero byte behind each text
  const auto mix = [&](const std::string& text) { sum = fnv1a({"", 1}, fnv1a(text, sum)); };
  const RemotePath server(name.substr(0, name.find('/', name.find("://") + 3) + 1));
  bool may_expire = false;
  for (const ObjectInfo& object : objects) {
    all->add(object);
    may_expire = may_expire || has_query(server, object.key);
    mix(key_without_signature(server, object.key)), mix(object.etag),
        mix(std::to_string(object.bytes));
  }
  std::shared_ptr<LongFailure> failure(store, &store->long_failure());
  return {.name = std::move(name),
          .version = std::to_string(sum),
          .bounds = all->bounds,
          .fetch =
              [store = std::move(store), all](uint64_t begin, std::span<uint8_t> into) {
                const uint64_t block = all->bounds.at(begin);
                store->read(all->info(block), begin - all->bounds.begin(block), into);
              },
          .failure = std::move(failure),
          .may_expire = may_expire};
}

}  // namespace composer
