// The bytes of one object, or of many objects, of a store.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/remote/block_table.h"
#include "base/remote/object_store.h"

namespace composer {

struct RemoteBytes {
  /// Reads bytes; within one block when blocks have their own sizes. Called by many threads at
  /// once. Throws RunError, UserError.
  using Fetch = std::function<void(uint64_t begin, std::span<uint8_t> into)>;

  std::string name;     ///< the path, also for messages
  std::string version;  ///< differs when the bytes differ
  BlockBounds bounds;   ///< the blocks of the cache
  Fetch fetch;
  std::shared_ptr<LongFailure> failure;  ///< the store's; null when `fetch` uses it itself
  std::string identity{};     ///< identifies it among others of that name; empty: the name does
  bool may_expire = false;    ///< true: its address has a query, which may be a signature
  uint64_t fetch_memory = 0;  ///< bytes of memory that a fetch takes besides its result
};

/// An object in blocks of 64 KiB. A photograph takes two to three blocks, so that reading
/// photographs in any order fetches little else.
RemoteBytes bytes_of(std::shared_ptr<ObjectStore> store, const RemotePath& path,
                     const ObjectInfo& object);

/// The object at the path as it is now. Throws UserError when it does not exist.
RemoteBytes bytes_at(const RemotePath& path, const RemoteOptions& options);

/// Objects one behind another, each a block that begins at a multiple of 4 KiB. name: the path of
/// their folder or list.
RemoteBytes bytes_of(std::shared_ptr<ObjectStore> store, std::string name,
                     const std::vector<ObjectInfo>& objects);

}  // namespace composer
