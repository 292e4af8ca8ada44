#include "data/shards/zstd_file.h"

#include <zstd.h>

#include <memory>
#include <string>
#include <vector>

#include "composer/error.h"
#include "composer/storage/atomic_file.h"
#include "composer/storage/mapped_file.h"

namespace composer {

void unpack_zstd(const std::filesystem::path& from, const std::filesystem::path& to, uint64_t bytes,
                 const FileHashes& hashes) {
  const auto fail = [&](const std::string& problem) {
    return UserError(from.string() + ": " + problem);
  };
  const MappedFile file(from);
  const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(),
                                                                   ZSTD_freeDCtx);
  if (!context) throw RunError("no memory to unpack " + from.string());
  AtomicFile out(to);
  HashCheck check(hashes);
  std::vector<uint8_t> block(ZSTD_DStreamOutSize());
  file.use_all([&](std::span<const uint8_t> packed) {
    ZSTD_inBuffer in{packed.data(), packed.size(), 0};
    size_t wanted = 1;  // 0: a frame has ended
    bool full = false;
    while (in.pos < in.size || full) {
      ZSTD_outBuffer here{block.data(), block.size(), 0};
      wanted = ZSTD_decompressStream(context.get(), &here, &in);
      if (ZSTD_isError(wanted)) throw fail(std::string("damaged: ") + ZSTD_getErrorName(wanted));
      out.write({block.data(), here.pos});
      check.update({block.data(), here.pos});
      if (out.position() > bytes)
        throw fail("holds more than the " + std::to_string(bytes) + " bytes that the index says");
      full = here.pos == here.size;
    }
    if (wanted != 0) throw fail("cut off");
    return true;
  });
  if (out.position() != bytes)
    throw fail("holds " + std::to_string(out.position()) + " of the " + std::to_string(bytes) +
               " bytes that the index says");
  if (const auto problem = check.problem(); !problem.empty())
    throw fail("does not hold what the index says: " + problem);
  out.commit();
}

}  // namespace composer
