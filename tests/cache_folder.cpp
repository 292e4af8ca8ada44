// No test touches the user's cache: all of a test program, and what it starts, have one of their
// own.
#include <cstdlib>

#include "tests/temporary_folder.h"

namespace {

struct CacheFolder {
  composer::TemporaryFolder folder;
  CacheFolder() { ::setenv("XDG_CACHE_HOME", folder.path().c_str(), 1); }
};

const CacheFolder cache;

}  // namespace
