// Bytes that a store has, of one object or of many.
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
  /// Returns when the bytes, within one block where blocks have sizes of their own, are there.
  /// Called by many threads at once. Throws RunError, UserError.
  using Fetch = std::function<void(uint64_t begin, std::span<uint8_t> into)>;

  std::string name;     ///< the path, for people too
  std::string version;  ///< another one where the bytes are others
  BlockBounds bounds;   ///< in what pieces they are kept
  Fetch fetch;
  std::shared_ptr<LongFailure> failure;  ///< of the store; null where `fetch` sees to it
  std::string identity{};   ///< what tells it from others of that name; empty: the name does
  bool may_expire = false;  ///< whether a query, which may be a signature, says how it is asked for
  uint64_t fetch_memory = 0;  ///< that a fetch takes beside what it gives
};

/// An object, in blocks of 64 KiB: two to three of them have a photograph, so that reading them in
/// any order brings little else.
RemoteBytes bytes_of(std::shared_ptr<ObjectStore> store, const RemotePath& path,
                     const ObjectInfo& object);

/// The object that is there now. Throws UserError where there is none.
RemoteBytes bytes_at(const RemotePath& path, const RemoteOptions& options);

/// Objects one behind another, each a block that begins at a multiple of 4 KiB. name: of their
/// folder or list.
RemoteBytes bytes_of(std::shared_ptr<ObjectStore> store, std::string name,
                     const std::vector<ObjectInfo>& objects);

}  // namespace composer
