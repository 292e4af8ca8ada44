// Whole objects into local files.
#pragma once

#include <cstdint>
#include <functional>

#include "base/files/atomic_file.h"
#include "base/remote/object_store.h"

namespace composer {

/// Writes the object's bytes to a file, in parts that are read side by side, in the order of their
/// arrival. `arrived` is told how many bytes are there, by one thread at a time. RunError and
/// UserError as the store's, and RunError where the file cannot be written.
void download(
    ObjectStore& store, const ObjectInfo& object, AtomicFile& out,
    const std::function<void(uint64_t bytes)>& arrived = [](uint64_t) {});

}  // namespace composer
