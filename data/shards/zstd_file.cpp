#include "data/shards/zstd_file.h"

#include <zstd.h>

#include <utility>

#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/files/mapped_file.h"
#include "base/remote/leaving.h"
#include "base/several_threads.h"

namespace composer {
namespace {

/// Passes the content of the frames, at most `bytes`, piece by piece to take(). Throws DamagedFile
/// naming the file where the frames are damaged, or do not match `bytes` and `hashes`; RunError
/// where this thread is to leave (LeaveWhen).
void unpack(std::span<const uint8_t> packed, const std::string& name, uint64_t bytes,
            const FileHashes& hashes,
            const std::function<void(std::span<const uint8_t> piece)>& take) {
  const auto fail = [&](const std::string& problem) { return DamagedFile(name + ": " + problem); };
  const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(),
                                                                   ZSTD_freeDCtx);
  if (!context) throw RunError("no memory to unpack " + name);
  HashCheck check(hashes);
  std::vector<uint8_t> block(ZSTD_DStreamOutSize());
  ZSTD_inBuffer in{packed.data(), packed.size(), 0};
  uint64_t done = 0;
  size_t wanted = 1;  // 0: a frame has ended
  bool full = false;
  while (in.pos < in.size || full) {
    if (LeaveWhen::asked()) throw RunError(name + ": nobody waits for it any more");
    ZSTD_outBuffer here{block.data(), block.size(), 0};
    wanted = ZSTD_decompressStream(context.get(), &here, &in);
    if (ZSTD_isError(wanted)) throw fail(std::string("damaged: ") + ZSTD_getErrorName(wanted));
    const std::span<const uint8_t> piece(block.data(), here.pos);
    done += piece.size();
    if (done > bytes)
      throw fail("holds more than the " + std::to_string(bytes) + " bytes that the index says");
    take(piece);
    check.update(piece);
    full = wanted != 0 && here.pos == here.size;
  }
  if (wanted != 0) throw fail("cut off");
  if (done != bytes)
    throw fail("holds " + std::to_string(done) + " of the " + std::to_string(bytes) +
               " bytes that the index says");
  if (const auto problem = check.problem(); !problem.empty())
    throw fail("does not hold what the index says: " + problem);
}

/// Fetches the whole object, with several threads, which leave when this thread does.
void fetch_whole(const RemoteBytes::Fetch& fetch, LongFailure* failure, std::span<uint8_t> into) {
  constexpr uint64_t kRequestBytes = 8 << 20, kRequests = 16;
  const auto& leaving = LeaveWhen::flag();
  const auto fetch_part = [&](uint64_t part) {
    const LeaveWhen same(leaving);
    const uint64_t begin = part * kRequestBytes;
    const auto bytes = into.subspan(begin, std::min(kRequestBytes, into.size() - begin));
    if (failure != nullptr) {
      failure->watch([&] { fetch(begin, bytes); });
    } else {
      fetch(begin, bytes);
    }
  };
  in_several_threads((into.size() + kRequestBytes - 1) / kRequestBytes, fetch_part, kRequests);
}

}  // namespace

void unpack_zstd(const std::filesystem::path& from, const std::filesystem::path& to, uint64_t bytes,
                 const FileHashes& hashes) {
  const MappedFile file(from);
  AtomicFile out(to);
  file.use_all([&](std::span<const uint8_t> packed) {
    unpack(packed, from.string(), bytes, hashes,
           [&](std::span<const uint8_t> piece) { out.write(piece); });
    return true;
  });
  out.commit();
}

RemoteBytes unpacked_bytes(RemoteBytes object, PackedFile file) {
  BlockBounds bounds;
  bounds.add(file.bytes);
  auto unpacked = [name = object.name, packed_bytes = object.bounds.bytes,
                   fetch = std::move(object.fetch), failure = std::move(object.failure),
                   file = std::move(file)](uint64_t begin, std::span<uint8_t> into) {
    const auto memory = std::make_unique_for_overwrite<uint8_t[]>(packed_bytes);
    const std::span<uint8_t> packed(memory.get(), packed_bytes);
    fetch_whole(fetch, failure.get(), packed);
    HashCheck check(file.packed_hashes);
    check.update(packed);
    if (const auto problem = check.problem(); !problem.empty())
      throw DamagedFile(name + ": damaged: " + problem);
    uint64_t done = 0;
    unpack(packed, name, file.bytes, file.hashes, [&](std::span<const uint8_t> piece) {
      const uint64_t from = std::max(begin, done);
      const uint64_t to = std::min(begin + into.size(), done + piece.size());
      if (from < to) std::memcpy(&into[from - begin], &piece[from - done], to - from);
      done += piece.size();
    });
  };
  const std::string identity = object.identity.empty() ? object.name : object.identity;
  return {.name = std::move(object.name),
          .version = std::move(object.version),
          .bounds = std::move(bounds),
          .fetch = std::move(unpacked),
          .failure = nullptr,
          .identity = identity + " unpacked",
          .may_expire = object.may_expire,
          .fetch_memory = object.bounds.bytes};
}

}  // namespace composer
